"""Checks of loaded tables: an index that passed lies inside the table that it indexes, whatever the file holds.

A compiled kernel and a gather trust their indices. Each integer table of a model folder is therefore checked once, when
it is loaded: its type, its shape, its range, and that offsets rise from 0 to the end of what they cut. All functions
raise ``ValueError`` with the table's name, which :func:`ensue.store.folder.damage` reports as a damaged folder.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # a table may be of a network, but nothing here needs torch
    from torch import Tensor

Array: TypeAlias = npt.NDArray[Any]
Table: TypeAlias = "Tensor | Array | np.generic"


def as_array(table: Table) -> Array:
    """Return a table as an array, which shares the memory of a tensor."""
    return np.asarray(table) if isinstance(table, np.ndarray | np.generic) else table.detach().cpu().numpy()


@cache
def dtype_name(dtype: Hashable) -> str:
    """Return the name of a type of elements, such as ``int64``, the same for NumPy's and torch's."""
    return np.dtype(dtype).name if isinstance(dtype, type) else str(dtype).removeprefix("torch.")


def require_table(name: str, table: Table, dtype: Hashable, shape: Sequence[int | None]) -> None:
    """Check the type and the shape of a table.

    Args:
        name: what the message calls it.
        table: an array or a tensor.
        dtype: its type, exactly, such as ``np.int64`` or ``torch.int64``.
        shape: its sizes; ``None`` for one that may be anything.

    Raises:
        ValueError: another type, another number of dimensions, or another size.
    """
    sizes = tuple(table.shape)
    # A size of None in ``shape`` permits any size.
    fits = len(sizes) == len(shape) and all(limit in (None, size) for limit, size in zip(shape, sizes, strict=True))
    if dtype_name(table.dtype) != dtype_name(dtype) or not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(
            f"{name} is {dtype_name(table.dtype)} of shape {sizes}, not {dtype_name(dtype)} of shape ({expected})"
        )


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
    array = as_array(ids)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} holds {array.dtype}, not integers")
    if array.size:
        smallest = int(array.min())
        largest = int(array.max())
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
    require_table(name, offsets, np.int64, [None if rows is None else rows + 1])
    array = as_array(offsets)
    if not len(array) or int(array[0]) != 0 or int(array[-1]) != length:
        raise ValueError(f"{name} does not lead from 0 to {length}")
    # Compare neighbours: a difference could overflow.
    if (array[1:] < array[:-1]).any():
        raise ValueError(f"{name} falls somewhere")


MAX_COUNT = 2**48
"""Exclusive upper bound of stored counts; sums and small products of counts stay below 2^63."""
MAX_TOTAL = 2.0**62
"""The sum of whole numbers that count something."""
LARGEST_COUNT = 2.0**60
"""Counts above this are refused: the sum of as many as there are ids still is a finite float32."""


def require_counts(name: str, counts: Table) -> None:
    """Check that counts are 0 or more and so small that their sum stays finite.

    Args:
        name: what the message calls them.
        counts: finite floats of any shape.

    Raises:
        ValueError: one is negative, or larger than :data:`LARGEST_COUNT`.
    """
    array = as_array(counts)
    if array.size:
        smallest = float(array.min())
        largest = float(array.max())
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
    require_table(name, totals, np.int64, [length])
    require_ids(name, totals, MAX_COUNT, start)
    if as_array(totals).sum(dtype=np.float64) > MAX_TOTAL:
        raise ValueError(f"{name} has an impossible sum")


def require_number(name: str, number: Table, largest: float, smallest: float = 0.0) -> None:
    """Check that the numbers of a small table lie in ``[smallest, largest]``.

    Args:
        name: what the message calls it.
        number: finite floats of any shape.
        largest: the largest that passes.
        smallest: the smallest that passes.

    Raises:
        ValueError: one does not.
    """
    array = as_array(number)
    inside = (array >= smallest) & (array <= largest)  # False where a number is NaN
    if not np.all(inside):
        raise ValueError(f"{name} is {float(array[~inside].flat[0]):g}, outside [{smallest:g}, {largest:g}]")
