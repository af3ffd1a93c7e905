"""Where tensors are computed."""

from __future__ import annotations

from contextlib import suppress

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
