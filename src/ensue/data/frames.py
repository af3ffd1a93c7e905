"""Data frames of polars, pandas and pyarrow wherever the path of a file is taken.

A frame is written as Parquet into a private folder and read like any other file, so that it goes through the same
checks of ids, times and labels and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TypeGuard, TypeVar

import narwhals as nw
import polars as pl
from narwhals.exceptions import NarwhalsError

from ensue.data.binary import parquet_of
from ensue.data.file_bytes import temporary_folder
from ensue.errors import DataError, EnsueError

Read = TypeVar("Read")
FRAME = "the frame"
"""Name of data without a path in messages."""


def is_path(data: object) -> TypeGuard[str | PathLike[str]]:
    """Return whether data is the path of a file, a folder or a pattern of names."""
    return isinstance(data, str | PathLike)


def frame_of(data: object) -> pl.DataFrame | None:
    """Return a frame of any library as one of polars; ``None`` for anything else.

    A lazy frame is collected. A named index of pandas becomes a column.

    Raises:
        DataError: a frame of pandas without pyarrow, two columns of one name, or a column that is no table's.
    """
    names = getattr(getattr(data, "index", None), "names", ()) if type(data).__module__.startswith("pandas") else ()
    if any(names):
        # The index of a grouped frame holds sessions or users; an index without a name counts rows.
        data = data.reset_index()  # type: ignore[attr-defined]
    try:
        native: object = nw.from_native(data, pass_through=True)
        if isinstance(native, nw.LazyFrame):
            native = native.collect()
        return native.to_polars() if isinstance(native, nw.DataFrame) else None
    except ModuleNotFoundError as error:
        raise DataError(f"{FRAME}: a frame of pandas needs pyarrow; install it (pip install pyarrow)") from error
    except (NarwhalsError, pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DataError(
            f"{FRAME}: cannot be read ({' '.join(str(error).split())}); give columns of texts, numbers and times"
        ) from error


def read_frame(frame: pl.DataFrame, read: Callable[[Path], Read]) -> Read:
    """Read a frame with the reader of a file.

    Args:
        frame: columns of texts, numbers and times.
        read: reads a Parquet file.

    Raises:
        DataError: what the reader says, with "the frame" in place of the file's name.
    """
    with _written(frame) as path:
        try:
            return read(path)
        except EnsueError as error:
            raise type(error)(str(error).replace(str(path), FRAME)) from None


@contextmanager
def _written(frame: pl.DataFrame) -> Iterator[Path]:
    with temporary_folder() as folder:
        path = folder / "frame.parquet"
        try:
            path.write_bytes(parquet_of(frame))
        except (pl.exceptions.PolarsError, TypeError) as error:
            raise DataError(f"{FRAME}: holds unsupported values ({error}); give texts, numbers and times") from error
        yield path
