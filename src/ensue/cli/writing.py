"""Answers as a file: the columns of the input and those of the answers, in the format of the file's name.

Tables are opened in programs that take a cell for a formula: one that begins like one gets an apostrophe before it, and
what steers a terminal becomes its escape. JSON Lines and Parquet hold everything as it was.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl

from ensue.data.table import JSON
from ensue.lines import printable
from ensue.store.folder import write_file

_LISTED = (".jsonl", ".ndjson")
_STEERS = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"
_FORMULA = r"(?s)^(?:[\t\r\n]|\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20].)"
_NUMBER = r"^\s*[+-]?(?:\d[\d.,\s]*|[.,]\d+)(?:[eE][+-]?\d+)?\s*%?\s*$"


def is_listed(path: Path) -> bool:
    """Return whether a file is JSON Lines, which hold objects as they are."""
    return path.suffix in _LISTED


def write(frame: pl.DataFrame, path: Path, *, byte_order_mark: bool = False) -> None:
    """Write a table at once.

    Args:
        frame: its columns; one column ``json`` holds lines of JSON.
        path: whose name asks for the format.
        byte_order_mark: whether CSV and TSV begin with a mark, as their input did.

    Raises:
        ModelFolderError: the place cannot be written.
    """
    buffer = io.BytesIO()
    if is_listed(path) and frame.columns == [JSON]:
        buffer.write("".join(f"{line}\n" for line in frame[JSON]).encode())
    elif is_listed(path):
        frame.write_ndjson(buffer)
    elif path.suffix == ".parquet":
        frame.write_parquet(buffer)
    else:
        buffer.write(b"\xef\xbb\xbf" * byte_order_mark)
        cells = pl.DataFrame([harmless(column) for column in frame])
        cells.write_csv(buffer, separator="\t" if path.suffix == ".tsv" else ",")
    write_file(path, buffer.getvalue())


def harmless(column: pl.Series) -> pl.Series:
    """Return a column of cells that no program runs; numbers stay numbers, lists become JSON."""
    if column.dtype.is_nested():
        values = column.to_list()
        column = pl.Series(
            column.name,
            [None if v is None else json.dumps(v, ensure_ascii=False, default=str) for v in values],
            pl.String,
        )
    elif column.dtype == pl.Binary:
        column = column.bin.encode("hex")
    ((name,),) = _safe(pl.Series([column.name])).to_frame().rows()
    return (_safe(column) if column.dtype == pl.String else column).alias(name)


def _safe(texts: pl.Series) -> pl.Series:
    if texts.str.contains(_STEERS).any():
        texts = pl.Series(texts.name, [None if text is None else printable(text) for text in texts], pl.String)
    formula = texts.str.contains(_FORMULA) & ~texts.str.contains(_NUMBER)
    return ("'" + texts).zip_with(formula.fill_null(False), texts)
