"""In which order data is gone through: a shuffled epoch of batches of like size, or all of it once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ensue.training.source import Index

POOL = 64
"""Batches whose rows are put in order of size before they are cut."""


def epoch_batches(sizes: Sequence[Index], size: int, seed: int | tuple[int, ...]) -> list[Index]:
    """A shuffled epoch: batches of rows of like size, in random order; the same for the same seed.

    Rows are shuffled, sorted by size within a pool of ``POOL`` batches, cut, and the batches are shuffled::

        sizes [3 1 2 1], size 2: shuffled [2 0 3 1], sorted [3 1 2 0], cut [3 1] [2 0], shuffled [2 0] [3 1]

    Args:
        sizes: (rows,) each; the last one decides first, as in ``np.lexsort``.
        size: rows a batch.
        seed: of the shuffles.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(sizes[0]))
    pool = np.arange(len(order)) // (size * POOL)
    order = order[np.lexsort((*(own[order] for own in sizes), pool))]
    batches = [order[low : low + size] for low in range(0, len(order), size)]
    return [batches[place] for place in random.permutation(len(batches))]


def evaluation_batches(order: Index, weights: Index, targets: int) -> Iterator[Index]:
    """All rows once, in this order, in groups of about so much weight; each has a row at least.

    A group ends where the running sum passes a multiple of ``targets``::

        order [4 2 7], weights of these [3 3 5], targets 5: sums [3 6 11], groups [4] [2] [7]

    Args:
        order: rows.
        weights: (rows,) of all of them, by number of the row.
        targets: weight of a group.
    """
    group = np.cumsum(weights[order]) // max(targets, 1)
    return (part for part in np.split(order, np.flatnonzero(np.diff(group)) + 1) if len(part))
