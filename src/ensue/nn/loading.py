"""Networks made for the tensors of a file: no weight is drawn, and no memory is taken that the file does not need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ensue.nn.validation import require_table

LARGEST_UNSAVED = 2**24
"""Numbers of a tensor that a network may make although its file has no tensor as large, such as a mask."""
_FACTORIES = frozenset(("empty", "zeros", "ones", "full", "arange", "rand", "randn", "eye", "linspace", "tril", "triu"))


class Undrawn(TorchFunctionMode):
    """Mode in which networks are made without drawing their weights, which come from a file.

    A tensor to be drawn in place keeps its uninitialised memory; zeros and ones are set.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run a torch function in this mode."""
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "trunc_normal_"):
            return args[0] if args else kwargs["tensor"]  # a tensor's own method, or a function of torch.nn.init
        return func(*args, **(kwargs or {}))


@runtime_checkable
class Validated(Protocol):
    """A module with tables whose values or lengths have to fit together."""

    def validate(self, name: str) -> None:
        """Check the module's own tables, once they are loaded; submodules check theirs.

        Args:
            name: of the module, in messages.

        Raises:
            ValueError: they do not fit together, or a value is outside what the module computes with.
        """


class Bounded(TorchFunctionMode):
    """Refuse to make tensors that are much larger than those of a file, before anything is allocated.

    Sizes in the settings of a folder may say anything; a network is made of them before shapes can be compared.
    (The meta device would allocate nothing either, but takes a second to import.)

    Args:
        tensors: of the file.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.largest = max([LARGEST_UNSAVED, *(tensor.numel() for tensor in tensors.values())])

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Check the sizes that a factory of tensors is called with.

        Raises:
            ValueError: the tensor would be too large.
        """
        keywords = kwargs or {}
        if getattr(func, "__name__", "") in _FACTORIES:
            sizes = [*args, keywords.get("size", 1)]
            flat = [size for entry in sizes for size in (entry if isinstance(entry, Sequence) else [entry])]
            # A size of 0 counts as 1, so it cannot hide a huge size next to it.
            numbers = math.prod(max(size, 1) for size in flat if isinstance(size, int))
            if numbers > self.largest:
                raise ValueError(f"a tensor of {numbers:.3g} numbers does not fit the tables of the folder")
        return func(*args, **keywords)


def require_shapes(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Check that tensors have the names, types and shapes of a module's tensors.

    Args:
        module: as its settings make it, within :class:`Bounded`.
        tensors: by name, as in its ``state_dict``.

    Raises:
        ValueError: one is missing, unknown, of another type or of another shape.
    """
    expected = module.state_dict()
    # The symmetric difference: names that only one side has.
    if different := sorted(expected.keys() ^ tensors.keys()):
        raise ValueError(f"tensor {different[0]} is {'missing' if different[0] in expected else 'not known'}")
    for name, table in expected.items():
        require_table(name, tensors[name], table.dtype, table.shape)


def assign_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Assign loaded tensors to a module, and let each submodule check how they fit together.

    Args:
        module: as its settings make it.
        tensors: by name, as in its ``state_dict``; they are not copied.

    Raises:
        ValueError: as :func:`require_shapes` and :meth:`Validated.validate`.
    """
    require_shapes(module, tensors)
    module.load_state_dict(dict(tensors), assign=True)
    for name, submodule in module.named_modules():
        if isinstance(submodule, Validated):
            submodule.validate(name or type(module).__name__)
