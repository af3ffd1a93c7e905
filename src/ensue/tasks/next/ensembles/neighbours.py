"""Neighbours: past cascades in which the same users took part, each with a say by how alike it is.

    alike(c) = sum over the latest events j whose user c holds
               of ln(cascades / cascades with u_j) / (i - j + 1) ** 0.5 / |c| ** 0.5
    M(v)     = sum over the past cascades c that hold v of alike(c) ** ``POWER``

VS-kNN (``ensue.tasks.next.baselines.session_knn``) cuts the list of neighbours; here every cascade counts, and the
power sees to it that few have a say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ensue.tasks.next.batch import Batch
from ensue.tasks.next.ensembles.cascade_store import CascadeStore

if TYPE_CHECKING:  # one model of many asks for it
    from scipy import sparse

POWER = 3
"""Chosen, like the roots, on validation cascades of FOREST's Twitter and Memetracker."""


class Neighbours:
    """The search among past cascades.

    Args:
        past: the cascades.
        window: how many of the latest events are compared.
    """

    def __init__(self, past: CascadeStore, *, window: int = 30) -> None:
        self.past, self.window = past, window

    def score(self, batch: Batch) -> Tensor:
        """(targets, ids) M after each target step; ``batch`` is on the CPU."""
        from scipy import sparse

        compared, held = self.past.cached("neighbours", self._matrices)
        row, step = batch.target_mask.nonzero(as_tuple=True)
        away = torch.arange(min(self.window, batch.ids.shape[1]))
        where = step[:, None] - away
        number, place = (where >= 0).nonzero(as_tuple=True)
        ids = batch.ids[row[number], where[number, place]]
        weights = (1.0 + place.numpy()) ** -0.5
        shape = (len(row), self.past.num_ids)
        latest = sparse.csr_matrix((weights, (number.numpy(), ids.numpy())), shape=shape, dtype=np.float32)
        alike = latest @ compared
        alike.data **= POWER
        return torch.from_numpy((alike @ held).toarray())

    def _matrices(self) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """What a user's presence adds to how alike each cascade is, (ids, cascades); who is in it, (cascades, ids)."""
        from scipy import sparse

        cascades, num_ids = len(self.past.starts) - 1, self.past.num_ids
        keys = np.unique(self.past.owner() * num_ids + self.past.values.numpy())
        owner, value = keys // num_ids, keys % num_ids
        ones = np.ones(len(keys), np.float32)
        held = sparse.csr_matrix((ones, (owner, value)), shape=(cascades, num_ids))
        rare = np.log(cascades / np.bincount(value, minlength=num_ids)[value])
        shown = (rare / np.sqrt(np.bincount(owner, minlength=cascades)[owner])).astype(np.float32)
        return sparse.csr_matrix((shown, (value, owner)), shape=(num_ids, cascades)), held
