"""Reading texts without a gradient, compiled: states of a bidirectional LSTM, scores between words, and word graphs.

Each function gives ``None`` where nothing is compiled or the tensors are not of float32 on the CPU; the caller then
goes on in torch.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.kernels.loading import GraphCall, LstmCall, PairCall
from ensue.nn.addresses import address
from ensue.nn.validation import require_table


def _fits(*tensors: Tensor) -> bool:
    return all(part.dtype == torch.float32 and part.device.type == "cpu" for part in tensors)


def lstm_states(projected: Tensor, index: Tensor, mask: Tensor, recurrent: Tensor) -> Tensor | None:
    """States of both directions.

    Args:
        projected: (2 x distinct, 4 x hidden) gates of every item, forth and back in turn, biases in; those of the tanh
            gate doubled, here and in ``recurrent``.
        index: (rows, length) which item stands where.
        mask: (rows, length) bool, True up to the end of each row.
        recurrent: (2, hidden, 4 x hidden).

    Returns:
        (rows, length, 2 x hidden); 0 at padding.

    Raises:
        IndexError: an item stands somewhere that is not among those projected.
        ValueError: a tensor of another shape or type.
    """
    functions, hidden = library(), recurrent.shape[1]
    if functions is None or not _fits(projected, recurrent) or index.numel() * hidden == 0:
        return None
    (rows, length), distinct = index.shape, len(projected) // 2
    projected, index, recurrent = projected.contiguous(), index.contiguous(), recurrent.contiguous()
    lengths = mask.sum(1)
    states = projected.new_zeros(rows, length, 2 * hidden)
    call = LstmCall(
        rows, length, hidden, distinct,
        projected=address("projected", projected, torch.float32, (2 * distinct, 4 * hidden)),
        index=address("index", index, torch.int64, (rows, length)),
        lengths=address("lengths", lengths, torch.int64, (rows,)),
        recurrent=address("recurrent", recurrent, torch.float32, (2, hidden, 4 * hidden)),
        out=states.data_ptr(),
    )  # fmt: skip
    functions.ensue_lstm(ctypes.byref(call), torch.get_num_threads())
    return states


def pair_scores(receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor, largest: float) -> Tensor | None:
    """Scores vector . tanh(receiving_i + giving_j) of all pairs of words of each text.

    Args:
        receiving: (batch, words, dim) of the row.
        giving: (batch, words, dim) of the column.
        vector: (dim,).
        mask: (batch, words) bool.
        largest: up to here exp(2 x) is taken; where a number is larger there is no answer.

    Returns:
        (batch, words, words); 0 behind the last word of a text.

    Raises:
        ValueError: tensors whose shapes do not go together.
    """
    functions = library()
    if functions is None or receiving.numel() == 0 or not _fits(receiving, giving, vector):
        return None
    (batch, words, dim), step = receiving.shape, receiving.stride(1)
    require_table("giving", giving, torch.float32, receiving.shape)
    if not receiving.stride() == giving.stride() == (words * step, step, 1):
        receiving, giving, step = receiving.contiguous(), giving.contiguous(), dim
    vector = vector.contiguous()
    lengths = (mask * torch.arange(1, words + 1)).amax(1)
    scores = receiving.new_zeros(batch, words, words)
    call = PairCall(
        batch, words, dim, step, largest=largest, receiving=receiving.data_ptr(), giving=giving.data_ptr(),
        lengths=address("lengths", lengths, torch.int64, (batch,)),
        vector=address("vector", vector, torch.float32, (dim,)), out=scores.data_ptr(),
    )  # fmt: skip
    too_large = functions.ensue_pair_scores(ctypes.byref(call), torch.get_num_threads())
    return None if too_large else scores


def word_graph(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor] | None:
    """Who hands how much to whom, and the centralities of the words.

    Args:
        scores: (batch, words, words) any finite numbers, also at padding.
        mask: (batch, words) bool; words stand in front of padding, or there is no answer.

    Returns:
        (batch, words, words) what ``connections`` gives, and (batch, words) what ``centrality`` does.

    Raises:
        ValueError: a mask of another shape.
    """
    functions = library()
    if functions is None or scores.numel() == 0 or not _fits(scores) or (mask[:, 1:] > mask[:, :-1]).any():
        return None
    (batch, words), lengths, scores = mask.shape, mask.sum(1), scores.contiguous()
    weights, graph = scores.new_empty(batch, words), scores.new_empty(batch, words, words)
    call = GraphCall(
        batch, words,
        lengths=address("lengths", lengths, torch.int64, (batch,)),
        scores=address("scores", scores, torch.float32, (batch, words, words)),
        weights=weights.data_ptr(), graph=graph.data_ptr(),
    )  # fmt: skip
    functions.ensue_word_graphs(ctypes.byref(call), torch.get_num_threads())
    return graph, weights
