"""The processes of one training, as ``torchrun`` starts them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed

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


def _device() -> torch.device:
    """Where messages of the group lie."""
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
