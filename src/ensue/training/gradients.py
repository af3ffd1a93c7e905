"""Gradients of all ranks, summed to the same bytes on every rank.

Of a table that is looked up only the rows travel that a rank touched. Ranks of one machine lay what they have into
memory that all of them see, and tell each other through pipes when it is there; ranks of several send it straight to
each other, as long as it is, while dense gradients are reduced beside it.
"""

from __future__ import annotations

import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from functools import reduce
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, distributed, nn

from ensue.training.distributed import max_over_ranks, rank_and_size, share

ROOM = 8 * 2**20
"""Bytes of common memory that a step of a rank has at most; gradients that need more are sent."""
MEMORY = "/dev/shm"
"""Where files lie in memory."""


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
        self._common = _common() if self._device.type == "cpu" else None
        self._turn = 0

    def __call__(self, totals: Tensor, divisor: int) -> Tensor:
        """Sum what the last step left, in the order of the ranks.

        Args:
            totals: (n,) float64, summed along.
            divisor: which of their sums the gradients are divided by.

        Returns:
            (n,) float64 the sums of ``totals``, on the CPU.
        """
        rows = [_touched(table) for table in self.tables]
        flat = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self.dense]
        own = [*(ids for ids, _ in rows), *(values for _, values in rows), *([torch.cat(flat)] if flat else [])]
        if laid := self._laid(rank_and_size()[0], [len(ids) for ids, _ in rows]):
            for place, part in zip(laid, own, strict=True):
                place.copy_(part)
        told = self._told(torch.cat([totals, torch.tensor([len(ids) for ids, _ in rows], dtype=totals.dtype)]))
        sums, lengths = told[:, : len(totals)].sum(0), told[:, len(totals) :].long().tolist()
        whole = float(sums[divisor])
        seen = [self._laid(rank, counts) for rank, counts in enumerate(lengths)]
        every, total = [parts for parts in seen if parts], None
        self._turn ^= 1
        if len(every) < len(seen):
            every, total = self._sent(own, lengths)
        elif flat:
            total = reduce(torch.add, [parts[-1] for parts in every])
        for number, table in enumerate(self.tables):
            table.grad = _sum_rows(table, [(parts[number], parts[number + len(self.tables)]) for parts in every], whole)
        if total is not None:
            total /= whole
            for parameter, part in zip(self.dense, torch.split(total, [p.numel() for p in self.dense]), strict=True):
                parameter.grad = part.view_as(parameter)
        return sums

    def close(self) -> None:
        """Let go of what the ranks share."""
        if self._common is not None:
            self._common.close()

    def _laid(self, rank: int, counts: Sequence[int]) -> list[Tensor]:
        """Where in the common memory a rank that touched so many rows lays them; empty where it has too little room.

        No rank writes here before all have read what was here last: each tells of a step when it has read the one
        before, and every second step has the same half.
        """
        if self._common is None:
            return []
        sizes = [(count,) for count in counts] + [
            (count, *table.shape[1:]) for count, table in zip(counts, self.tables, strict=True)
        ]
        kinds = [torch.int64] * len(counts) + [table.dtype for table in self.tables]
        if self.dense:
            sizes.append((sum(parameter.numel() for parameter in self.dense),))
            kinds.append(self.dense[0].dtype)
        half, low, parts = self._common.memory[rank, self._turn], 0, list[Tensor]()
        for kind, size in zip(kinds, sizes, strict=True):
            high = low + math.prod(size) * kind.itemsize
            if high > len(half):
                return []
            parts.append(half[low:high].view(kind).view(size))
            low = -(-high // 8) * 8
        return parts

    def _told(self, numbers: Tensor) -> Tensor:
        """(ranks, n) what each rank says, as many numbers as the others."""
        if self._common is not None:
            return self._common.tell(numbers)
        return torch.stack(_everyone(numbers.to(self._device), [len(numbers)] * rank_and_size()[1])).cpu()

    def _sent(
        self, own: Sequence[Tensor], lengths: Sequence[Sequence[int]]
    ) -> tuple[list[list[Tensor]], Tensor | None]:
        """What each rank holds of the tables, and the sum of dense gradients, by messages."""
        wide = len(self.tables)
        total = own[-1] if self.dense else None
        reduced = distributed.all_reduce(total, async_op=True) if total is not None else None
        parts = list[list[Tensor]]()
        for part, counts in zip(own[: 2 * wide], [*zip(*lengths, strict=True)] * 2, strict=True):
            width = math.prod(part.shape[1:])
            flat = _everyone(part.reshape(-1), [count * width for count in counts])
            parts.append([held.view(-1, *part.shape[1:]) for held in flat])
        if reduced is not None:
            reduced.wait()
        return [[part[rank] for part in parts] for rank in range(len(lengths))], total


class _Common(NamedTuple):
    """What the ranks of one machine share."""

    memory: Tensor
    """(ranks, 2, bytes) that all read and write."""
    readers: dict[int, FileIO]
    """By rank what comes from it."""
    writers: dict[int, FileIO]
    """By rank what goes to it."""

    def tell(self, numbers: Tensor) -> Tensor:
        """Give a few numbers to every other rank, and get theirs; what was laid before is seen by who got them.

        Raises:
            ConnectionError: another rank has ended.
        """
        said = numbers.numpy().tobytes()
        every = dict.fromkeys(range(len(self.memory)), said)
        for writer in self.writers.values():
            writer.write(said)
        for rank, reader in self.readers.items():
            every[rank] = reader.read(len(said)) or b""
            if len(every[rank]) < len(said):
                raise ConnectionError(f"rank {rank} has ended")
        return torch.tensor(np.frombuffer(b"".join(every.values()))).view(len(every), -1)

    def close(self) -> None:
        """Let go of the pipes."""
        for end in (*self.readers.values(), *self.writers.values()):
            end.close()


def _common() -> _Common | None:
    """Memory and pipes; ``None`` where the ranks share no machine, or it has too little memory."""
    rank, world = rank_and_size()
    others = [other for other in range(world) if other != rank]
    made = share(_made(world) if rank == 0 else None)
    common = None if made is None else _opened(Path(made), world, rank)
    if not max_over_ranks(int(common is None)) and common is not None and made is not None:
        for other in others:
            common.writers[other] = FileIO(f"{made}/{rank}-{other}", "w")
    missed = max_over_ranks(int(common is None))
    if rank == 0 and made is not None:
        shutil.rmtree(made)  # what is open stays as long as somebody has it, and no longer, however they end
    if missed and common is not None:  # another rank is on another machine
        common.close()
    return None if missed else common


def _made(world: int) -> str | None:
    """A folder whose files lie in memory; ``None`` where there is no such place, or it has too little."""
    folder = None
    try:
        folder = tempfile.mkdtemp(prefix="ensue-", dir=MEMORY)
        with Path(folder, "memory").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, world * 2 * ROOM)  # for a page that cannot be had later ends a process
        for one in range(world):
            for other in range(one):
                os.mkfifo(f"{folder}/{one}-{other}", 0o600)
                os.mkfifo(f"{folder}/{other}-{one}", 0o600)
    except OSError:
        if folder is not None:
            shutil.rmtree(folder)
        return None
    return folder


def _opened(folder: Path, world: int, rank: int) -> _Common | None:
    """The memory and what comes to this rank."""
    try:
        with (folder / "memory").open("r+b") as file:
            memory = torch.frombuffer(mmap.mmap(file.fileno(), 0), dtype=torch.uint8).view(world, 2, ROOM)
        readers = {
            other: FileIO(folder / f"{other}-{rank}", opener=_no_waiting) for other in range(world) if other != rank
        }
        for reader in readers.values():
            os.set_blocking(reader.fileno(), True)
    except OSError:
        return None
    return _Common(memory, readers, {})


def _no_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


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


def _sum_rows(table: nn.Parameter, every: Sequence[tuple[Tensor, Tensor]], divisor: float) -> Tensor:
    """The sparse gradient of all ranks, of which each touched some rows, by a divisor."""
    union, places = torch.unique(torch.cat([ids for ids, _ in every]), return_inverse=True)
    sums = table.new_zeros(len(union), *table.shape[1:])
    for place, (_, values) in zip(torch.split(places, [len(ids) for ids, _ in every]), every, strict=True):
        sums.index_add_(0, place, values)  # within a rank no row comes twice: no sum depends on the order of threads
    sums /= divisor
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
