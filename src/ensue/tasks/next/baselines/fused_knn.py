"""The sessions most like a session, compiled: what ``VSKNN.score`` computes, without an array for every small step."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.kernels.loading import NeighboursCall
from ensue.nn.addresses import address
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

    Raises:
        IndexError: an entry of a table lies outside the table that it indexes.
        ValueError: a table of another type or shape.
    """
    functions = library()
    assert functions is not None
    (batch_size, time), num_ids, ids = batch.ids.shape, sizes["num_ids"], batch.ids.contiguous()
    num_sessions, num_entries = len(tables["starts"]) - 1, len(tables["items"])
    rows, steps = batch.target_mask.nonzero(as_tuple=True)
    weights = torch.empty(batch_size, time, time)
    arrays = {
        "ids": address("ids", ids, torch.int64, (batch_size, time)),
        "rows": address("rows", rows, torch.int64, (len(rows),)),
        "steps": address("steps", steps, torch.int64, (len(rows),)),
        "decay": address("decay", tables["decay"], torch.float32, (sizes["window"],)),
        "postings": address("postings", tables["postings"], torch.int64, (num_entries,)),
        "stops": address("stops", tables["stops"], torch.int64, (num_ids + 1,)),
        "starts": address("starts", tables["starts"], torch.int64, (num_sessions + 1,)),
        "items": address("items", tables["items"], torch.int32, (num_entries,)),
        "holders": address("holders", tables["holders"], torch.float32, (num_ids,)),
    }
    call = NeighboursCall(
        batch=batch_size, time=time, targets=len(rows), num_sessions=num_sessions, num_entries=num_entries,
        idf=idf, sessions=float(tables["sessions"]), weights=weights.data_ptr(), **sizes, **arrays,
    )  # fmt: skip
    cells, shares = _filled(call, functions.ensue_neighbours)
    return cells, shares, weights


def _filled(call: NeighboursCall, run: Callable[..., int]) -> tuple[Tensor, Tensor]:
    """Cells and shares; asked again where they are more than was thought."""
    call.room = 16 * call.targets * min(call.neighbours, call.sample)
    while True:
        cells, shares = torch.empty(call.room, dtype=torch.int64), torch.empty(call.room)
        call.cells, call.shares = cells.data_ptr(), shares.data_ptr()
        count = run(ctypes.byref(call))
        if count <= call.room:
            return cells[:count], shares[:count]
        call.room = count
