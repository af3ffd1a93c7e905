"""Types for functions whose gradient is written by hand."""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor


class Context(Protocol):
    """Where ``forward`` leaves tensors for ``backward``; a function that leaves more names it in one of its own."""

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What was saved, in that order."""
        ...

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Of which inputs a gradient is asked."""
        ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""
        ...


def apply(function: type[torch.autograd.Function], *inputs: object) -> Tensor:
    """What a function makes of its inputs, as part of the graph of gradients."""
    return cast(Tensor, function.apply(*inputs))  # type: ignore[no-untyped-call]
