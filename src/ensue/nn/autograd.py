"""Types of hand-written gradients, and tensors computed from parameters, cached until a parameter changes.

A change is seen by the version that torch counts for each tensor. Fused optimizers, ours and torch's, write without
counting; so a hook counts for every optimizer after each of its steps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

Derived = TypeVar("Derived")
Options = TypeVar("Options")


class Context(Protocol[Options]):
    """Context in which ``forward`` saves tensors for ``backward``, and in ``options`` what else it needs."""

    options: Options

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """Return the saved tensors, in their order."""

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Return for each input whether a gradient is needed."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""


def apply(function: type[torch.autograd.Function], *inputs: object) -> Tensor:
    """Return the outputs of the function, recorded for autograd."""
    return cast(Tensor, function.apply(*inputs))  # type: ignore[no-untyped-call]


def is_traced() -> bool:
    """Return whether an exporter traces the network; operators must then be standard ones, and fit any size."""
    return torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]


def _count_step(optimizer: Optimizer, args: object, kwargs: object) -> None:
    """Raise the version of all parameters of an optimizer that took a step."""
    increment_version([parameter for group in optimizer.param_groups for parameter in group["params"]])


register_optimizer_step_post_hook(_count_step)


class DerivedCache(nn.Module, Generic[Derived]):
    """A value computed from parameters, computed again once one of them has changed; no part of a saved state.

    It is a submodule of the module whose parameters they are, so that training, which needs none, frees its memory.

    Args:
        make: computes it.
    """

    def __init__(self, make: Callable[[], Derived]) -> None:
        super().__init__()
        self.make = make
        self.key: tuple[object, ...] = ()
        self.value: Derived | None = None

    def get(self, parameters: Iterable[Tensor]) -> Derived:
        """Return the value for the parameters as they are now."""
        key = tuple((parameter.data_ptr(), parameter._version, parameter.shape) for parameter in parameters)
        if self.value is None or key != self.key:
            # A tensor made in inference mode could not be used by a later call that records gradients.
            with torch.inference_mode(False), torch.no_grad():
                self.value = self.make()
            self.key = key
        return self.value

    def train(self, mode: bool = True) -> Self:
        """Free the memory of the value."""
        self.value = None
        return super().train(mode)

    def __deepcopy__(self, memo: dict[int, object]) -> DerivedCache[Derived]:
        """Return the value for a copied module, bound to the copy's ``make``; the cached value is not copied."""
        return DerivedCache(copy.deepcopy(self.make, memo))


def parameters_of(module: nn.Module) -> list[Tensor]:
    """Return the parameters of a module and its submodules; torch's own iterator takes several times as long."""
    modules: list[nn.Module] = [module]
    parameters: list[Tensor | None] = []
    for submodule in modules:  # which grows meanwhile
        if submodule._modules:
            modules += [child for child in submodule._modules.values() if child is not None]
        if submodule._parameters:
            parameters += submodule._parameters.values()
    return [parameter for parameter in parameters if parameter is not None]
