"""Excel workbooks: one sheet as Parquet, every cell the text that people see in it."""

from __future__ import annotations

import io
import logging
import re
import zipfile
import zlib
from pathlib import Path
from typing import IO

import polars as pl

from ensue.data.file_bytes import FileBytes, memory_at_hand
from ensue.errors import DataError
from ensue.lines import listed, one_line, quoted
from ensue.records import MAX_EXACT

BINARY = _ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
"""First bytes of workbooks of today, and of before 2007."""
_SAVE = "save it as .xlsx or as CSV"
_CELL = re.compile(rb"""\sr\s*=\s*["']\$?([A-Za-z]{0,3})\$?(\d{1,10})["']""")
_CELL_OF_NUMBER = re.compile(
    rb"""<c\s+r\s*=\s*["']\$?([A-Za-z]{1,3})\$?\d{1,10}["'](?:\s+(?!t=)\w+="[^"]*"|\s+t="n")*\s*><v>(-?[\d.eE+]{16,30})</v>"""
)
"""A cell with a number of many digits; ``t`` would say that it is a text."""
_TEXT_OF_NUMBER = r"^-?\d{16,}$"
_STEP = 2**20
_LONGEST_CELL = 256
_TOP = 50
"""Rows among which the header is looked for."""
# A reader of sheets keeps a place of 32 bytes for every cell of the rectangle, a column of texts 16 more.
_BYTES_A_CELL = 64


def is_sheet(path: Path, data: bytes | FileBytes) -> bool:
    """Return whether these are the bytes of an Excel workbook.

    Raises:
        DataError: an archive of something else, or the format of Excel before 2007.
    """
    if data[:4] == _OLE:
        raise DataError(f"{path}: is an old Office file; {_SAVE}")
    if data[:4] != _ZIP:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data[:])) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise DataError(f"{path}: is a damaged archive; fetch it again") from error
    if "xl/workbook.xml" not in names:
        raise DataError(f"{path}: is an archive without an Excel workbook; unpack it, or {_SAVE}")
    return True


def read_sheet(
    path: Path, data: bytes | FileBytes, name: str, limit: int, advice: str, *, usual: str = ""
) -> tuple[bytes, int, tuple[str, ...]]:
    """The cells of one sheet.

    Args:
        path: the file, for messages.
        data: its bytes.
        name: of the sheet; empty for the first.
        limit: bytes that its parts may unpack to together.
        advice: what an error adds where there are more.
        usual: the sheet that the model's training data was in, where ``name`` is empty and there are several.

    Returns:
        A Parquet file of texts, the number of the first row under the header, and notes.

    Raises:
        DataError: a damaged workbook, one that unpacks to too much, or no such sheet.
    """
    import fastexcel

    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it would print what types it guessed
    rounded = _require_small(path, data, limit, advice)
    try:
        book = fastexcel.read_excel(data[:])
        names = book.sheet_names
        if not name and len(names) > 1:
            name = usual
        if name and name not in names:
            raise DataError(f"{path}: has no sheet {quoted(name)}; the sheets are {listed(names)}")
        if not names:
            raise DataError(f"{path}: has no sheet")
        top = book.load_sheet(name or 0, header_row=None, skip_rows=0, n_rows=_TOP, dtypes="string")
        header = _header(top.to_polars()) if top.width else 0
        sheet = book.load_sheet(name or 0, header_row=header, dtypes="string")
        frame = sheet.to_polars() if sheet.width else pl.DataFrame()
    except (fastexcel.FastExcelError, pl.exceptions.PolarsError) as error:
        notes_read = one_line((str(error).splitlines() or ["no reason given"])[0], 120)
        raise DataError(f"{path}: the Excel file is damaged or unusual ({notes_read}); {_SAVE}") from error
    if not frame.width or not len(frame):
        raise DataError(
            f"{path}: sheet {quoted(name or names[0])} is empty or holds only a header; choose a sheet with --sheet"
        )
    others = (
        (f"sheet {quoted(names[0])} of {len(names)}; name another with --sheet",) if len(names) > 1 and not name else ()
    )
    buffer = io.BytesIO()
    seen = [_as_seen(_rounded(column) if place in rounded else column) for place, column in enumerate(frame)]
    pl.DataFrame(seen).write_parquet(buffer, compression="uncompressed")
    if header:
        rows = "row 1" if header == 1 else f"rows 1 to {header:,}"
        others = (*others, f"{rows} above the header left out")
    return buffer.getvalue(), header + 2, others


def _header(top: pl.DataFrame) -> int:
    """The row of the header, from 0: below rows that are empty or, as titles do, fill one cell alone."""
    filled = [sum(cell is not None and bool(cell.strip()) for cell in row) for row in top.iter_rows()]
    least = min(2, max(filled, default=0))
    return next((row for row, cells in enumerate(filled) if cells >= max(least, 1)), 0)


def _as_seen(column: pl.Series) -> pl.Series:
    """Days without their midnight, times of day without the day that Excel counts from."""
    filled = column.drop_nulls()
    if len(filled) and filled.str.contains(r"^\d{4}-\d\d-\d\d 00:00:00$").all():
        return column.str.head(10)
    return column.str.strip_prefix("1899-12-31 ")


def _rounded(column: pl.Series) -> pl.Series:
    """A column whose numbers beyond 2^53 are as Excel shows them, ``1.23456789012346E+18``: it keeps 15 digits.

    The reader of the file writes all the digits of the float, as if they were known; a text of digits is told from them
    by digits that no float has.
    """
    long = column.str.contains(_TEXT_OF_NUMBER).fill_null(False)
    numbers = column.filter(long).cast(pl.Float64)
    texts = [
        f"{number:.14E}" if abs(number) >= MAX_EXACT and f"{number:.0f}" == text else text
        for text, number in zip(column.filter(long), numbers, strict=True)
    ]
    return column.scatter(long.arg_true(), pl.Series(texts, dtype=pl.String))


def _require_small(path: Path, data: bytes | FileBytes, limit: int, advice: str) -> set[int]:
    """Refuse what unpacks to too much, or spans more cells than fit into memory.

    Returns:
        The columns, from 0, that hold numbers beyond 2^53 in any sheet.
    """
    total, cells, rounded = 0, memory_at_hand() // _BYTES_A_CELL, set[int]()
    try:
        with zipfile.ZipFile(io.BytesIO(data[:])) as archive:
            for part in archive.infolist():
                with archive.open(part) as stream:
                    total, spanned, columns = _measure(stream, total, limit)
                rounded |= columns
                if total > limit:
                    raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
                if part.filename.startswith("xl/worksheets/") and spanned > cells:
                    raise DataError(f"{path}: {part.filename} spans {spanned:,} cells; delete cells far outside")
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OSError) as error:
        raise DataError(f"{path}: is a damaged archive; fetch it again") from error
    return rounded


def _measure(stream: IO[bytes], total: int, limit: int) -> tuple[int, int, set[int]]:
    """Bytes so far, the cells of the rectangle that the references in it span, and its columns with long numbers."""
    columns_kept, right, low, high = b"", 1, 2**40, 0
    left, long = 2**40, set[int]()
    while (step := stream.read(_STEP)) and total <= limit:
        total += len(step)
        cells = _CELL.findall(columns_kept + step)
        columns, rows = {column for column, _ in cells}, {int(row) for _, row in cells}
        right, left = max([right, *map(_number, columns)]), min([left, *map(_number, filter(None, columns))])
        long |= {_number(column) for column, text in _CELL_OF_NUMBER.findall(columns_kept + step) if _is_long(text)}
        low, high = min([low, *rows]), max([high, *rows])
        columns_kept = step[-_LONGEST_CELL:]
    return total, max(high - low + 1, 0) * right, {column - left for column in long}


def _is_long(text: bytes) -> bool:
    try:
        return abs(float(text)) >= MAX_EXACT
    except ValueError:
        return False


def _number(column: bytes) -> int:
    """``A`` is 1, ``AA`` is 27."""
    number = 0
    for letter in column.upper():
        number = 26 * number + letter - 64
    return number
