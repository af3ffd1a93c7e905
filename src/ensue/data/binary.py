"""Binary tables: the size of a Parquet file before it is unpacked, and sheets of Excel files as Parquet.

A Parquet file may state a wrong size: what its footer announces is compared with what the heads of its pages state, for
a reader allocates memory by both.
"""

from __future__ import annotations

import io
import logging
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from ensue.data.file_bytes import FileBytes, memory_at_hand
from ensue.errors import DataError
from ensue.lines import listed, one_line, quoted
from ensue.records import MAX_EXACT

# Fields of the format's structs, which are Thrift's compact protocol.
_FILE_ROWS, _ROW_GROUPS, _COLUMNS, _META_DATA = 3, 4, 1, 3
_TOTAL_BYTE_SIZE, _GROUP_ROWS = 2, 3
_NUM_VALUES, _PACKED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_PAGE_UNPACKED, _PAGE_PACKED, _PAGE_VALUES = (2,), (3,), ((5, 1), (8, 1))
_DEEPEST = 20
_MAGIC = 4
_HEAD = 1 << 16
"""Bytes that the head of a page may take, statistics included."""


def require_small(path: Path, data: bytes | FileBytes, limit: int, advice: str) -> None:
    """Refuse a file that unpacks to too much, or announces what it does not hold.

    What has no readable footer, or a page without a readable head, is left to polars to refuse.

    Args:
        path: the file, for messages.
        data: its bytes.
        limit: bytes that it may unpack to.
        advice: what an error adds where there are more.

    Raises:
        DataError: more than the limit, or figures that contradict each other.
    """
    (length,) = struct.unpack("<i", data[-8:-4]) if len(data) > 12 else (0,)
    if not 0 < length <= len(data) - 12:
        return
    footer = _Struct(data[-8 - length : -8])
    try:
        footer.read_struct((), 0)
    except (IndexError, RecursionError):
        return
    group, column = (_ROW_GROUPS,), (_ROW_GROUPS, _COLUMNS, _META_DATA)
    unpacked = sum(max(size, 0) for size in footer.all((*group, _TOTAL_BYTE_SIZE)))
    if unpacked <= limit:
        unpacked = _pages(path, data, footer.structs(column), len(data) - 8 - length)
    if unpacked > limit:
        raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
    rows, group_rows = sum(footer.all((_FILE_ROWS,))), sum(footer.all((*group, _GROUP_ROWS)))
    if rows != group_rows:
        raise DataError(f"{path}: is damaged (it announces {rows:,} rows and holds {group_rows:,}); write it again")


def _pages(path: Path, data: bytes | FileBytes, columns: Iterator[dict[int, int]], end: int) -> int:
    """Bytes that the pages of all columns say they unpack to."""
    total = 0
    for column in columns:
        starts = [column[path] for path in (_DATA_PAGE, _DICTIONARY_PAGE) if column.get(path, 0) >= _MAGIC]
        at, size = min(starts, default=0), column.get(_PACKED_SIZE, 0)
        if at < _MAGIC or size < 0 or at + size > end:
            raise DataError(f"{path}: is damaged (a column lies outside of it); write it again")
        stop, values = at + size, 0
        while at < stop:
            head = _Struct(data[at : min(at + _HEAD, stop)])
            try:
                head.read_struct((), 0)
            except (IndexError, RecursionError):
                return total
            total += max([0, *head.all(_PAGE_UNPACKED)])
            values += sum(sum(head.all(path)) for path in _PAGE_VALUES)
            at += head.at + max([0, *head.all(_PAGE_PACKED)])
        if values != column.get(_NUM_VALUES, 0):
            raise DataError(f"{path}: is damaged (a column announces other values than its pages); write it again")
    return total


class _Struct:
    """A walk over the fields of a struct; ``numbers`` holds its whole numbers by where they stand, in their order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.numbers: list[tuple[tuple[int, ...], int]] = []

    def all(self, place: tuple[int, ...]) -> list[int]:
        """The numbers of one place, in as many structs as there are."""
        return [number for owner, number in self.numbers if owner == place]

    def structs(self, place: tuple[int, ...]) -> Iterator[dict[int, int]]:
        """The numbers of each struct of one place, by their fields, which never fall within a struct."""
        numbers: dict[int, int] = {}
        for owner, number in self.numbers:
            if owner[:-1] == place:
                if numbers and owner[-1] < max(numbers):
                    yield numbers
                    numbers = {}
                numbers[owner[-1]] = number
        if numbers:
            yield numbers

    def read_struct(self, place: tuple[int, ...], deep: int) -> None:
        """Every field of a struct; ``place`` are the numbers of the fields that lead to it."""
        if deep > _DEEPEST:
            raise RecursionError
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else _signed(self._varint())
            self._read(head & 15, (*place, field), deep)

    def _read(self, kind: int, place: tuple[int, ...], deep: int) -> None:
        if kind in (4, 5, 6):  # whole numbers
            self.numbers.append((place, _signed(self._varint())))
        elif kind == 8:  # bytes
            length = self._varint()
            self.at += length
        elif kind in (9, 10):  # lists and sets
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._read_element(head & 15, place, deep)
        elif kind == 12:
            self.read_struct(place, deep + 1)
        elif kind in (3, 7):
            self.at += 1 if kind == 3 else 8
        elif kind not in (1, 2):  # a truth has no bytes of its own; maps do not occur
            raise IndexError

    def _read_element(self, kind: int, place: tuple[int, ...], deep: int) -> None:
        if kind in (1, 2):
            self._byte()
        else:
            self._read(kind, place, deep + 1)

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 70:
                raise IndexError


def _signed(number: int) -> int:
    """Thrift's zigzag, where 0, 1, 2, 3 stand for 0, -1, 1, -2."""
    return number >> 1 ^ -(number & 1)


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
    notes = (
        (f"sheet {quoted(names[0])} of {len(names)}; name another with --sheet",) if len(names) > 1 and not name else ()
    )
    buffer = io.BytesIO()
    seen = [_as_seen(_rounded(column) if index in rounded else column) for index, column in enumerate(frame)]
    pl.DataFrame(seen).write_parquet(buffer, compression="uncompressed")
    if header:
        rows = "row 1" if header == 1 else f"rows 1 to {header:,}"
        notes = (*notes, f"{rows} above the header left out")
    return buffer.getvalue(), header + 2, notes


def _header(top: pl.DataFrame) -> int:
    """The row of the header, from 0: below rows that are empty or, as titles do, fill one cell alone."""
    filled = [sum(cell is not None and bool(cell.strip()) for cell in row) for row in top.iter_rows()]
    min_filled = min(2, max(filled, default=0))
    return next((row for row, cells in enumerate(filled) if cells >= max(min_filled, 1)), 0)


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
            for member in archive.infolist():
                with archive.open(member) as stream:
                    total, spanned, columns = _measure(stream, total, limit)
                rounded |= columns
                if total > limit:
                    raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
                if member.filename.startswith("xl/worksheets/") and spanned > cells:
                    raise DataError(f"{path}: {member.filename} spans {spanned:,} cells; delete cells far outside")
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OSError) as error:
        raise DataError(f"{path}: is a damaged archive; fetch it again") from error
    return rounded


def _measure(stream: IO[bytes], total: int, limit: int) -> tuple[int, int, set[int]]:
    """Bytes so far, the cells of the rectangle that the references in it span, and its columns with long numbers."""
    columns_kept, last, low, high = b"", 1, 2**40, 0
    first, long = 2**40, set[int]()
    while (step := stream.read(_STEP)) and total <= limit:
        total += len(step)
        cells = _CELL.findall(columns_kept + step)
        columns, rows = {column for column, _ in cells}, {int(row) for _, row in cells}
        last, first = max([last, *map(_number, columns)]), min([first, *map(_number, filter(None, columns))])
        long |= {_number(column) for column, text in _CELL_OF_NUMBER.findall(columns_kept + step) if _is_long(text)}
        low, high = min([low, *rows]), max([high, *rows])
        columns_kept = step[-_LONGEST_CELL:]
    return total, max(high - low + 1, 0) * last, {column - first for column in long}


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
