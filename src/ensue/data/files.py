"""A file as it lies on disk: opened, unpacked, brought to UTF-8 or Parquet, and refused early where it is neither.

Line numbers are those an editor shows. They are computed only when an error needs one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NoReturn, Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.binary import BINARY, is_sheet, parquet_of, read_sheet, require_small
from ensue.data.encodings import MARKS, decode, is_document, json_lines_of, mend_halves, mended, num_preamble_lines
from ensue.data.file_bytes import (
    FileBytes,
    Opening,
    allowed,
    ending,
    is_regular,
    memory_at_hand,
    open_input,
    packing,
    read_stream,
    unpack,
)
from ensue.data.schema import NO_SCHEMA, DataSchema
from ensue.errors import DataError
from ensue.lines import one_line, plural

LONGEST_LINE = 8 * 2**20
_STEP = 2**20
_HEAD = 2**18
_BYTES_A_CELL = 16
WHITE_SPACE = "".join(char for char in map(chr, range(0x3001)) if char.isspace() and not "\x1c" <= char <= "\x1f")
"""Characters that polars strips from a line; Python's own ``strip`` also takes the four separators of ASCII."""
_FOREIGN = "not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252"
_BINARY = "is binary, neither text nor Parquet; give CSV, TSV, JSON Lines, Parquet, Feather, Excel or cascades"
_ARROW = b"ARROW1"
"""First bytes of Arrow's files, among them Feather."""
# polars would unpack these by itself, without a limit.
_ZLIB = (b"x\x01", b"x\x9c", b"x\xda")
_STATED = re.compile(rb'(?:\xef\xbb\xbf)?"?(sep=[,;|\t])"?[ \t]*\r?\n')
_ARCHIVE = re.compile(rb"\s*window\.YTD\.[\w.]+\s*=\s*(?=[\[{])")
_ARCHIVE_BYTES = 200
"""The script that an archive of X begins with, and the first bytes in which it stands."""


@dataclass(frozen=True)
class Content:
    """The bytes of a file, unpacked, as UTF-8 or Parquet; in memory, unless it is read in pieces."""

    path: Path
    data: bytes | FileBytes
    notes: tuple[str, ...] = ()
    """Changes of the bytes, for the reader's report."""
    byte_order_mark: bool = False
    """True if tables written beside this file should begin with a byte-order mark: it has one, or is Excel's."""
    first_row: int = 1
    """The number that people give the first row of data; of a sheet the row under its header."""
    first_line: int = 1
    """The number that an editor gives the first line of the text."""
    part: tuple[int, int] | None = None
    """First row and number of rows that are read of Parquet. [default: all]"""
    trained: DataSchema = NO_SCHEMA
    """Schema of the training data that this file is read like."""
    header: tuple[str, ...] = ()
    """Names of the columns of a text whose first line is data, see :mod:`ensue.data.delimited`."""
    published: str = ""
    """The name under which a table without a header is known, if it is."""
    between: str = ""
    """The separator of a table without a header."""

    @property
    def source(self) -> Path | bytes:
        """Source for polars: bytes, or the path of Parquet that is read in pieces, unless it looks like a pattern."""
        if isinstance(self.data, bytes):
            return self.data
        return self.path if self.parquet and not set(str(self.path)) & set("*?[~") else self.data.whole()

    @property
    def parquet(self) -> bool:
        """Return whether the file opens as Parquet does."""
        return self.data[:4] == b"PAR1"

    @property
    def json(self) -> bool:
        """Return whether the file opens as an object of JSON Lines does."""
        return not self.parquet and self.head(1)[0].lstrip().startswith("{")

    @property
    def layout(self) -> str:
        """Return the format that became Parquet: ``excel`` or ``parquet`` itself."""
        return "excel" if self.first_row > 1 else "parquet"

    def head(self, count: int = 100) -> list[str]:
        """The first lines that are not empty, without their ends."""
        end = self.data.find(b"\n", _HEAD)
        lines = io.BytesIO(self.data[: end if end > 0 else None].removeprefix(MARKS[0]))
        # Line by line: most callers look at one line, or at a hundred, of thousands.
        texts = (line.decode("utf-8", errors="replace").rstrip("\r\n") for line in lines)
        return list(islice((text for text in texts if text.strip()), count))

    @property
    def separator(self) -> str:
        """Return the separator of a table's first line: a tab if there is one, else the most frequent one."""
        if self.between:
            return self.between
        line = self.head(1)[0]
        return "\t" if "\t" in line else max(",;|", key=line.count)

    def names(self, separator: str | None = None) -> list[str]:
        """The columns that the first line names; empty names at its end, as trailing separators leave, are none."""
        if self.parquet:
            return list(self.schema())
        if self.header:
            return list(self.header)
        rows = (row for _, row in self.rows(separator or self.separator))
        header = next((row for row in rows if any(row)), [])
        while header and not header[-1].strip():
            header.pop()
        return header

    def schema(self) -> pl.Schema:
        """The columns of Parquet; those of a struct ``a`` are ``a.b``.

        Raises:
            DataError: damage.
        """
        return pl.Schema({name: kind for name, (kind, _) in self._columns().items()})

    def _columns(self) -> dict[str, tuple[pl.DataType, pl.Expr]]:
        """Return column -> its type and what it is read by."""
        with answering(self.path):
            schema = pl.Schema(pl.read_parquet_schema(self.source))
        columns = dict[str, tuple[pl.DataType, pl.Expr]]()
        pending = [(name, schema[name], pl.col(name)) for name in schema]
        for name, kind, column in pending:  # fields of a struct come after all other columns
            if isinstance(kind, pl.Struct):
                inner = pl.Schema(kind.to_schema())
                pending += [(f"{name}.{field}", inner[field], column.struct.field(field)) for field in inner]
            else:
                columns.setdefault(name, (kind, column.alias(name)))
        return columns

    def table(self, columns: Iterable[str] | None = None) -> pl.DataFrame:
        """Columns of Parquet; all unless named.

        Raises:
            DataError: damage, or more rows than memory has room for.
        """
        with answering(self.path):
            scan = pl.scan_parquet(self.source)
            if columns is not None:
                readable = self._columns()
                names = dict.fromkeys(columns)  # one column may have two roles
                scan = scan.select(readable[name][1] if name in readable else name for name in names)
            if self.part is not None:
                return scan.slice(*self.part).collect()
            # A run of equal values is packed without any limit: each still takes its place in memory.
            _require_room(self.path, self.num_rows(), len(scan.collect_schema()))
            return scan.collect()

    def num_rows(self) -> int:
        """Return how many rows Parquet holds."""
        return int(pl.scan_parquet(self.source).select(pl.len()).collect().item())

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line with its number; the mark of UTF-8 is cut off.

        Raises:
            DataError: at the first line that is not UTF-8.
        """
        with io.BytesIO(self.data) if isinstance(self.data, bytes) else self.data.stream() as stream:
            for number, line in enumerate(stream, self.first_line):
                try:
                    yield number, line.decode("utf-8-sig" if number == self.first_line else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{self.path}, line {number}: {_FOREIGN}") from error

    def filled(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of :meth:`lines` that are not blank."""
        return ((number, line) for number, line in self.lines() if line.strip(WHITE_SPACE))

    def place_of_line(self, row: int) -> str:
        """The place of a line, from 0, among those that hold anything."""
        return f"{self.path}, line {next(islice(self.filled(), row, None))[0]}"

    def place(self, row: int) -> str:
        """The place of a row of Parquet or of a sheet, from 0, for messages."""
        return f"{self.path} row {row + self.first_row + (self.part[0] if self.part else 0)}"

    def rows(self, separator: str, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Every CSV record, the empty ones too, with the number of the line it begins on.

        Raises:
            DataError: at the first line that is not UTF-8 or cannot be CSV.
        """
        # The reader counts lines, and a record may have several: it begins where the one before has ended.
        reader = csv.reader((line for _, line in self.lines()), delimiter=separator, strict=strict)
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        begins = self.first_line
        try:
            for row in reader:
                yield begins, row
                begins = reader.line_num + self.first_line
        except csv.Error as error:
            fault = "is left open" if "end of data" in str(error) else "is inside a quoted field"
            quote = f"a quote {fault}; close it, and double the quotes within a field"
            raise DataError(f"{self.path}, line {begins}: {quote if strict else f'not CSV ({error})'}") from error

    def column_of_lines(self) -> pl.Series:
        """All lines as a column of texts.

        Raises:
            DataError: at the first line that is not UTF-8.
        """
        try:
            return pl.read_lines(self.source)["line"].str.strip_prefix("\ufeff")
        except pl.exceptions.ComputeError as error:
            self.refuse(error)

    def filled_lines(self) -> tuple[pl.Series, npt.NDArray[np.int64], tuple[str, ...]]:
        """The lines that hold anything as a column, their numbers, and a note on the others.

        Raises:
            DataError: at the first line that is not UTF-8.
        """
        lines = self.column_of_lines()
        filled = (lines.str.strip_chars() != "").arg_true().to_numpy().astype(np.int64)
        skipped = len(lines) - len(filled)
        return lines.gather(filled), filled + 1, (f"{plural(skipped, 'empty line')} skipped",) if skipped else ()

    def refuse(self, error: Exception) -> NoReturn:
        """Raise what polars complained about, by line if the encoding is at fault.

        Raises:
            DataError: always.
        """
        for _ in self.lines():
            pass
        raise DataError(f"{self.path}: {_first_line(error)}") from error


def fits(row: Sequence[str], width: int) -> bool:
    """Return whether a record has the number of fields that its header has; empty ones past its end do not count."""
    return len(row) >= width and not any(field.strip() for field in row[width:])


def open_file(path: Path, *, in_pieces: bool = False, **opening: Unpack[Opening]) -> Content:
    """Open a file, plain, gzip, xz, bzip2, Zstandard, Excel or Arrow whatever its name says.

    Args:
        path: the file.
        in_pieces: leave the bytes of a plain file on the disk, for :func:`ensue.data.sequences.batches.pieces`.
        opening: how its bytes are meant, where they do not say so themselves.

    Raises:
        DataError: a missing, empty, truncated or binary file, one that unpacks to too much, or a line over 8 MiB.
        SettingError: an unknown encoding.
    """
    data = _bytes(path, in_pieces=in_pieces)
    trained = opening.get("schema", NO_SCHEMA)
    limit, advice = allowed(len(data), opening.get("max_unpacked"))
    kind = packing(data[:6])
    if kind is not None:
        data = unpack(path, io.BytesIO(data) if isinstance(data, bytes) else data.stream(), kind, limit, advice)
        if packing(data[:6]) is not None:
            raise DataError(f"{path}: is packed twice; unpack it once")
    if is_sheet(path, data):
        sheet = opening.get("sheet", "")
        table, first_row, notes = read_sheet(path, data, sheet, limit, advice, usual=trained.sheet)
        return Content(path, table, notes, byte_order_mark=True, first_row=first_row, trained=trained)
    content = Content(path, data, trained=trained)
    if content.parquet:
        require_small(path, data, limit, advice)
        return content
    if data[:6] == _ARROW:
        with answering(path):
            frame = pl.scan_ipc(io.BytesIO(data[:]))
            rows, width = frame.select(pl.len()).collect().item(), len(frame.collect_schema())
            _require_room(path, rows, width)
            return replace(content, data=parquet_of(frame.collect()))
    if data[:2] in _ZLIB:
        raise DataError(f"{path}: {_BINARY}")
    marked = any(data[: len(mark)] == mark for mark in MARKS)
    text, notes = decode(path, data, opening.get("encoding", ""), trained.encoding)
    # From here on it is a text: each rule takes what programs put above its first line.
    first_line = 1
    if (separator_line := _STATED.match(text[:16])) is not None:
        text = text[separator_line.end() :]
        first_line = 2
        notes = (*notes, f"a first line {one_line(separator_line[1].decode())}, as Excel writes and reads, left out")
    if (archive := _ARCHIVE.match(text[:_ARCHIVE_BYTES])) is not None:
        text = text[archive.end() :]
        notes = (*notes, "a file of an archive of X: the script before its JSON left out")
    if ending(path) == ".csv" and (num_above := num_preamble_lines(_first_lines(text))):
        text = text[:].split(b"\n", num_above)[-1]
        first_line += num_above
        lines = f"{num_above} lines above the header" if num_above > 1 else "a line above the header"
        notes = (*notes, f"{lines}, left out")
    halves = 0
    if _begins(text) in (b"{", b"["):
        text, halves = mend_halves(text[3:] if text[:3] == MARKS[0] else text)  # JSON knows no mark
        if (listed := json_lines_of(path, text)) is not None:
            text = listed[0]
            notes = (*notes, listed[1])
    content = Content(path, text, (*notes, *mended(halves)), marked, first_line=first_line, trained=trained)
    _check_text(content)
    return content


def _require_room(path: Path, rows: int, width: int) -> None:
    if rows * max(width, 1) * _BYTES_A_CELL > memory_at_hand():
        raise DataError(f"{path}: {rows:,} rows of {width} columns do not fit into memory")


def _bytes(path: Path, *, in_pieces: bool) -> bytes | FileBytes:
    with open_input(path) as file:
        data = FileBytes(path, file)
        if not is_regular(file) or not len(data):  # files of /proc say that they are empty
            return read_stream(path, file)
        head = data[:_HEAD]
        # A document may be one line of any length; what is no text has no lines.
        document = _begins(head) == b"[" or is_document(head) or _ARCHIVE.match(head[:_ARCHIVE_BYTES])
        if not (document or b"\0" in head or packing(head[:6]) or head[:4] in (*BINARY, b"PAR1", _ARROW[:4])):
            _require_short_lines(path, data, (b"\n", b"\r"))  # before the file takes its size in memory
        return data if in_pieces else data.whole()


@contextmanager
def answering(path: str | Path) -> Iterator[None]:
    """Raise errors of libraries about a file as errors of the file.

    Raises:
        DataError: in place of an error or a panic of polars, of too deep a nesting, and of too little memory.
    """
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: is damaged or has unusual content ({_first_line(error)})") from error
    except RecursionError as error:
        raise DataError(f"{path}: is nested too deeply; give flat records") from error
    except MemoryError as error:
        raise DataError(f"{path}: needs more memory than is available; give it in parts") from error
    except BaseException as error:
        # Each library written in Rust has a class of this name of its own, which is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{path}: is damaged or has unusual content ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    return one_line((str(error).splitlines() or [type(error).__name__])[0])


def _begins(data: bytes | FileBytes) -> bytes:
    """The first byte that is no mark and no space."""
    return data[:_HEAD].lstrip(MARKS[0] + b" \t\r\n")[:1]


def _first_lines(text: bytes | FileBytes) -> list[str]:
    """The first lines that are whole."""
    head = text[:_HEAD].decode("utf-8-sig", errors="replace")
    lines = head.replace("\r", "").split("\n")
    return lines if len(text) <= _HEAD else lines[:-1]


def _require_short_lines(path: Path, data: bytes | FileBytes, ends: Sequence[bytes]) -> None:
    """Refuse a line that is longer than a record can be.

    Args:
        path: the file, for messages.
        data: its bytes.
        ends: what may end a line.

    Raises:
        DataError: naming the line.
    """
    for low in range(0, len(data) - LONGEST_LINE, _STEP):
        if all(data.find(end, low, low + LONGEST_LINE) < 0 for end in ends):
            line = num_lines(data, low) + 1
            raise DataError(f"{path}, line {line}: a line is longer than 8 MiB; put one event or session on each line")


def num_lines(data: bytes | FileBytes, stop: int) -> int:
    """Return how many lines end before a place."""
    return sum(data[low : min(low + _STEP, stop)].count(b"\n") for low in range(0, stop, _STEP))


def require_no_zeros(path: Path, data: bytes, first_line: int) -> None:
    """Refuse text with zero bytes, as a crash of its writer or half a file of UTF-16 leave them.

    Raises:
        DataError: naming the line.
    """
    if (at := data.find(b"\0")) >= 0:
        line = first_line + num_lines(data, at)
        raise DataError(f"{path}, line {line}: holds a zero byte, which text files never do; remove the damaged part")


def _check_text(content: Content) -> None:
    path, data = content.path, content.data
    if data[:_HEAD].count(b"\0") * 100 > min(len(data), _HEAD):  # of a damaged text the line is named below
        raise DataError(f"{path}: {_BINARY}")
    if isinstance(data, bytes):  # what is read in pieces is looked at piece by piece
        require_no_zeros(path, data, content.first_line)
    if _begins(data) != b"[":  # a document may stand in one line, whatever its length
        _require_short_lines(path, data, (b"\n",))
    if not content.head(1):
        raise DataError(f"{path}: is empty")


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
