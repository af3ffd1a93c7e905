"""Checks of loaded tables: whoever wrote the file, an index that passed here lies inside what it indexes.

A compiled kernel and a gather trust their indices. Each integer table of a model folder is therefore checked once, when
it is loaded: its type, its shape, its range, and that offsets rise from 0 to the end of what they cut. All functions
raise ``ValueError`` with the table's name, which :func:`ensue.store.folder.damage` reports as a damaged folder.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def require_table(name: str, table: Tensor, dtype: torch.dtype, shape: Sequence[int | None]) -> None:
    """Check the type and the shape of a table.

    Args:
        name: what the message calls it.
        table: any tensor.
        dtype: its type, exactly.
        shape: its sizes; ``None`` for one that may be anything.

    Raises:
        ValueError: another type, another number of dimensions, or another size.
    """
    fits = table.dim() == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, table.shape, strict=True)
    )
    if table.dtype != dtype or not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} is {table.dtype} of shape {tuple(table.shape)}, not {dtype} of shape ({wanted})")


def require_ids(name: str, ids: Tensor, end: int, start: int = 0) -> None:
    """Check that all ids lie in ``[start, end)``.

    Args:
        name: what the message calls them.
        ids: integers of any shape; none pass.
        end: one above the largest id.
        start: the smallest id.

    Raises:
        ValueError: no integers, or one outside the range.
    """
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise ValueError(f"{name} holds {ids.dtype}, not integers")
    if ids.numel():
        smallest, largest = (int(bound) for bound in ids.aminmax())
        if smallest < start or largest >= end:
            raise ValueError(f"{name} holds {smallest if smallest < start else largest}, outside [{start}, {end})")


def require_offsets(name: str, offsets: Tensor, length: int, rows: int | None = None) -> None:
    """Check that offsets cut ``length`` entries into rows: 0 first, ``length`` last, never falling.

    Args:
        name: what the message calls them.
        offsets: (rows + 1,) int64.
        length: number of entries that are cut.
        rows: number of rows; ``None`` for any.

    Raises:
        ValueError: they do not.
    """
    require_table(name, offsets, torch.int64, [None if rows is None else rows + 1])
    if not len(offsets) or int(offsets[0]) != 0 or int(offsets[-1]) != length:
        raise ValueError(f"{name} does not lead from 0 to {length}")
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise ValueError(f"{name} falls somewhere")
