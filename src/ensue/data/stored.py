"""Parquet that this library wrote, read as carefully as anybody's: it may have been damaged or exchanged since."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from ensue.data.files import answering
from ensue.data.packed import memory_at_hand
from ensue.data.parquet import require_small
from ensue.errors import DataError


def read_stored(path: Path, data: bytes, columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """The rows of a file that holds exactly these columns, with no cell empty.

    Args:
        path: the file, for messages.
        data: its bytes.
        columns: the type of each by its name.

    Raises:
        DataError: other columns, damage, or more than half of the memory at hand.
    """
    require_small(path, data, memory_at_hand() // 2, "")
    with answering(path):
        frame = pl.read_parquet(io.BytesIO(data))
    if dict(frame.schema) != dict(columns) or any(frame.null_count().row(0)):
        raise DataError(f"{path}: is damaged (columns {', '.join(frame.columns)})")
    return frame
