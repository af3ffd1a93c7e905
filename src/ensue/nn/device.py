"""Choice of the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ensue.errors import SettingError
from ensue.lazy import is_imported, torch
from ensue.lines import one_line

if TYPE_CHECKING:
    from torch import Tensor

ALLOCATION = ("can't allocate memory", "Storage size calculation overflowed", "std::bad_alloc")
"""Texts of torch's errors about failed allocations and about sizes beyond any memory."""


def find_device(name: str | None) -> torch.device:
    """Return a device by name; without a name a GPU, if there is one.

    Raises:
        SettingError: the device is not at hand.
    """
    gpu = torch.cuda.is_available()
    # torch raises one of these for a name that it does not know.
    with suppress(RuntimeError, TypeError, ValueError):
        device = torch.device(("cuda" if gpu else "cpu") if name is None else name)
        if gpu or device.type != "cuda":
            return device
    raise SettingError(f"device {one_line(repr(name), 60)} is not available; choose from cpu{', cuda' if gpu else ''}")


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Name what does not fit into memory, on a CPU and on a GPU; other errors pass as they are.

    Raises:
        SettingError: an allocation failed.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        is_memory = isinstance(error, MemoryError) or (
            is_imported("torch") and isinstance(error, torch.OutOfMemoryError)
        )
        if is_memory or any(text in str(error) for text in ALLOCATION):
            raise SettingError(f"{what} does not fit into memory; make it smaller") from error
        raise


@contextmanager
def in_order(device: torch.device) -> Iterator[None]:
    """Make sums on the CPU independent of the number of threads, such as gradients of rows looked up twice."""
    if device.type != "cpu":
        yield
        return
    enabled = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch_settings: Any = torch.utils.deterministic
    filled = torch_settings.fill_uninitialized_memory
    # The public function also imports the compiler, for its settings: a second or more of a fit.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    torch_settings.fill_uninitialized_memory = False  # it takes time, and no sum depends on it
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(enabled, warn_only=warn)
        torch_settings.fill_uninitialized_memory = filled


def is_float32_on_cpu(*tensors: Tensor) -> bool:
    """Return whether compiled kernels take tensors of this type and device."""
    return all(tensor.dtype == torch.float32 and tensor.is_cpu for tensor in tensors)
