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
from pathlib import Path
from typing import IO

import polars as pl

from ensue.data.file_bytes import FileBytes, memory_at_hand
from ensue.errors import DataError
from ensue.lines import listed, one_line, quoted
from ensue.records import MAX_EXACT

# Paths of fields through the format's structs, which are Thrift's compact protocol: in a footer, ...
_FILE_ROWS = (3,)
_TOTAL_BYTE_SIZE = (4, 2)
_GROUP_ROWS = (4, 3)
_COLUMNS = (4, 1, 3)
# ... in a column's metadata, ...
_NUM_VALUES = (5,)
_PACKED_SIZE = (7,)
_PAGE_STARTS = ((9,), (11,))
# ... and in the head of a page.
_PAGE_UNPACKED = (2,)
_PAGE_PACKED = (3,)
_PAGE_VALUES = ((5, 1), (8, 1))
_MAX_DEPTH = 20
_MAGIC = 4
_HEAD = 1 << 16
"""Bytes that the head of a page may take, statistics included."""
Node = int | None | list["Node"] | dict[int, "Node"]
"""A whole number, members of a list, or fields of a struct by their numbers; ``None`` for anything else."""


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
    try:
        footer = _Reader(data[-8 - length : -8]).struct()
    except (IndexError, RecursionError):
        return
    unpacked = sum(max(size, 0) for size in _numbers(footer, _TOTAL_BYTE_SIZE))
    if unpacked <= limit:
        unpacked = _unpacked_by_pages(path, data, _nodes(footer, _COLUMNS), len(data) - 8 - length)
    if unpacked > limit:
        raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
    rows = sum(_numbers(footer, _FILE_ROWS))
    group_rows = sum(_numbers(footer, _GROUP_ROWS))
    if rows != group_rows:
        raise DataError(f"{path}: is damaged (it announces {rows:,} rows and holds {group_rows:,}); write it again")


def _unpacked_by_pages(path: Path, data: bytes | FileBytes, columns: list[Node], end: int) -> int:
    """Return the bytes that the pages of all columns say they unpack to; the pages end at ``end``."""
    total = 0
    for column in columns:
        starts = [start for field in _PAGE_STARTS for start in _numbers(column, field) if start >= _MAGIC]
        at = min(starts, default=0)
        size = sum(_numbers(column, _PACKED_SIZE))
        if at < _MAGIC or size < 0 or at + size > end:
            raise DataError(f"{path}: is damaged (a column lies outside of it); write it again")
        stop = at + size
        num_values = 0
        while at < stop:
            reader = _Reader(data[at : min(at + _HEAD, stop)])
            try:
                head = reader.struct()
            except (IndexError, RecursionError):
                return total
            total += max([0, *_numbers(head, _PAGE_UNPACKED)])
            num_values += sum(number for field in _PAGE_VALUES for number in _numbers(head, field))
            # The page itself follows its head.
            at += reader.at + max([0, *_numbers(head, _PAGE_PACKED)])
        if num_values != sum(_numbers(column, _NUM_VALUES)):
            raise DataError(f"{path}: is damaged (a column announces other values than its pages); write it again")
    return total


def _nodes(node: Node, path: tuple[int, ...]) -> list[Node]:
    """Return all nodes that a path of fields leads to, through each member of the lists on it."""
    if isinstance(node, list):
        return [leaf for member in node for leaf in _nodes(member, path)]
    if not path:
        return [node]
    return _nodes(node.get(path[0]), path[1:]) if isinstance(node, dict) else []


def _numbers(node: Node, path: tuple[int, ...]) -> list[int]:
    """Return the whole numbers that a path leads to."""
    return [number for number in _nodes(node, path) if isinstance(number, int)]


class _Reader:
    """A reader of Thrift's compact protocol; ``at`` is the byte that it reads next."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Node]:
        """Read the fields of a struct; what a field repeats is a list.

        Raises:
            IndexError: the data ends before, or is something else.
            RecursionError: structs are nested too deeply.
        """
        if depth > _MAX_DEPTH:
            raise RecursionError
        fields = dict[int, Node]()
        field = 0
        # The upper half of a byte is the distance to the field before, or 0 where a whole number follows.
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else _signed(self._varint())
            value = self._value(head & 15, depth)
            fields[field] = [fields[field], value] if field in fields else value
        return fields

    def _value(self, kind: int, depth: int) -> Node:
        if kind in (4, 5, 6):  # whole numbers
            return _signed(self._varint())
        if kind in (9, 10):  # lists and sets
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._member(head & 15, depth) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        if kind not in (1, 2, 3, 7, 8):  # a truth has no bytes of its own; maps do not occur
            raise IndexError
        length = self._varint() if kind == 8 else {3: 1, 7: 8}.get(kind, 0)
        self.at += length
        return None

    def _member(self, kind: int, depth: int) -> Node:
        if kind in (1, 2):  # a truth in a list has a byte
            kind = 3
        return self._value(kind, depth + 1)

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        # Seven bits a byte, the lowest first; the last byte is below 128.
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


_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0"
BINARY = (_ZIP, _OLE)
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
    seen = [_as_seen(_rounded(column) if index in rounded else column) for index, column in enumerate(frame)]
    if header:
        rows = "row 1" if header == 1 else f"rows 1 to {header:,}"
        notes = (*notes, f"{rows} above the header left out")
    return parquet_of(pl.DataFrame(seen)), header + 2, notes


def parquet_of(frame: pl.DataFrame) -> bytes:
    """Return a frame as a file of Parquet, its categories as texts."""
    buffer = io.BytesIO()
    frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).write_parquet(
        buffer, compression="uncompressed"
    )
    return buffer.getvalue()


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
    cells = memory_at_hand() // _BYTES_A_CELL
    total = 0
    rounded = set[int]()
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
    tail = b""
    low = first = 2**40
    high = 0
    last = 1
    long = set[int]()
    while (step := stream.read(_STEP)) and total <= limit:
        total += len(step)
        # The tail of the step before is read again: a cell may lie across both.
        cells = _CELL.findall(tail + step)
        rows = {int(row) for _, row in cells}
        low = min([low, *rows])
        high = max([high, *rows])
        columns = [_number(column) for column in {column for column, _ in cells}]
        first = min([first, *filter(None, columns)])  # a row has no column
        last = max([last, *columns])
        long |= {_number(column) for column, text in _CELL_OF_NUMBER.findall(tail + step) if _is_long(text)}
        tail = step[-_LONGEST_CELL:]
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
