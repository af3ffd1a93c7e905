"""A table in files of every form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import xlsxwriter

Writer = Callable[[pl.DataFrame, Path], object]


def write_excel(frame: pl.DataFrame, path: Path) -> None:
    """A workbook whose numbers are numbers and whose texts are texts."""
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        for column, name in enumerate(frame.columns):
            sheet.write(0, column, name)
            for row, cell in enumerate(frame[name], 1):
                if isinstance(cell, str):
                    sheet.write_string(row, column, cell)
                elif cell is not None:
                    sheet.write_number(row, column, cell)


def write_json(frame: pl.DataFrame, path: Path) -> None:
    """One array of objects."""
    path.write_text(frame.write_json(), encoding="utf-8")


FORMS: dict[str, Writer] = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
    "json": write_json,
    "parquet": lambda frame, path: frame.write_parquet(path),
    "xlsx": write_excel,
}
