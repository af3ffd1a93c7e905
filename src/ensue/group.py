"""The processes of one training, as ``torchrun`` starts them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed


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


def here() -> tuple[int, int]:
    """(rank, ranks) of this process; (0, 1) outside a group."""
    joined = distributed.is_available() and distributed.is_initialized()
    return (distributed.get_rank(), distributed.get_world_size()) if joined else (0, 1)
