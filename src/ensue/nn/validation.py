"""Checks of loaded tables: whoever wrote the file, an index that passed here lies inside what it indexes.

A compiled kernel and a gather trust their indices. Each integer table of a model folder is therefore checked once, when
it is loaded: its type, its shape, its range, and that offsets rise from 0 to the end of what they cut. All functions
raise ``ValueError`` with the table's name, which :func:`ensue.store.folder.damage` reports as a damaged folder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

LARGEST_UNSAVED = 2**24
"""Numbers of a tensor that a network may make although its file has no tensor as large, such as a mask."""
Table: TypeAlias = Tensor | npt.NDArray[np.generic]
Counts: TypeAlias = Annotated[Tensor, torch.float32]
"""Counts of events, some of them weighted."""
_FACTORIES = frozenset(("empty", "zeros", "ones", "full", "arange", "rand", "randn", "eye", "linspace", "tril", "triu"))


def as_tensor(table: Table) -> Tensor:
    """Return an array as a tensor that shares its memory where the array may be written, else as a copy."""
    if isinstance(table, Tensor):
        return table
    return torch.from_numpy(table if table.flags.writeable else table.copy())


def require_table(name: str, table: Table, dtype: torch.dtype, shape: Sequence[int | None]) -> None:
    """Check the type and the shape of a table.

    Args:
        name: what the message calls it.
        table: any tensor.
        dtype: its type, exactly.
        shape: its sizes; ``None`` for one that may be anything.

    Raises:
        ValueError: another type, another number of dimensions, or another size.
    """
    table = as_tensor(table)
    fits = table.dim() == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, table.shape, strict=True)
    )
    if table.dtype != dtype or not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} is {table.dtype} of shape {tuple(table.shape)}, not {dtype} of shape ({wanted})")


def require_ids(name: str, ids: Table, end: int, start: int = 0) -> None:
    """Check that all ids lie in ``[start, end)``.

    Args:
        name: what the message calls them.
        ids: integers of any shape; none pass.
        end: one above the largest id.
        start: the smallest id.

    Raises:
        ValueError: no integers, or one outside the range.
    """
    ids = as_tensor(ids)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise ValueError(f"{name} holds {ids.dtype}, not integers")
    if ids.numel():
        smallest, largest = (int(bound) for bound in ids.aminmax())
        if smallest < start or largest >= end:
            raise ValueError(f"{name} holds {smallest if smallest < start else largest}, outside [{start}, {end})")


def require_offsets(name: str, offsets: Table, length: int, rows: int | None = None) -> None:
    """Check that offsets cut ``length`` entries into rows: 0 first, ``length`` last, never falling.

    Args:
        name: what the message calls them.
        offsets: (rows + 1,) int64.
        length: number of entries that are cut.
        rows: number of rows; ``None`` for any.

    Raises:
        ValueError: they do not.
    """
    offsets = as_tensor(offsets)
    require_table(name, offsets, torch.int64, [None if rows is None else rows + 1])
    if not len(offsets) or int(offsets[0]) != 0 or int(offsets[-1]) != length:
        raise ValueError(f"{name} does not lead from 0 to {length}")
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise ValueError(f"{name} falls somewhere")


MAX_COUNT = 2**48
"""Exclusive upper bound of stored counts; sums and small products of counts stay below 2^63."""
MAX_TOTAL = 2.0**62
"""The sum of whole numbers that count something."""
LARGEST_COUNT = 2.0**60
"""Counts above this are refused: the sum of as many as there are ids still is a finite float32."""


def require_counts(name: str, counts: Tensor) -> None:
    """Check that counts are 0 or more and so small that their sum stays finite.

    Args:
        name: what the message calls them.
        counts: finite floats of any shape.

    Raises:
        ValueError: one is negative, or larger than :data:`LARGEST_COUNT`.
    """
    if counts.numel():
        smallest, largest = (float(bound) for bound in counts.aminmax())
        if not 0 <= smallest <= largest <= LARGEST_COUNT:
            raise ValueError(f"{name} holds {smallest if smallest < 0 else largest}, which is not a count")


def require_totals(name: str, totals: Table, length: int, start: int = 0) -> None:
    """Check whole numbers that count something, and that their sum fits 64 bits.

    Args:
        name: what the message calls them.
        totals: (length,) int64.
        length: how many there must be.
        start: the smallest that passes.

    Raises:
        ValueError: they are of another type, too few, too many, too small, or too large.
    """
    totals = as_tensor(totals)
    require_table(name, totals, torch.int64, [length])
    require_ids(name, totals, MAX_COUNT, start)
    if float(totals.double().sum()) > MAX_TOTAL:
        raise ValueError(f"{name} has an impossible sum")


def require_number(name: str, number: Table, largest: float, smallest: float = 0.0) -> None:
    """Check that the numbers of a small tensor lie in ``[smallest, largest]``.

    Args:
        name: what the message calls it.
        number: finite floats of any shape.
        largest: the largest that passes.
        smallest: the smallest that passes.

    Raises:
        ValueError: one does not.
    """
    number = as_tensor(number)
    if not bool(((number >= smallest) & (number <= largest)).all()):
        outside = number[(number < smallest) | (number > largest) | number.isnan()]
        raise ValueError(f"{name} is {float(outside[0]):g}, outside [{smallest:g}, {largest:g}]")


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
        ...


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
        named = kwargs or {}
        if getattr(func, "__name__", "") in _FACTORIES:
            sizes = [*args, named.get("size", 1)]
            flat = [size for part in sizes for size in (part if isinstance(part, Sequence) else [part])]
            numbers = math.prod(max(size, 1) for size in flat if isinstance(size, int))
            if numbers > self.largest:
                raise ValueError(f"a tensor of {numbers:.3g} numbers does not fit the tables of the folder")
        return func(*args, **named)


def require_shapes(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Check that tensors have the names, types and shapes of a module's own.

    Args:
        module: as its settings make it, within :class:`Bounded`.
        tensors: by name, as in its ``state_dict``.

    Raises:
        ValueError: one is missing, unknown, of another type or of another shape.
    """
    expected = module.state_dict()
    if different := sorted(expected.keys() ^ tensors.keys()):
        raise ValueError(f"tensor {different[0]} is {'missing' if different[0] in expected else 'not known'}")
    for name, wanted in expected.items():
        require_table(name, tensors[name], wanted.dtype, wanted.shape)


def assign_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make loaded tensors a module's own, and let each part check how they fit together.

    Args:
        module: as its settings make it.
        tensors: by name, as in its ``state_dict``; they are not copied.

    Raises:
        ValueError: as :func:`require_shapes` and :meth:`Validated.validate`.
    """
    require_shapes(module, tensors)
    module.load_state_dict(dict(tensors), assign=True)
    for name, part in module.named_modules():
        if isinstance(part, Validated):
            part.validate(name or type(module).__name__)
