"""The processes of one training, as ``torchrun`` starts them, and the sums of their gradients."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from ensue.lazy import is_imported, lazy, torch

if TYPE_CHECKING:
    from torch import Tensor, distributed, nn
else:
    distributed = lazy("torch.distributed")

Shared = TypeVar("Shared")


@contextmanager
def ranks() -> Iterator[tuple[int, int]]:
    """Join the group if ``torchrun`` started this process, and yield its (rank, number of ranks)."""
    if "WORLD_SIZE" not in os.environ:
        yield 0, 1
        return
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Its functions take the group that exists at import as a default and would keep it, and its threads, past the end:
    # now and then a rank then aborts on leaving, and torchrun kills the others before they have saved.
    importlib.import_module("torch.distributed.nn")
    distributed.init_process_group("nccl" if gpu else "gloo")
    try:
        yield distributed.get_rank(), distributed.get_world_size()
    finally:
        distributed.destroy_process_group()


def rank_and_size() -> tuple[int, int]:
    """Return (rank, number of ranks) of this process; (0, 1) outside a group."""
    if not is_imported("torch.distributed"):
        return 0, 1
    joined = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)


def broadcast(tensor: Tensor) -> Tensor:
    """Overwrite a tensor by that of the first rank, and return it."""
    if rank_and_size()[1] > 1:
        distributed.broadcast(tensor, 0)
    return tensor


def share(value: Shared) -> Shared:
    """Return the value of the first rank on every rank; it must consist of types that JSON has."""
    if rank_and_size()[1] == 1:
        return value
    # Tensors are all that a group can exchange, so the value travels as the bytes of its JSON.
    text = torch.tensor([*json.dumps(value).encode()], dtype=torch.uint8, device=_device())
    # The length goes first: receivers must allocate before the text arrives.
    length = broadcast(torch.tensor(len(text), device=_device()))
    received = broadcast(text if rank_and_size()[0] == 0 else text.new_empty(int(length)))
    return json.loads(bytes(received.tolist()))


def max_over_ranks(number: int) -> int:
    """Return the highest number of all ranks, on every rank."""
    if rank_and_size()[1] == 1:
        return number
    maximum = torch.tensor(number, device=_device())
    distributed.all_reduce(maximum, distributed.ReduceOp.MAX)
    return int(maximum)


def mean_over_ranks(values: npt.NDArray[np.float64]) -> float:
    """Return the mean of the values of all ranks, the same on every rank."""
    if rank_and_size()[1] == 1:
        return float(values.mean())
    sums = torch.tensor([values.sum(), len(values)], dtype=torch.float64, device=_device())
    distributed.all_reduce(sums)
    return float(sums[0] / sums[1])


def _device() -> torch.device:
    """Return the device on which the group exchanges its tensors."""
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")


class GradientSums:
    """Replace the gradients of this rank by their sums over all ranks, to the same bytes on every rank.

    Of a table whose gradients are sparse, only the rows are exchanged that some rank touched.

    Args:
        parameters: trained parameters, in the same order on every rank.
        tables: the parameters among them whose gradients are sparse.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], tables: Collection[Tensor]) -> None:
        self.tables = [parameter for parameter in parameters if parameter in tables]
        self.dense = [parameter for parameter in parameters if parameter not in tables]

    def __call__(self, totals: Tensor, divisor: int) -> Tensor:
        """Sum the gradients of the last step, in the order of the ranks.

        Args:
            totals: (n,) float64, summed over the ranks too.
            divisor: position of the sum that all gradients are divided by.

        Returns:
            (n,) float64 the sums of ``totals``, on the CPU.
        """
        rows = [_touched_rows(table) for table in self.tables]
        counts = torch.tensor([len(ids) for ids, _ in rows], dtype=totals.dtype)
        gathered = torch.stack(_gather(torch.cat([totals, counts]).to(_device()))).cpu()
        sums = gathered[:, : len(totals)].sum(0)
        counts = gathered[:, len(totals) :].long()
        scale = float(sums[divisor])
        if self.dense:
            # One exchange for all dense gradients, which runs while the sparse ones are gathered.
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self.dense])
            reduced = distributed.all_reduce(flat, async_op=True)
        for (ids, values), table, lengths in zip(rows, self.tables, counts.T.tolist(), strict=True):
            table.grad = _sum_rows(table, _gather_rows(ids, lengths), _gather_rows(values, lengths), scale)
        if self.dense:
            reduced.wait()
            chunks = torch.split(flat.div_(scale), [parameter.numel() for parameter in self.dense])
            for parameter, chunk in zip(self.dense, chunks, strict=True):
                parameter.grad = chunk.view_as(parameter)
        return sums


def _touched_rows(table: nn.Parameter) -> tuple[Tensor, Tensor]:
    """Return (rows,) the ids of the rows that a gradient touches, in order, and (rows, dim) its values there."""
    gradient = table.grad
    if gradient is None:
        return torch.zeros(0, dtype=torch.int64, device=table.device), table.detach()[:0]
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        return gradient.indices()[0], gradient.values()
    ids = gradient.flatten(1).any(1).nonzero()[:, 0]
    return ids, gradient[ids]


def _sum_rows(table: nn.Parameter, ids: Sequence[Tensor], values: Sequence[Tensor], divisor: float) -> Tensor:
    """Return the sparse gradient summed over the ranks and divided, from each rank's rows."""
    # Rows touched by any rank, and for each gathered row its position among them.
    union, positions = torch.unique(torch.cat([*ids]), return_inverse=True)
    sums = table.new_zeros(len(union), *table.shape[1:])
    for position, rows in zip(torch.split(positions, [*map(len, ids)]), values, strict=True):
        sums.index_add_(0, position, rows)  # no row occurs twice within a rank: sums do not depend on threads
    return torch.sparse_coo_tensor(union[None], sums / divisor, table.shape, is_coalesced=True, check_invariants=False)


def _gather_rows(rows: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Return the rows of every rank, of ``lengths`` rows each; padded to the same length on the way."""
    # all_gather wants equal shapes.
    padded = rows.new_zeros(max(lengths), *rows.shape[1:])
    padded[: len(rows)] = rows
    return [gathered[:length] for gathered, length in zip(_gather(padded), lengths, strict=True)]


def _gather(tensor: Tensor) -> list[Tensor]:
    """Return the tensor of every rank; all have the same shape."""
    gathered = [torch.empty_like(tensor) for _ in range(rank_and_size()[1])]
    if tensor.numel():
        distributed.all_gather(gathered, tensor)
    return gathered
