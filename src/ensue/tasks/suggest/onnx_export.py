"""Networks of task ``suggest`` as ONNX graphs: one encodes a session, one scores and continues queries, one attributes.

A host searches by the second graph: it repeats the row of a session for each query that it writes, reads ``latest`` for
the tokens that continue it, and ``totals`` for candidates of its own.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ensue.errors import SettingError
from ensue.learning.onnx_trace import Traceable, Wrapped
from ensue.learning.state import Exports
from ensue.nn.transformer import PackedRows
from ensue.tasks.suggest.batch import BEGIN, FIRST_TOKEN, PADDING, UNKNOWN, QueryBatch
from ensue.tasks.suggest.model import QueryNetwork
from ensue.tasks.suggest.models.writer import QueryWriter, WriterMemory
from ensue.tasks.suggest.onnx_network import ATTRIBUTIONS, DECODER, ENCODER
from ensue.tasks.suggest.state import SuggestState

MAX_TOKENS = 500
"""Tokens of a query that a graph knows positions of."""


def session_memory(network: QueryNetwork, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the keys, mask and words of :class:`WriterMemory` of (batch, turns, width) ids and their lengths."""
    memory: WriterMemory = network.encode(QueryBatch(words, lengths))
    # Keys of padding mean nothing, and are 0.
    return memory.keys * memory.mask[:, None, None, None, :, None], memory.mask, memory.words


def query_attributions(network: QueryNetwork, words: Tensor, lengths: Tensor, candidates: Tensor) -> Tensor:
    """Return (rows, tokens, turns, width) weights of earlier tokens in those of (rows, width) candidates."""
    return network.attributions(QueryBatch(words, lengths), candidates)


def query_scores(
    writer: QueryWriter, keys: Tensor, mask: Tensor, source: Tensor, read: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities in nats.

    Args:
        writer: of the network.
        keys: (rows, layers, 2, heads, source, dim / heads) of the sessions, as are ``mask`` and ``source``.
        mask: (rows, source) True where a token stands.
        source: (rows, source) which.
        read: (rows, length) begin and the tokens so far, 0 at padding.
        targets: (rows, length) the tokens that follow those of ``read``, 0 where none is asked for.

    Returns:
        (rows,) sum over the targets of each row; (rows, ids) of what follows the last token of ``read``.
    """
    rows = PackedRows(read.shape[0], read.shape[1])
    memory = WriterMemory(keys, mask, source, source)
    vectors, weights = writer.states(memory, read, rows, weigh=writer.gate is not None)
    by_token = vectors.view(read.shape[0], read.shape[1], writer.dim)
    log_shares = _log_shares(writer, by_token)
    # A gather asks for the targets; those of padding are left out of the sum.
    written = log_shares.gather(2, targets[..., None])[..., 0]
    # The last token of each row.
    last = ((read != PADDING).sum(1) - 1)[:, None, None]
    latest = log_shares.gather(1, last.expand(-1, -1, log_shares.shape[2]))[:, 0]
    if writer.gate is not None and weights is not None:
        gate = writer.gate(by_token)
        copied = (weights * (source[:, None] == targets[..., None])).sum(2)
        written = _mixed(written, copied, gate[..., 0])
        attention = weights.gather(1, last.expand(-1, -1, weights.shape[2]))[:, 0]
        same = (source[:, :, None] == source[:, None]) & mask[:, :, None]
        # Words of the source gain by copying; all others keep their part by the gate.
        gate = gate.gather(1, last)[:, 0]
        of_source = (attention[:, None] @ same.to(attention.dtype))[:, 0]
        mixed = _mixed(latest.gather(1, source), of_source, gate)
        latest = (latest + functional.logsigmoid(gate)).scatter(1, source, mixed)
    return torch.where(targets != PADDING, written, 0.0).sum(1), latest


def _log_shares(writer: QueryWriter, vectors: Tensor) -> Tensor:
    """Return (rows, length, ids) log-probabilities of the vocabulary; padding is practically ruled out."""
    words = writer.words
    weight = words.table.weight if words.weight is None else words.weight
    scores = functional.linear(words.narrow(vectors), weight, words.bias)
    is_padding = torch.arange(scores.shape[2]) == PADDING
    return scores.masked_fill(is_padding, torch.finfo(scores.dtype).min).log_softmax(2)


def _mixed(written: Tensor, copied: Tensor, gate: Tensor) -> Tensor:
    """Return log(g x written + (1 - g) x copied), from the logarithm of the one and the other as it is."""
    share = gate.sigmoid()
    return (share * written.exp() + (1 - share) * copied).clamp(min=torch.finfo(written.dtype).tiny).log()


def exports(state: SuggestState) -> Exports:
    """Return the graphs of a network whose decoder is a Transformer.

    Raises:
        SettingError: its decoder is an LSTM.
    """
    network = state.network
    if not isinstance(network.writer, QueryWriter):
        raise SettingError(f"{state.model_name}: its decoder has no ONNX form; export mtn or a transformer")
    num_ids = len(state.tokenizer)
    random = np.random.default_rng(0)
    module = network

    def sessions(rows: int, length: int) -> tuple[Tensor, Tensor]:
        turns = 1 + length % 3
        lengths = random.integers(1, length + 1, (rows, turns))
        # Sessions of several lengths; the first has all its queries.
        lengths[np.arange(turns) >= random.integers(1, turns + 1, rows)[:, None]] = 0
        lengths[0] = length
        words = random.integers(FIRST_TOKEN, num_ids, (rows, turns, length))
        words[np.arange(length) >= lengths[..., None]] = PADDING
        return torch.from_numpy(words), torch.from_numpy(lengths)

    def queries(rows: int, length: int) -> tuple[Tensor, ...]:
        with torch.no_grad():
            memory: WriterMemory = module.encode(QueryBatch(*sessions(rows, length)))
        targets = random.integers(UNKNOWN, num_ids, (rows, length))
        read = np.concatenate([np.full((rows, 1), BEGIN), targets[:, :-1]], axis=1)
        return memory.keys, memory.mask, memory.words, torch.from_numpy(read), torch.from_numpy(targets)

    def suggestions(rows: int, length: int) -> tuple[Tensor, ...]:
        return *sessions(rows, length), torch.from_numpy(random.integers(FIRST_TOKEN, num_ids, (rows, length)))

    axes = {0: "rows", 1: "length"}
    of_sessions = {"words": {0: "sessions", 1: "turns", 2: "width"}, "lengths": {0: "sessions", 1: "turns"}}
    encoder = Traceable(Wrapped(module, session_memory), of_sessions, ["keys", "mask", "source"], sessions, MAX_TOKENS)
    decoder = Traceable(
        Wrapped(network.writer, query_scores),
        {
            "keys": {0: "rows", 4: "tokens"}, "mask": {0: "rows", 1: "tokens"}, "source": {0: "rows", 1: "tokens"},
            "read": axes, "targets": axes,
        },
        ["totals", "latest"],
        queries,
        MAX_TOKENS,
        num_compared=2,
    )  # fmt: skip
    attributions = Traceable(
        Wrapped(module, query_attributions),
        {**of_sessions, "candidates": {0: "sessions", 1: "length"}},
        ["attributions"],
        suggestions,
        MAX_TOKENS,
    )
    graphs = {ENCODER: encoder, DECODER: decoder, ATTRIBUTIONS: attributions}
    return Exports(graphs, vocabulary=state.tokenizer.tokens)
