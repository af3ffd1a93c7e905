"""What a training will hold in memory and what there is, before the first step is taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from ensue.training.optimizer import by_row

GB = 1e9
_GROUPS = Path("/sys/fs/cgroup")


def training_bytes(make: Callable[[int], nn.Module], num_ids: int, *, least: int) -> int:
    """Bytes of weights, gradients and Adam's moments of a network for so many ids, and of a copy of its largest table.

    The network is never made: two small ones, with an id between them, tell what an id costs. A table that is learned
    by the rows that are touched has no gradient as large as itself; the copy is what a table becomes to rank by it.

    Args:
        make: a network of so many ids.
        num_ids: the size that is asked about.
        least: the smallest number of ids that a network may have.
    """
    small, larger = make(least), make(least + 1)
    sparse = by_row(larger)
    total, tables = 0, [0]
    for (_, few), (_, more) in zip(small.named_parameters(), larger.named_parameters(), strict=True):
        size = (few.numel() + (num_ids - least) * (more.numel() - few.numel())) * more.element_size()
        total += size * (3 if more in sparse else 4)
        tables.append(size * (more.numel() > few.numel()))
    for (_, fewer), (_, buffer) in zip(small.named_buffers(), larger.named_buffers(), strict=True):
        total += (fewer.numel() + (num_ids - least) * (buffer.numel() - fewer.numel())) * buffer.element_size()
    return total + max(tables)


def free_bytes(device: torch.device) -> int | None:
    """What this process may still take: of a GPU, or of the machine and of the control group that it runs in.

    ``None`` where the system does not tell.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError, ValueError):  # "max", or no such files: no bound of a group
        limit, used = (int((_GROUPS / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        cached = (_GROUPS / "memory.stat").read_text(encoding="ascii").split()
        inactive = int(cached[cached.index("inactive_file") + 1])
        found.append(limit - used + inactive)
    return min(found) if found else None


def ranks_here() -> int:
    """Processes of this training on this machine, as ``torchrun`` tells them."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def gigabytes(size: float) -> str:
    """``3.1 GB``."""
    return f"{size / GB:.1f} GB"
