"""Gradients of all ranks, summed to the same bytes on every rank.

Of a table that is looked up only the rows travel that a rank touched. Ranks of one machine lay what they have into
memory that all of them see, and tell each other when it is there; ranks of several send it straight to each other, as
long as it is, while dense gradients are reduced beside it.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import Tensor, distributed, nn

from ensue.training.distributed import max_over_ranks, rank_and_size, share

ROOM = 8 * 2**20
"""Bytes of common memory that a step of a rank has at most; gradients that need more are sent."""
MEMORY = "/dev/shm"
"""Where files lie in memory."""
TOKEN = 16
"""Bytes by which ranks know a file that is theirs."""


class GradientSums:
    """Replaces the gradients of this rank by their sums over all ranks.

    Args:
        parameters: in the same order on every rank.
        tables: those of them whose gradients are rows.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], tables: Collection[Tensor]) -> None:
        self.tables = [parameter for parameter in parameters if parameter in tables]
        self.dense = [parameter for parameter in parameters if parameter not in tables]
        self._device = parameters[0].device
        self._memory = common_memory() if self._device.type == "cpu" else None
        self._turn = 0

    def __call__(self, totals: Tensor) -> Tensor:
        """Sum what the last step left, in the order of the ranks.

        Args:
            totals: (n,) float64, summed along.

        Returns:
            (n,) float64 the sums of ``totals``, on the CPU.
        """
        rows = [_touched(table) for table in self.tables]
        flat = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self.dense]
        own = [*(ids for ids, _ in rows), *(values for _, values in rows), *([torch.cat(flat)] if flat else [])]
        if laid := self._laid(rank_and_size()[0], [len(ids) for ids, _ in rows]):
            for place, part in zip(laid, own, strict=True):
                place.copy_(part)
        numbers = torch.cat([totals, torch.tensor([len(ids) for ids, _ in rows], dtype=totals.dtype)])
        told = torch.stack(_everyone(numbers.to(self._device), [len(numbers)] * rank_and_size()[1])).cpu()
        lengths = told[:, len(totals) :].long().tolist()
        seen = [self._laid(rank, counts) for rank, counts in enumerate(lengths)]
        every = [parts for parts in seen if parts]
        self._turn ^= 1
        if len(every) < len(seen):
            every = self._sent(own, lengths)
        for number, table in enumerate(self.tables):
            table.grad = _sum_rows(table, [(parts[number], parts[number + len(self.tables)]) for parts in every])
        if flat:
            total = every[0][-1].clone()
            for parts in every[1:]:
                total += parts[-1]
            for parameter, part in zip(self.dense, torch.split(total, [p.numel() for p in self.dense]), strict=True):
                parameter.grad = part.view_as(parameter)
        return told[:, : len(totals)].sum(0)

    def _laid(self, rank: int, counts: Sequence[int]) -> list[Tensor]:
        """Where in the common memory a rank that touched so many rows lays them; empty where it has too little room.

        No rank writes here before all have read what was here last: each tells of a step when it has read the one
        before, and every second step has the same half.
        """
        if self._memory is None:
            return []
        sizes = [(count,) for count in counts] + [
            (count, *table.shape[1:]) for count, table in zip(counts, self.tables, strict=True)
        ]
        kinds = [torch.int64] * len(counts) + [table.dtype for table in self.tables]
        if self.dense:
            sizes.append((sum(parameter.numel() for parameter in self.dense),))
            kinds.append(self.dense[0].dtype)
        half, low, parts = self._memory[rank, self._turn], 0, list[Tensor]()
        for kind, size in zip(kinds, sizes, strict=True):
            high = low + math.prod(size) * kind.itemsize
            if high > len(half):
                return []
            parts.append(half[low:high].view(kind).view(size))
            low = -(-high // 8) * 8
        return parts

    def _sent(self, own: Sequence[Tensor], lengths: Sequence[Sequence[int]]) -> list[list[Tensor]]:
        """What each rank holds, by messages; the sum of dense gradients stands with the first."""
        wide = len(self.tables)
        reduced = distributed.all_reduce(own[-1], async_op=True) if self.dense else None
        parts = list[list[Tensor]]()
        for part, counts in zip(own[: 2 * wide], [*zip(*lengths, strict=True)] * 2, strict=True):
            width = math.prod(part.shape[1:])
            flat = _everyone(part.reshape(-1), [count * width for count in counts])
            parts.append([held.view(-1, *part.shape[1:]) for held in flat])
        every = [[part[rank] for part in parts] for rank in range(len(lengths))]
        if reduced is not None:
            reduced.wait()
            for rank, held in enumerate(every):
                held.append(own[-1] if rank == 0 else torch.zeros_like(own[-1]))
        return every


def common_memory() -> Tensor | None:
    """(ranks, 2, bytes) that all ranks read and write; ``None`` where they share no machine, or it has too little."""
    rank, world = rank_and_size()
    made = _made(TOKEN + world * 2 * ROOM) if rank == 0 else None
    named = share(made)
    mapped = None if named is None else _mapped(*named)
    missed = max_over_ranks(int(mapped is None))
    if made is not None:
        Path(made[0]).unlink()  # it stays as long as somebody has it mapped, and no longer, however they end
    return None if missed or mapped is None else mapped[TOKEN:].view(world, 2, ROOM)


def _made(size: int) -> tuple[str, str] | None:
    """A file of so many bytes that lies in memory, with what it begins with; ``None`` where there is no such place."""
    try:
        file, name = tempfile.mkstemp(prefix="ensue-", dir=MEMORY)
    except OSError:
        return None
    token = os.urandom(TOKEN)
    try:
        os.posix_fallocate(file, 0, size)  # now, for a page that cannot be had later ends the process
        os.pwrite(file, token, 0)
    except OSError:
        Path(name).unlink()
        return None
    finally:
        os.close(file)
    return name, token.hex()


def _mapped(name: str, token: str) -> Tensor | None:
    try:
        with Path(name).open("r+b") as file:
            mapped = torch.frombuffer(mmap.mmap(file.fileno(), 0), dtype=torch.uint8)
    except OSError:
        return None
    return mapped if bytes(mapped[:TOKEN].tolist()).hex() == token else None


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


def _sum_rows(table: nn.Parameter, every: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The sparse gradient of all ranks, of which each touched some rows."""
    union, places = torch.unique(torch.cat([ids for ids, _ in every]), return_inverse=True)
    sums = table.new_zeros(len(union), *table.shape[1:])
    for place, (_, values) in zip(torch.split(places, [len(ids) for ids, _ in every]), every, strict=True):
        sums.index_add_(0, place, values)  # within a rank no row comes twice: no sum depends on the order of threads
    return torch.sparse_coo_tensor(union[None], sums, table.shape, is_coalesced=True, check_invariants=False)


def _everyone(own: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """What each rank holds, of which one has so many numbers; straight from rank to rank, as long as it is."""
    rank, operations = rank_and_size()[0], []
    every = [own if other == rank else own.new_empty(length) for other, length in enumerate(lengths)]
    for other, held in enumerate(every):
        if other != rank and len(own):
            operations.append(distributed.P2POp(distributed.isend, own, other))
        if other != rank and len(held):
            operations.append(distributed.P2POp(distributed.irecv, held, other))
    for work in distributed.batch_isend_irecv(operations) if operations else ():
        work.wait()
    return every
