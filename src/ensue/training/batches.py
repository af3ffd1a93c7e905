"""Batches of a training and of an evaluation, as index arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ensue.data.histories import Index

POOL = 64
"""Batches whose rows are put in order of size before they are cut."""


def epoch_batches(sizes: Sequence[Index], size: int, seed: int | tuple[int, ...]) -> list[Index]:
    """Return a shuffled epoch: batches of rows of similar size in random order, the same for the same seed.

    Rows are shuffled, sorted by size within a pool of ``POOL`` batches, cut, and the batches are shuffled::

        sizes [3 1 2 1], size 2: shuffled [2 0 3 1], sorted [3 1 2 0], cut [3 1] [2 0], shuffled [2 0] [3 1]

    Args:
        sizes: (rows,) each; the last one decides first, as in ``np.lexsort``.
        size: rows a batch.
        seed: of the shuffles.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(sizes[0]))
    # Sorting within pools keeps padding small while the order of epochs stays random.
    pool = np.arange(len(order)) // (size * POOL)
    # The pool is the last and therefore the first key of the sort.
    order = order[np.lexsort((*(column[order] for column in sizes), pool))]
    batches = [order[low : low + size] for low in range(0, len(order), size)]
    return [batches[number] for number in random.permutation(len(batches))]


def evaluation_batches(order: Index, weights: Index, targets: int) -> Iterator[Index]:
    """Return all rows once, in this order, in groups of about equal weight; each has at least one row.

    A group ends where the running sum passes a multiple of ``targets``::

        order [4 2 7], weights of these [3 3 5], targets 5: sums [3 6 11], groups [4] [2] [7]

    Args:
        order: rows.
        weights: (rows,) the weight of each row, by its number.
        targets: the weight of a group.
    """
    # Split where the number of the group changes.
    group = np.cumsum(weights[order]) // max(targets, 1)
    return (rows for rows in np.split(order, np.flatnonzero(np.diff(group)) + 1) if len(rows))
