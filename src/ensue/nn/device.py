"""Choice of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ensue.errors import SettingError
from ensue.lines import one_line

ALLOCATION = ("can't allocate memory", "Storage size calculation overflowed", "std::bad_alloc")
"""Texts of torch's errors about failed allocations and about sizes beyond any memory."""


def find_device(name: str | None) -> torch.device:
    """A device by name; a GPU, if there is one, where none is named.

    Raises:
        SettingError: the device is not at hand.
    """
    gpu = torch.cuda.is_available()
    with suppress(RuntimeError, TypeError, ValueError):
        device = torch.device(("cuda" if gpu else "cpu") if name is None else name)
        if gpu or device.type != "cuda":
            return device
    raise SettingError(f"device {one_line(repr(name), 60)} is not available; choose from cpu{', cuda' if gpu else ''}")


class Undrawn(TorchFunctionMode):
    """Networks are made without drawing their weights, for a file has them: what is not written takes no memory.

    What is drawn in place keeps whatever stands there; zeros and ones are set as ever.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run a torch function in this mode."""
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "trunc_normal_"):
            return args[0] if args else kwargs["tensor"]  # a tensor's own method, or a function of torch.nn.init
        return func(*args, **(kwargs or {}))


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Name what does not fit into memory, on a CPU and on a GPU; other errors pass as they are.

    Raises:
        SettingError: an allocation failed.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error) for text in ALLOCATION):
            raise SettingError(f"{what} does not fit into memory; make it smaller") from error
        raise


@contextmanager
def in_order(device: torch.device) -> Iterator[None]:
    """Sums on the CPU in one order, whatever the number of threads: gradients of rows that are looked up twice."""
    if device.type != "cpu":
        yield
        return
    enabled, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    about: Any = torch.utils.deterministic
    filled = about.fill_uninitialized_memory
    # The public function also imports the compiler, for its settings: a second or more of a fit.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    about.fill_uninitialized_memory = False  # it takes time, and no sum depends on it
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(enabled, warn_only=warn)
        about.fill_uninitialized_memory = filled


def is_float32_on_cpu(*tensors: Tensor) -> bool:
    """Return whether compiled kernels take tensors of this type and device."""
    return all(tensor.dtype == torch.float32 and tensor.is_cpu for tensor in tensors)
