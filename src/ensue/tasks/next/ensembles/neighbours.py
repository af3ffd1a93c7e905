"""Neighbours: past cascades in which the same users took part, weighted by similarity.

    alike(c) = sum over the latest events j whose user c holds
               of ln(cascades / cascades with u_j) / (i - j + 1) ** 0.5 / |c| ** 0.5
    M(v)     = sum over the past cascades c that hold v of alike(c) ** ``POWER``

VS-kNN (``ensue.tasks.next.baselines.session_knn``) cuts the list of neighbours; here every cascade counts, and the
power concentrates the weight on few.
"""

from __future__ import annotations

import numpy as np

from ensue.data.histories import ranges
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.text.sparse import SparseRows, sparse_rows

POWER = 3
"""Exponent of the similarity; chosen, like the roots, on validation cascades of FOREST's Twitter and Memetracker."""


class CascadeNeighbours:
    """The search among past cascades.

    Args:
        past: the cascades.
        window: how many of the latest events are compared.
    """

    def __init__(self, past: CascadeStore, *, window: int = 30) -> None:
        self.past = past
        self.window = window

    def score(self, batch: PaddedBatch) -> SparseRows:
        """Return M after each target step, (targets, ids)."""
        user_weights, memberships = self.past.cached("neighbours", self._matrices)
        time = batch.ids.shape[1]
        row, step = batch.target_mask.nonzero()
        lengths = np.minimum(step + 1, self.window)
        ends = row * time + step
        # Events are numbered in the (batch, time) table read row after row.
        event = ranges(ends + 1 - lengths, lengths)
        target = np.repeat(np.arange(len(row)), lengths)
        weights = ((ends[target] + 1.0 - event) ** -0.5).astype(np.float32)
        similarity = (
            sparse_rows(target, batch.ids.reshape(-1)[event], weights, (len(row), self.past.num_ids)) @ user_weights
        )
        # The power concentrates the weight on the most similar cascades.
        similarity.data **= POWER
        return similarity @ memberships

    def _matrices(self) -> tuple[SparseRows, SparseRows]:
        """Return similarity weights of users, (ids, cascades), and memberships, (cascades, ids)."""
        cascades = len(self.past.offsets) - 1
        num_ids = self.past.num_ids
        # A user who takes part twice in a cascade counts once.
        keys = np.unique(self.past.owner() * num_ids + self.past.ids)
        owner = keys // num_ids
        value = keys % num_ids
        memberships = sparse_rows(owner, value, np.ones(len(keys), np.float32), (cascades, num_ids))
        # Inverse document frequency, with cascades as documents.
        rare = np.log(cascades / np.bincount(value, minlength=num_ids)[value])
        weights = (rare / np.sqrt(np.bincount(owner, minlength=cascades)[owner])).astype(np.float32)
        # Entries are sorted by cascade; the transposed matrix needs them by user.
        by_value = np.argsort(value, kind="stable")
        return sparse_rows(value[by_value], owner[by_value], weights[by_value], (num_ids, cascades)), memberships
