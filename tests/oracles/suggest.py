"""The suggestion models as literal loops: one session, one query, one token after the other."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from ensue.nn.recurrent import BiLSTM
from ensue.nn.transformer import Attention, DecoderLayer, EncoderLayer, FeedForward
from ensue.tasks.suggest.batch import BEGIN, END, UNKNOWN
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.models.recurrent import HLSTM, RecurrentWriter, Seq2Seq
from ensue.tasks.suggest.models.transformers import Transformer
from ensue.tasks.suggest.models.words import TokenTable
from ensue.tasks.suggest.models.writer import QueryWriter

Vectors = list[Tensor]


def norm(vector: Tensor, layer: nn.LayerNorm) -> Tensor:
    centred = vector - vector.mean()
    return layer.weight * centred / (centred.square().mean() + layer.eps).sqrt() + layer.bias


def softmax(scores: Vectors) -> Vectors:
    powers = [torch.exp(score) for score in scores]
    return [power / torch.stack(powers).sum() for power in powers]


def code(place: int, dim: int) -> Tensor:
    values = []
    for column in range(dim):
        angle = place / 10_000 ** (2 * (column // 2) / dim)
        values.append(math.sin(angle) if column % 2 == 0 else math.cos(angle))
    return torch.tensor(values, dtype=torch.float64)


def attend(attention: Attention, query: Tensor, seen: Vectors) -> tuple[Tensor, Vectors]:
    """One query and what it sees; the output, and the mean weight of each over the heads."""
    dim, heads = attention.dim, attention.heads
    weights, biases = torch.split(attention.inward.weight, dim), torch.split(attention.inward.bias, dim)
    made, shares = [], []
    for head in range(heads):
        part = slice(head * dim // heads, (head + 1) * dim // heads)
        asked = (weights[0] @ query + biases[0])[part]
        keys = [(weights[1] @ item + biases[1])[part] for item in seen]
        values = [(weights[2] @ item + biases[2])[part] for item in seen]
        share = softmax([asked @ key / math.sqrt(dim / heads) for key in keys])
        made.append(torch.stack([s * value for s, value in zip(share, values, strict=True)]).sum(0))
        shares.append(share)
    mean = [torch.stack([share[place] for share in shares]).mean() for place in range(len(seen))]
    return attention.outward.weight @ torch.cat(made) + attention.outward.bias, mean


def feed(layer: FeedForward, vector: Tensor) -> Tensor:
    hidden = torch.clamp(layer.wide.weight @ vector + layer.wide.bias, min=0)
    return layer.narrow.weight @ hidden + layer.narrow.bias


def encoder_layer(layer: EncoderLayer, vectors: Vectors, sees: list[list[int]]) -> Vectors:
    made = []
    for place, vector in enumerate(vectors):
        mixed, _ = attend(layer.attention, vector, [vectors[other] for other in sees[place]])
        inner = norm(vector + mixed, layer.attended)
        made.append(norm(inner + feed(layer.feed, inner), layer.fed))
    return made


def decoder_layer(layer: DecoderLayer, vectors: Vectors, memory: Vectors) -> tuple[Vectors, list[Vectors]]:
    made, weights = [], []
    for place, vector in enumerate(vectors):
        inner = norm(vector + attend(layer.own, vector, vectors[: place + 1])[0], layer.written)
        mixed, share = attend(layer.other, inner, memory)
        inner = norm(inner + mixed, layer.read)
        made.append(norm(inner + feed(layer.feed, inner), layer.fed))
        weights.append(share)
    return made, weights


def look(writer: QueryWriter, ids: list[int]) -> Vectors:
    vectors = []
    for place, id in enumerate(ids):
        vector = writer.words.table.weight[id]
        if isinstance(writer.widen, nn.Linear):
            vector = writer.widen.weight @ vector + writer.widen.bias
        vectors.append(math.sqrt(writer.dim) * vector + code(place, writer.dim))
    return vectors


def shares_of_words(words: TokenTable, state: Tensor) -> Tensor:
    """(ids,) probabilities; padding has none."""
    if isinstance(words.narrow, nn.Linear):
        state = words.narrow.weight @ state
    table = words.table.weight if words.weight is None else words.weight
    scores = [table[id] @ state + words.bias[id] for id in range(UNKNOWN, len(table))]
    return torch.stack([torch.zeros_like(scores[0]), *softmax(scores)])


def written(writer: QueryWriter, memory: Vectors, source: list[int], target: list[int]) -> list[Tensor]:
    """(ids,) probabilities at each token of the target and at its end."""
    vectors = look(writer, [BEGIN, *target])
    weights: list[Vectors] = []
    for layer in writer.layers:
        assert isinstance(layer, DecoderLayer)
        vectors, weights = decoder_layer(layer, vectors, memory)
    found = []
    for vector, share in zip(vectors, weights, strict=True):
        shares = shares_of_words(writer.words, vector)
        if writer.gate is not None:
            gate = torch.sigmoid(writer.gate.weight[0] @ vector + writer.gate.bias[0])
            copied = torch.zeros_like(shares)
            for id, part in zip(source, share, strict=True):
                copied = copied + part * nn.functional.one_hot(torch.tensor(id), len(shares))
            shares = gate * shares + (1 - gate) * copied
        found.append(shares)
    return found


def mtn_memory(model: MTN, session: list[list[int]], units: list[list[int]] | None = None) -> tuple[Vectors, list[int]]:
    """What the decoder reads after the last query of a session (or of all sessions of a user), and its ids."""
    tokens, queries = [], []
    for query in session:
        vectors = look(model.writer, query)
        for layer in model.query_layers:
            assert isinstance(layer, EncoderLayer)
            vectors = encoder_layer(layer, vectors, [list(range(len(query)))] * len(query))
        tokens.append(vectors)
        if model.project.weights is None:
            queries.append(torch.stack(vectors).mean(0))
        else:
            last = len(model.project.weights) - 1
            queries.append(
                sum((model.project.weights[min(k, last)] * v for k, v in enumerate(vectors)), torch.zeros(()))
            )
    count = len(session)
    numbers = [list(range(count)), *(units or []), [0] * count]
    levels = []
    rows = queries
    for number, layers in enumerate(model.levels):
        unit, above = numbers[number], numbers[number + 1]
        sees: list[list[int]] = []
        for i in range(count):
            ends = [j for j in range(i) if unit[j] != unit[i] and unit[j + 1] != unit[j] and above[j] == above[i]]
            sees.append([*ends, i])
        rows = [row + code(len(sees[i]) - 1, model.settings.dim) for i, row in enumerate(rows)]
        for layer in cast(nn.ModuleList, layers):
            assert isinstance(layer, EncoderLayer)
            rows = encoder_layer(layer, rows, sees)
        levels.append(rows)
    for number in range(len(levels) - 2, -1, -1):
        added = model.added[number + 1]
        assert isinstance(added, nn.LayerNorm)
        rows = [norm(low + high, added) for low, high in zip(levels[number], rows, strict=True)]
    added = model.added[0]
    assert isinstance(added, nn.LayerNorm)
    every = [[norm(token + row, added) for token in query] for query, row in zip(tokens, rows, strict=True)]
    read = [count - 1]
    if model.settings.reads == "all":
        read = [i for i in range(count) if numbers[1][i] == numbers[1][-1]]
    return [token for i in read for token in every[i]], [id for i in read for id in session[i]]


def transformer_memory(model: Transformer, session: list[list[int]]) -> tuple[Vectors, list[int]]:
    source = [id for query in session[-model.settings.window :] for id in [*query, END]]
    vectors = look(model.writer, source)
    for layer in model.layers:
        assert isinstance(layer, EncoderLayer)
        vectors = encoder_layer(layer, vectors, [list(range(len(source)))] * len(source))
    return vectors, source


def lstm(layer: nn.LSTM, items: Vectors, state: Tensor, cell: Tensor) -> tuple[Vectors, Tensor]:
    """Every state, and the last cell."""
    states, weights = [], dict(layer.named_parameters())
    for item in items:
        gates = weights["weight_ih_l0"] @ item + weights["bias_ih_l0"]
        gates = gates + weights["weight_hh_l0"] @ state + weights["bias_hh_l0"]
        inlet, forget, new, outlet = gates.chunk(4)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(inlet) * torch.tanh(new)
        state = torch.sigmoid(outlet) * torch.tanh(cell)
        states.append(state)
    return states, cell


def both_ways(reader: BiLSTM, items: Vectors) -> tuple[Vectors, Tensor]:
    """The states of both directions, and the last of each."""
    zero = torch.zeros(reader.hidden, dtype=torch.float64)
    forth, _ = lstm(reader.forth, items, zero, zero)
    back = lstm(reader.back, items[::-1], zero, zero)[0][::-1]
    return [torch.cat(pair) for pair in zip(forth, back, strict=True)], torch.cat([forth[-1], back[0]])


def heard(writer: RecurrentWriter, ids: list[int]) -> Vectors:
    table = writer.words.table
    return [math.sqrt(table.embedding_dim) * table.weight[id] for id in ids]


def told(writer: RecurrentWriter, start: Tensor, memory: Vectors, target: list[int]) -> list[Tensor]:
    """(ids,) probabilities at each token of the target and at its end."""
    state, cell = torch.tanh(writer.first.weight @ start + writer.first.bias).chunk(2)
    items = heard(writer, [BEGIN, *target])
    states, _ = lstm(writer.lstm, items, state, cell)
    found = []
    for item, hidden in zip(items, states, strict=True):
        if writer.score is None:
            joined = writer.joined.weight @ torch.cat([hidden, item]) + writer.joined.bias
        else:
            share = softmax([writer.score.weight @ hidden @ other for other in memory])
            context = torch.stack([s * other for s, other in zip(share, memory, strict=True)]).sum(0)
            joined = torch.tanh(writer.joined.weight @ torch.cat([context, hidden]) + writer.joined.bias)
        found.append(shares_of_words(writer.words, joined))
    return found


def seq2seq(model: Seq2Seq, session: list[list[int]], target: list[int]) -> list[Tensor]:
    states, last = both_ways(model.reader, heard(model.writer, session[-1]))
    return told(model.writer, last, states, target)


def hlstm(model: HLSTM, session: list[list[int]], target: list[int]) -> list[Tensor]:
    queries = []
    for query in session:
        states, last = both_ways(model.reader, heard(model.writer, query))
        queries.append(torch.stack(states).amax(0) if model.settings.pooling == "max" else last)
    zero = torch.zeros(model.settings.dim, dtype=torch.float64)
    return told(model.writer, lstm(model.sessions, queries, zero, zero)[0][-1], [], target)


def next_word_shares(
    model: nn.Module, session: list[list[int]], target: list[int], units: list[list[int]] | None = None
) -> list[Tensor]:
    """(ids,) probabilities of any of the models at each token of the target and at its end."""
    if isinstance(model, MTN):
        return written(model.writer, *mtn_memory(model, session, units), target)
    if isinstance(model, Transformer):
        return written(model.writer, *transformer_memory(model, session), target)
    assert isinstance(model, Seq2Seq | HLSTM)
    return seq2seq(model, session, target) if isinstance(model, Seq2Seq) else hlstm(model, session, target)


def target_log_likelihoods(
    model: nn.Module, session: list[list[int]], target: list[int], units: list[list[int]] | None = None
) -> list[Tensor]:
    """The log-probability of each token of the target and of its end."""
    shares = next_word_shares(model, session, target, units)
    return [share[id].log() for share, id in zip(shares, [*target, END], strict=True)]
