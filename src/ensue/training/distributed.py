"""The processes of one training, as ``torchrun`` starts them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed, nn

Shared = TypeVar("Shared")


@contextmanager
def ranks() -> Iterator[tuple[int, int]]:
    """(rank, ranks) of this process, after joining the group if it was started by ``torchrun``."""
    if "WORLD_SIZE" not in os.environ:
        yield 0, 1
        return
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Its functions take the group that stands at import as a default and would keep it, and its threads, past the end:
    # now and then a rank then aborts on leaving, and torchrun kills the others before they have saved.
    importlib.import_module("torch.distributed.nn")
    distributed.init_process_group("nccl" if gpu else "gloo")
    try:
        yield distributed.get_rank(), distributed.get_world_size()
    finally:
        distributed.destroy_process_group()


def rank_and_size() -> tuple[int, int]:
    """(rank, ranks) of this process; (0, 1) outside a group."""
    joined = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)


def broadcast(tensor: Tensor) -> Tensor:
    """The first rank's tensor on every rank, in the memory of the one given."""
    if rank_and_size()[1] > 1:
        distributed.broadcast(tensor, 0)
    return tensor


def share(value: Shared) -> Shared:
    """What the first rank gives, on every rank; it must be made of what JSON knows."""
    if rank_and_size()[1] == 1:
        return value
    text = torch.tensor([*json.dumps(value).encode()], dtype=torch.uint8, device=_device())
    length = broadcast(torch.tensor(len(text), device=_device()))
    received = broadcast(text if rank_and_size()[0] == 0 else text.new_empty(int(length)))
    shared: Shared = json.loads(bytes(received.tolist()))
    return shared


def max_over_ranks(number: int) -> int:
    """The highest number that any rank gives, on every rank."""
    if rank_and_size()[1] == 1:
        return number
    maximum = torch.tensor(number, device=_device())
    distributed.all_reduce(maximum, distributed.ReduceOp.MAX)
    return int(maximum)


def mean_over_ranks(values: npt.NDArray[np.float64]) -> float:
    """The mean of what all ranks hold together; the same on every rank."""
    if rank_and_size()[1] == 1:
        return float(values.mean())
    sums = torch.tensor([values.sum(), len(values)], dtype=torch.float64, device=_device())
    distributed.all_reduce(sums)
    return float(sums[0] / sums[1])


def sum_gradients(parameters: Sequence[nn.Parameter], tables: Collection[Tensor], totals: Tensor) -> Tensor:
    """Replace the gradients of this rank by their sums over all ranks, which are the same bytes on every rank.

    Dense gradients travel in one message as long as they are. Of a table that is looked up only the rows travel that a
    rank touched; they are added in the order of the ranks.

    Args:
        parameters: in the same order on every rank; one without a gradient counts as 0.
        tables: those of them whose gradients are rows.
        totals: (n,) float64, summed along.

    Returns:
        (n,) float64 the sums of ``totals``, on the CPU.
    """
    device, size = parameters[0].device, len(totals)
    rows = [(parameter, *_touched(parameter)) for parameter in parameters if parameter in tables]
    numbers = torch.cat([totals, torch.tensor([len(ids) for _, ids, _ in rows], dtype=totals.dtype)])
    gathered = torch.stack(_gather(numbers.to(device))).cpu()
    dense = [parameter for parameter in parameters if parameter not in tables]
    if dense:
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in dense])
        distributed.all_reduce(flat)
        for parameter, part in zip(dense, torch.split(flat, [p.numel() for p in dense]), strict=True):
            parameter.grad = part.view_as(parameter)
    for (parameter, ids, values), lengths in zip(rows, gathered[:, size:].long().T.tolist(), strict=True):
        parameter.grad = _sum_rows(parameter, ids, values, lengths)
    return gathered[:, :size].sum(0)


def _device() -> torch.device:
    """Where messages of the group lie."""
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")


def _touched(table: nn.Parameter) -> tuple[Tensor, Tensor]:
    """(rows,) the rows that a gradient touches, in order, and (rows, dim) what it holds there."""
    grad = table.grad
    if grad is None:
        return torch.zeros(0, dtype=torch.int64, device=table.device), table.detach()[:0]
    if grad.is_sparse:
        grad = grad.coalesce()
        return grad.indices()[0], grad.values()
    ids = grad.flatten(1).any(1).nonzero()[:, 0]
    return ids, grad[ids]


def _sum_rows(table: nn.Parameter, ids: Tensor, values: Tensor, lengths: Sequence[int]) -> Tensor:
    """The sparse gradient of all ranks, of which each touched so many rows."""
    longest = max(lengths)
    padded = ids.new_zeros(longest), values.new_zeros(longest, *values.shape[1:])
    padded[0][: len(ids)], padded[1][: len(ids)] = ids, values
    every_ids, every_values = (_gather(part) for part in padded)
    parts = [(own[:length], held[:length]) for own, held, length in zip(every_ids, every_values, lengths, strict=True)]
    union = torch.unique(torch.cat([own for own, _ in parts]))
    sums = values.new_zeros(len(union), *values.shape[1:])
    for own, held in parts:  # within a rank no row comes twice, so that no sum depends on the order of threads
        sums.index_add_(0, torch.searchsorted(union, own), held)
    return torch.sparse_coo_tensor(union[None], sums, table.shape, is_coalesced=True, check_invariants=False)


def _gather(own: Tensor) -> list[Tensor]:
    every = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, own)
    return every
