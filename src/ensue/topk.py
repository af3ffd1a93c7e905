"""The highest scores of each row, and the logarithm of the sum that normalises a row."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ensue import kernels

Scores: TypeAlias = npt.NDArray[np.float32]
Index: TypeAlias = npt.NDArray[np.int64]
_MAX_CACHED = 2**18
"""Scores that are normalised at once: the numbers in between stay in the processor's cache."""
_MAX_K = 256
"""Largest k of the compiled kernel: to sort all scores is faster where more are wanted."""


class Permitted(NamedTuple):
    """The candidates for the best items of some queries.

    Attributes:
        hidden: (queries, any number) ids that are no candidates and not in the total of a query, rising in each row.
        words: (filters, words) bit ``i % 64`` of word ``i // 64`` is 1 where a filter permits id i.
        filter_index: (queries,) filter of each query; the number of filters where all ids are permitted.
    """

    hidden: Index
    words: npt.NDArray[np.uint64] | None = None
    filter_index: Index | None = None


def _has_plain_rows(scores: Scores) -> bool:
    """Return whether kernels take (rows, columns) scores: each row is contiguous."""
    row_stride, stride = scores.strides
    return scores.dtype == np.float32 and scores.size > 0 and stride == scores.itemsize and row_stride >= 0


def _compiled_topk(scores: Scores, k: int) -> tuple[Scores, Index]:
    """Compute :func:`topk`; of equal scores the earlier comes first."""
    rows, width = scores.shape
    k = min(k, width)
    best = np.empty((rows, k), np.float32)
    places = np.empty((rows, k), np.int64)
    kernels.call(
        "topk", numbers=scores.ctypes.data, width=width, step=scores.strides[0] // scores.itemsize, best=best,
        places=places, threads=kernels.num_threads(),
    )  # fmt: skip
    return best, places


@kernels.compiled(
    _compiled_topk, when=lambda scores, k: 0 < min(k, scores.shape[1]) <= _MAX_K and _has_plain_rows(scores)
)
def topk(scores: Scores, k: int) -> tuple[Scores, Index]:
    """Return the ``k`` highest scores of each row, falling, and their columns; all of them where there are fewer.

    Args:
        scores: (rows, columns).
        k: how many.
    """
    width = scores.shape[1]
    k = min(k, width)
    columns = np.broadcast_to(np.arange(width), scores.shape)
    if k < width:
        # The last k after a partition are the highest, in any order.
        columns = np.argpartition(scores, min(width - k, width - 1), axis=1)[:, width - k :]
        columns.sort(axis=1)
    order = np.argsort(-np.take_along_axis(scores, columns, 1), axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, 1)
    return np.take_along_axis(scores, columns, 1), columns


def _compiled_log_totals(scores: Scores) -> Scores:
    totals = np.empty(len(scores), np.float32)
    kernels.call(
        "log_totals", numbers=scores.ctypes.data, width=scores.shape[1], step=scores.strides[0] // scores.itemsize,
        totals=totals, threads=kernels.num_threads(),
    )  # fmt: skip
    return totals


@kernels.compiled(_compiled_log_totals, when=_has_plain_rows)
def log_totals(scores: Scores) -> Scores:
    """Return (rows,) the logarithm of the sum of exp(scores) over each row of (rows, columns); -inf of no score."""
    totals = np.empty(len(scores), scores.dtype)
    size = max(1, _MAX_CACHED // scores.shape[1])
    for low in range(0, len(scores), size):
        block = scores[low : low + size]
        largest = block.max(1)
        # The largest is taken out so that nothing overflows, but -inf - -inf is no number.
        shift = np.where(largest > -np.inf, largest, 0)
        with np.errstate(divide="ignore"):
            totals[low : low + size] = np.log(np.exp(block - shift[:, None]).sum(1)) + shift
    return totals
