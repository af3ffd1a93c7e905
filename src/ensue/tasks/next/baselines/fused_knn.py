"""The sessions most like a session, compiled: what ``VSKNN.score`` computes, without an array for every small step."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.kernels.loading import NeighboursCall
from ensue.tasks.next.batch import Batch

WIDEST = 256
"""Clicks that are compared at most."""


def score(batch: Batch, tables: dict[str, Tensor], sizes: dict[str, int], idf: float) -> tuple[Tensor, Tensor, Tensor]:
    """See :meth:`ensue.tasks.next.baselines.session_knn.VSKNN.score`.

    Args:
        batch: on the CPU.
        tables: ``decay``, ``postings``, ``stops``, ``starts``, ``items``, ``holders`` of ``native/kernels.h``, and
            ``sessions``.
        sizes: ``window``, ``sample``, ``neighbours`` and ``num_ids``.
        idf: how much an item that few sessions hold gains.
    """
    functions = library()
    assert functions is not None
    rows, steps = batch.target_mask.nonzero(as_tuple=True)
    ids = batch.ids.contiguous()
    weights = torch.empty(batch.mask.shape + batch.mask.shape[1:])
    call = NeighboursCall(
        batch=ids.shape[0], time=ids.shape[1], targets=len(rows), idf=idf, sessions=float(tables["sessions"]), **sizes
    )
    for name, table in {**tables, "ids": ids, "rows": rows, "steps": steps, "weights": weights}.items():
        if name != "sessions":
            setattr(call, name, table.data_ptr())
    cells, shares = _filled(call, functions.ensue_neighbours)
    return cells, shares, weights


def _filled(call: NeighboursCall, run: Callable[..., int]) -> tuple[Tensor, Tensor]:
    """Cells and shares; asked again where they are more than was thought."""
    call.room = 16 * call.targets * min(call.neighbours, call.sample)
    while True:
        cells, shares = torch.empty(call.room, dtype=torch.int64), torch.empty(call.room)
        call.cells, call.shares = cells.data_ptr(), shares.data_ptr()
        count = run(ctypes.byref(call))
        if count < 0:
            raise MemoryError("neighbours of a session")
        if count <= call.room:
            return cells[:count], shares[:count]
        call.room = count
