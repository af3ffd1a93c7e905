"""Count-based parts of a blend, in NumPy: what past sessions, transitions and repeats add to the scores.

A cell is a position in the (targets, ids) table of scores, read row after row: row x ids + id. The network of a blend
runs in torch or, exported, in onnxruntime; these parts are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ensue.data.histories import Index, entries_of
from ensue.tasks.next.baselines.repeats import own_values
from ensue.tasks.next.baselines.session_knn import AT_ONCE
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.ensembles.memory import BlendMemory
from ensue.topk import Scores

T = TypeVar("T")
FLOOR = 0.001
"""Scale of the shares among the neighbours: smaller ones hardly change the score."""
STEP_FLOOR = 0.01
"""Scale of the shares among the followers: smaller ones hardly change the score."""
NEVER = -20.0
"""Lower bound of the logarithm of popularity, for items that never occurred."""
REPEATS = (1, 2, 3, 4, 6, 11, 21)
"""Smallest distance of each class of repeats; the latest event has distance 1."""


class Contribution(NamedTuple):
    """Addition of a part to the scores.

    Attributes:
        bias: (ids,) added to every target; ``None`` for none.
        cells: (entries,) each once.
        added: (entries,) what is added there.
        event_weights: (batch, time, time) part of each event in it; ``None`` for none.
    """

    bias: Scores | None
    cells: Index
    added: Scores
    event_weights: Scores | None


class Count(Protocol):
    """Return what a function of a memory and a batch computes; a caller may have the result already."""

    def __call__(self, function: Callable[[BlendMemory, PaddedBatch], T], /) -> T:
        """Return the result."""
        ...


def contributions(
    memory: BlendMemory, weights: Scores, batch: PaddedBatch, max_length: int, count: Count | None = None
) -> Iterator[Contribution]:
    """Yield the addition of each part whose weight is not 0.

    Args:
        memory: the counts.
        weights: (parts,) of the neighbours, of the followers of the latest event, of the interpolated counts, and of
            each class of repeats.
        batch: histories and their target steps.
        max_length: number of the latest events whose repeats count.
        count: returns :func:`recalled`, :func:`followed` and :func:`interpolated` of the batch. [default: by calling]
    """

    def call(function: Callable[[BlendMemory, PaddedBatch], T]) -> T:
        return function(memory, batch)

    count = count or call
    neighbour_weight, follower_weight, interpolated_weight = weights[:3]
    repeat_weights = weights[3:]
    if neighbour_weight:
        cells, scores, event_weights = count(recalled)
        yield Contribution(None, cells, neighbour_weight * scores, neighbour_weight * event_weights)
    if follower_weight:
        cells, scores = count(followed)
        # The follower count depends on the latest event alone: each target step attends to itself.
        latest = np.eye(batch.mask.shape[1], dtype=np.float32) * batch.target_mask[:, None]
        yield Contribution(None, cells, follower_weight * scores, follower_weight * latest)
    if interpolated_weight:
        popular, cells, scores, event_weights = count(interpolated)
        yield Contribution(
            interpolated_weight * popular, cells, interpolated_weight * scores, interpolated_weight * event_weights
        )
    if repeat_weights.any():
        cells, classes = repeated(batch, memory.num_ids, max_length)
        yield Contribution(None, cells, repeat_weights[classes], None)


def summed(cells: Index, values: Scores, num_cells: int) -> tuple[Index, Scores]:
    """Return each cell once, rising, and the sum of its values.

    Args:
        cells: (entries,) some several times.
        values: (entries,).
        num_cells: size of the table.
    """
    if num_cells <= len(cells):  # a table of all cells is smaller than the lists, and not sorted
        table = np.zeros(num_cells, np.float32)
        np.add.at(table, cells, values)
        filled = table.nonzero()[0]
        return filled, table[filled]
    distinct, index = np.unique(cells, return_inverse=True)
    sums = np.zeros(len(distinct), np.float32)
    np.add.at(sums, index, values)
    return distinct, sums


def recalled(memory: BlendMemory, batch: PaddedBatch) -> tuple[Index, Scores, Scores]:
    """Return the cells of the neighbours' items, their scores at weight 1, and each event's part in them."""
    # Every neighbour lists all its items: a few targets at a time bound the memory that these lists take.
    num_ids = memory.num_ids
    num_targets = 0
    parts = []
    for chunk in batch.split(AT_ONCE):
        cells, shares, event_weights = memory.sessions.score(chunk)
        cells, shares = summed(cells, shares, chunk.num_steps * num_ids)
        parts.append((cells + num_targets * num_ids, np.log1p(shares / np.float32(FLOOR)), event_weights))
        num_targets += chunk.num_steps
    cells, scores, event_weights = map(np.concatenate, zip(*parts, strict=True))
    return cells, scores, event_weights


def followed(memory: BlendMemory, batch: PaddedBatch) -> tuple[Index, Scores]:
    """Return the cell of each follower of the latest event, and its score at step 1."""
    latest = batch.ids[batch.target_mask]
    counts = memory.following
    row, entry = entries_of(counts.rows, latest)
    # The probability of each follower among all events that followed the latest item.
    share = counts.counts[entry] / counts.row_totals()[latest][row]
    return row * counts.num_ids + counts.columns[entry], np.log1p(share / np.float32(STEP_FLOOR))


def interpolated(memory: BlendMemory, batch: PaddedBatch) -> tuple[Scores, Index, Scores, Scores]:
    """Return the interpolated counts of each candidate, without terms common to a target step.

    Returns:
        (ids,) the logarithm of its popularity; the cells of what they know more of, and what that adds to the
        logarithm; and each event's part in it.
    """
    counts = memory.interpolated
    factor, cells, shares, event_weights = counts.parts(batch)
    with np.errstate(divide="ignore"):  # an item that never occurred
        popular = np.maximum(np.log(counts.back()), np.float32(NEVER))
    cells, added = summed(cells, shares, 2**62)
    row, item = np.divmod(cells, len(popular))
    # log(factor x popularity + added) = log(factor x popularity) + log1p(added / (factor x popularity)).
    return popular, cells, np.log1p(added / (factor[row] * np.exp(popular[item]))), event_weights


def repeated(batch: PaddedBatch, num_ids: int, max_length: int) -> tuple[Index, Index]:
    """Return the cells of each session's own items, and the class of each distance."""
    cells, distance = own_values(batch, num_ids, max_length)
    # REPEATS holds the smallest distance of each class; searchsorted returns the class that a distance falls in.
    return cells, np.searchsorted(REPEATS, distance, side="right") - 1
