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


def _fits(*tensors: Tensor) -> bool:
    return all(part.dtype == torch.float32 and part.device.type == "cpu" for part in tensors)


def lstm_states(
    projected: Tensor, index: Tensor, mask: Tensor, recurrent: Tensor, pairs: Tensor | None = None
) -> Tensor | None:
    """States of both directions.

    Args:
        projected: (2 x distinct, 4 x hidden) gates of every item, forth and back in turn, biases in; those of the tanh
            gate doubled, here and in ``recurrent``.
        index: (rows, length) which item stands where.
        mask: (rows, length) bool, True up to the end of each row.
        recurrent: (2, hidden, 4 x hidden).
        pairs: of each of its sides those of ``linear.Folded``: states and weights are then rounded to bfloat16.

    Returns:
        (rows, length, 2 x hidden); 0 at padding.
    """
    functions, hidden = library(), recurrent.shape[1]
    if functions is None or not _fits(projected, recurrent) or index.numel() * hidden == 0:
        return None
    states = projected.new_zeros(*index.shape, 2 * hidden)
    parts = projected.contiguous(), index.contiguous(), mask.sum(1), recurrent.contiguous(), pairs, states
    call = LstmCall(*index.shape, hidden, *(None if part is None else part.data_ptr() for part in parts))
    if functions.ensue_lstm(ctypes.byref(call), torch.get_num_threads()):
        raise MemoryError("the states of texts")
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
    """
    functions = library()
    if functions is None or receiving.numel() == 0 or not _fits(receiving, giving, vector):
        return None
    (batch, words, dim), step = receiving.shape, receiving.stride(1)
    if not receiving.stride() == giving.stride() == (words * step, step, 1):
        receiving, giving, step = receiving.contiguous(), giving.contiguous(), dim
    lengths = (mask * torch.arange(1, words + 1)).amax(1)
    scores = receiving.new_zeros(batch, words, words)
    parts = lengths, receiving, giving, vector.contiguous(), scores
    call = PairCall(batch, words, dim, step, *(part.data_ptr() for part in parts), largest)
    failed = functions.ensue_pair_scores(ctypes.byref(call), torch.get_num_threads())
    if failed == 1:
        raise MemoryError("the scores between words")
    return None if failed else scores


def word_graph(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor] | None:
    """Who hands how much to whom, and the centralities of the words.

    Args:
        scores: (batch, words, words) any finite numbers, also at padding.
        mask: (batch, words) bool; words stand in front of padding, or there is no answer.

    Returns:
        (batch, words, words) what ``connections`` gives, and (batch, words) what ``centrality`` does.
    """
    functions = library()
    if functions is None or scores.numel() == 0 or not _fits(scores) or (mask[:, 1:] > mask[:, :-1]).any():
        return None
    weights, graph = scores.new_empty(mask.shape), scores.new_empty(scores.shape)
    parts = mask.sum(1), scores.contiguous(), weights, graph
    call = GraphCall(*mask.shape, *(part.data_ptr() for part in parts))
    if functions.ensue_word_graphs(ctypes.byref(call), torch.get_num_threads()):
        raise MemoryError("the graphs of words")
    return graph, weights
