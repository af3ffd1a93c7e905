"""Columns on disk in slices that are read one at a time: numbers as they lie in memory, texts as Arrow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

Number = TypeVar("Number", np.int32, np.uint32, np.int64, np.float64)


def write_slices(path: Path, column: pl.Series, ends: Sequence[int]) -> list[int]:
    """Write a column, and say at which byte each of its slices begins, the end last.

    Args:
        path: the file, which is replaced.
        column: texts, or numbers without a null.
        ends: where each slice begins, the end last: of two slices of 3 and 2 rows 0 3 5.
    """
    if column.dtype != pl.String:
        column.to_numpy().tofile(path)
        width = column.to_numpy().itemsize
        return [width * end for end in ends]
    places = [0]
    with path.open("wb") as file:
        for low, high in pairwise(ends):
            if high > low:
                buffer = io.BytesIO()
                column[low:high].alias("text").to_frame().write_ipc(buffer)
                file.write(buffer.getbuffer())
            places.append(file.tell())
    return places


def read_texts(path: Path, low: int, high: int) -> pl.Series:
    """A slice of texts, from one of the bytes that :func:`write_slices` said to the next."""
    if high == low:
        return pl.Series(dtype=pl.String)
    with path.open("rb") as file:
        file.seek(low)
        return pl.read_ipc(file.read(high - low))["text"]


def read_numbers(path: Path, kind: type[Number], low: int, high: int) -> npt.NDArray[Number]:
    """The numbers from one place in a file to another."""
    width = np.dtype(kind).itemsize
    return np.fromfile(path, kind, high - low, offset=low * width)
