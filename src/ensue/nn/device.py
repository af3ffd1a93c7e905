"""Where tensors are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from ensue.errors import SettingError


def find_device(name: str | None) -> torch.device:
    """A device by name; a GPU, if there is one, where none is named.

    Raises:
        SettingError: the device is not at hand.
    """
    gpu = torch.cuda.is_available()
    with suppress(RuntimeError):
        found = torch.device(name or ("cuda" if gpu else "cpu"))
        if gpu or found.type != "cuda":
            return found
    raise SettingError(f"device {name!r} is not at hand; choose from cpu{', cuda' if gpu else ''}")


@contextmanager
def room_for(model: str) -> Iterator[None]:
    """Whatever fails while a network is made is one error: it is too large.

    Raises:
        SettingError: it does not fit into memory.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise SettingError(f"{model} with these settings does not fit into memory; make it smaller") from error
