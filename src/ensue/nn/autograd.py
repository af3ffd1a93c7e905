"""Types for functions whose gradient is written by hand."""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor


class Context(Protocol):
    """Context in which ``forward`` saves tensors for ``backward``; subclasses name further attributes."""

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """Return the saved tensors, in their order."""
        ...

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Return for each input whether a gradient is needed."""
        ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""
        ...


def apply(function: type[torch.autograd.Function], *inputs: object) -> Tensor:
    """Return the outputs of the function, recorded for autograd."""
    return cast(Tensor, function.apply(*inputs))  # type: ignore[no-untyped-call]
