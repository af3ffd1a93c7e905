"""The first step of ``ensue prepare``: the files of a log, read piece by piece into batches of events on disk.

A batch is a Parquet file with the columns session, item and, where the log has times, time; its JSON file is written
last and says where reading goes on, so that a process that is killed loses only the batch that it was reading.

The files of a log can be shared by several machines. A share is a folder of batches next to the output folder,
``OUTPUT.shares/2-of-8``, with a manifest that is written last. All shares are of the same files in the same order, so
each machine must see their names and heads.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Self, cast

import polars as pl
from pydantic import TypeAdapter, ValidationError

from ensue.data.clock import TimeSummary
from ensue.data.file_bytes import FileBytes, flush
from ensue.data.files import Content, answering, require_no_zeros
from ensue.data.ids import IdColumns, Tally
from ensue.data.sequences.columns import TURN
from ensue.data.sequences.rows import TEXT, find_roles, id_columns, read_rows, require_filled, times_of
from ensue.data.sequences.sources import LogFile
from ensue.data.table import ReadOptions, Table
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural, quoted
from ensue.version import __version__

ROWS = PIECE = 2**21
"""Events of a batch, and rows of Parquet in a piece, at least and at most."""
BYTES = 2**26
"""Bytes of text in a piece, about."""


@dataclass(frozen=True)
class Cursor:
    """Position in a log from which reading goes on."""

    source: int = 0
    """The number of the file."""
    offset: int = 0
    """The row of Parquet, or the byte of unpacked text."""
    lines: int = 0
    """Lines of text before it."""


@dataclass
class ReadState:
    """State of reading a log; stored as JSON after each batch."""

    cursor: Cursor = field(default_factory=Cursor)
    rows: int = 0
    """Events so far."""
    empty: int = 0
    """Rows that hold nothing."""
    filled: int = 0
    """Files that hold an event."""
    latest: int = -1
    """Number of the latest such file."""
    notes: list[str] = field(default_factory=list)
    clock: TimeSummary | None = None
    layout: str = ""
    """Layout of all events; empty before the first."""
    columns: dict[str, str] = field(default_factory=dict)
    """Role -> column."""
    tallies: dict[str, Tally] = field(default_factory=dict)
    is_whole: dict[str, bool] = field(default_factory=dict)
    """Both of :class:`~ensue.data.ids.IdColumns`."""
    crc32: int = 0
    """Checksum of the Parquet file of the latest batch."""

    def add_notes(self, *notes: str) -> None:
        """Add notes, each once."""
        self.notes = list(dict.fromkeys((*self.notes, *notes)))


_STATE = TypeAdapter(ReadState)


@dataclass
class Batches:
    """The batches of a log, and the state of reading it.

    Attributes:
        folder: the folder of the batches.
        sources: the files of the log.
        options: how they are read.
        end: the file before which reading ends; ``None`` for the last.
        files: (Parquet file, events before it) of each batch.
        state: of reading, after the batches in ``files``.
    """

    folder: Path
    sources: Sequence[LogFile]
    options: ReadOptions
    end: int | None = None
    files: list[tuple[Path, int]] = field(default_factory=list)
    state: ReadState = field(default_factory=ReadState)

    @property
    def ids(self) -> IdColumns:
        """The columns of ids, with what was noticed about them so far."""
        return replace(id_columns(self.options), tallies=self.state.tallies, whole=self.state.is_whole)

    def resume(self) -> None:
        """Take over the complete batches in the folder; whatever follows the first incomplete one is read again."""
        while (note := self._path(".json")).exists():
            state = _STATE.validate_json(note.read_bytes())
            if _checksum(self._path(".parquet")) != state.crc32:
                return  # killed while the rows were written
            self.files.append((self._path(".parquet"), self.state.rows))
            self.state = state

    def read(self, progress: Callable[[int], None]) -> None:
        """Read the rest of the log.

        Args:
            progress: called with the number of events so far.

        Raises:
            DataError: the first row that does not fit.
        """
        frames = list[pl.DataFrame]()
        for table, cursor in self._tables(self.state.cursor):
            table = self.ids.normalise(table, self._from_the_start)
            if len(table.frame):
                frames.append(self._events(table))
            # A batch ends with a piece: reading resumes at the next one.
            self.state.cursor = cursor
            if sum(map(len, frames)) >= ROWS:
                self._write(frames)
                frames = []
                progress(self.state.rows)
        if frames:
            self._write(frames)
            progress(self.state.rows)

    def take(self, other: Batches) -> None:
        """Append the batches of another, which has read the files that follow."""
        state = self.state
        later = other.state
        # Rows are numbered through all shares, in their order.
        self.files += [(path, state.rows + num_before) for path, num_before in other.files]
        state.rows += later.rows
        state.empty += later.empty
        state.filled += later.filled
        state.add_notes(*later.notes)
        self.ids.take(other.ids)
        state.layout = state.layout or later.layout
        state.columns = state.columns or later.columns
        if later.clock is not None:
            state.clock = state.clock or TimeSummary()
            state.clock.merge(later.clock)

    def _tables(self, cursor: Cursor) -> Iterator[tuple[Table, Cursor]]:
        """Yield the events of each piece and where the next begins; notes are collected on the way."""
        for number, source in [*enumerate(self.sources)][cursor.source : self.end]:
            with answering(source.path):
                content = self.options.open(source.path, in_pieces=True)
                roles = find_roles(content, self.options, source.layout)
                if (turn := roles[0].get(TURN)) is not None:
                    raise DataError(
                        f"{source.path}: events have no times, and {quoted(turn)} may be their order; a log that is "
                        f"prepared is ordered by times alone: give --columns time={turn}, or rename the column"
                    )
                begin = cursor if number == cursor.source else Cursor(number)
                for piece, following in pieces(content, source.layout, begin):
                    table, num_empty = read_rows(piece, self.options, source.layout, roles).without_empty()
                    self.state.empty += num_empty
                    self.state.add_notes(*content.notes, *table.notes)
                    # Pieces of one file count as one file with events.
                    if len(table.frame) and number != self.state.latest:
                        self.state.filled += 1
                        self.state.latest = number
                    yield table, following

    def _events(self, table: Table) -> pl.DataFrame:
        require_filled(table)
        self.state.layout = table.layout
        self.state.columns = table.columns
        columns = []
        for role in ("session", "item"):
            # Ids are numbers only if they are in every file: otherwise 7 and "7" would be two ids.
            is_numeric = all(role in source.whole_numbers for source in self.sources)
            columns.append(table.frame[role].cast(pl.Int64 if is_numeric else pl.String))
        if (times := times_of(table)) is not None:
            self.state.clock = self.state.clock or TimeSummary()
            seconds = self.state.clock.add(times, table.where, self.options.times, self._search_times)
            columns.append(pl.Series("time", seconds))
        return pl.DataFrame(columns)

    def _search_times(self, look: Callable[[pl.Series], str | None]) -> str | None:
        """Return the first text that a function returns for the times of a piece of the log."""
        pieces = (times_of(table) for table in self._from_the_start())
        texts = (look(times.str.strip_chars()) for times in pieces if times is not None and times.dtype == pl.String)
        return next(filter(None, texts), None)

    def _from_the_start(self) -> Iterator[Table]:
        """Read all pieces of the log again, without a trace in this reader's state."""
        reader = replace(self, end=None, state=ReadState())
        return (table for table, _ in reader._tables(Cursor()))

    def _write(self, frames: Sequence[pl.DataFrame]) -> None:
        events = pl.concat(frames)
        path = self._path(".parquet")
        note = self._path(".json")
        events.write_parquet(path, compression="lz4", statistics=False)
        self.files.append((path, self.state.rows))
        self.state.rows += len(events)
        self.state.crc32 = _checksum(path)
        # The note appears as a whole or not at all: a batch without one is read again.
        complete = note.with_suffix(".tmp")
        complete.write_bytes(_STATE.dump_json(self.state))
        complete.replace(note)

    def _path(self, suffix: str) -> Path:
        """Return a file of the next batch."""
        return self.folder / f"{len(self.files):06}{suffix}"


def _checksum(path: Path) -> int:
    try:
        return zlib.crc32(path.read_bytes())
    except OSError:
        return -1


def pieces(content: Content, layout: str, cursor: Cursor) -> Iterator[tuple[Content, Cursor]]:
    """Yield the pieces of a file that fit in memory, each with the cursor of the next.

    A piece is a slice of Parquet, or whole records of text under the file's header.

    Args:
        content: the file.
        layout: the layout of its events; a header is repeated above pieces of a table alone.
        cursor: the beginning of the file, or what came with an earlier piece.
    """
    if layout == "parquet":
        rows = content.num_rows()
        for low in range(cursor.offset, rows, PIECE):
            yield replace(content, part=(low, min(PIECE, rows - low))), replace(cursor, offset=low + PIECE)
        return
    header = b""
    if layout == TEXT and not content.header:
        header = next(line for _, line in content.filled()).encode()
    # A header over several lines cannot be repeated by its first line: such a file is one piece.
    size = len(content.data) if header.count(b'"') % 2 else BYTES
    low = cursor.offset
    lines = cursor.lines
    while low < len(content.data):
        chunk = _whole_records(content, low, size, quotes=layout != "jsonl events")
        if not chunk:  # of a file that grows, half a line is left
            break
        line = content.first_line + lines
        require_no_zeros(content.path, chunk, line)
        above = header if low else b""  # the header stands in the first piece itself
        low += len(chunk)
        lines += chunk.count(b"\n")
        if chunk.strip():
            piece = replace(content, data=above + chunk if above else chunk, first_line=line - above.count(b"\n"))
            yield piece, replace(cursor, offset=low, lines=lines)


def _whole_records(content: Content, low: int, size: int, *, quotes: bool) -> bytes:
    """Return about as many bytes as asked for, from the beginning of a record to the end of one.

    A line ends a record where the quotes before it come in pairs: ``1,"a`` and ``b",5`` are one record.
    """
    while True:
        chunk = content.data[low : low + size]
        if low + len(chunk) >= len(content.data):
            is_growing = isinstance(content.data, FileBytes) and content.data.has_grown()
            return chunk[: chunk.rfind(b"\n") + 1] if is_growing else chunk
        end = chunk.rfind(b"\n") + 1
        # Line by line from the end, until the quotes above come in pairs.
        odd = quotes and chunk.count(b'"', 0, end) % 2
        while odd and end:
            line_start = chunk.rfind(b"\n", 0, end - 1) + 1
            odd = (odd + chunk.count(b'"', line_start, end)) % 2
            end = line_start
        if end:
            return chunk[:end]
        size *= 2


MANIFEST = "share.json"
_PREPARE_ANEW = "remove that folder and prepare this share again"


@dataclass(frozen=True)
class Manifest:
    """Content of ``share.json``: the share, its size, its files and the options of reading."""

    ensue: str
    share: int
    of: int
    batches: int
    state: ReadState
    read: dict[str, object]


_MANIFEST = TypeAdapter(Manifest)


@dataclass(frozen=True)
class Share:
    """One of several shares; the first is 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``2/8``.

        Raises:
            SettingError: it is none.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise SettingError(f"--share: '{text}' is not a share; write 2/8 for the second of eight")
        return cls(int(match[1]), int(match[2]))

    def of_files(self, sizes: Sequence[int]) -> tuple[int, int]:
        """The first file of the share, and the one after its last: shares are about equally large, none is empty.

        Raises:
            SettingError: there are fewer files than shares.
        """
        if len(sizes) < self.of:
            raise SettingError(
                f"--share {self.number}/{self.of}: {plural(len(sizes), 'file')} can be shared by {len(sizes)} at most; "
                "name fewer shares, or write the log as more files"
            )
        totals = [*accumulate(sizes)]
        bounds = [0]
        for number in range(1, self.of):
            target = totals[-1] * number / self.of
            end = sum(total <= target for total in totals)
            # Every share has a file, and leaves one for each share that follows.
            bounds.append(min(max(end, bounds[-1] + 1), len(sizes) - self.of + number))
        bounds.append(len(sizes))
        return bounds[self.number - 1], bounds[self.number]

    def folder(self, place: Path) -> Path:
        """Return its folder, given the output folder of all shares."""
        return _shares(place) / f"{self.number}-of-{self.of}"


def write_share(folder: Path, batches: Batches, share: Share, plan: Mapping[str, object]) -> None:
    """Move the batches of a share into an empty folder, and write its manifest last."""
    for path in sorted(batches.folder.glob("[0-9]*.*")):
        path.rename(folder / path.name)
    manifest = Manifest(__version__, share.number, share.of, len(batches.files), batches.state, dict(plan))
    (folder / MANIFEST).write_bytes(_MANIFEST.dump_json(manifest, indent=1))
    for path in (*folder.iterdir(), folder):
        flush(path)


def read_share(folder: Path, batches: Batches) -> Batches:
    """Return the batches of a share.

    Args:
        folder: the folder of the share.
        batches: those of the whole log.

    Raises:
        DataError: they are not what was written.
    """
    manifest = _manifest(folder)
    share = Batches(folder, batches.sources, batches.options)
    share.resume()
    if (len(share.files), share.state.rows) != (manifest.batches, manifest.state.rows):
        raise DataError(f"{folder}: is damaged or incomplete; copy it again, or {_PREPARE_ANEW}")
    share.state = manifest.state
    return share


def find_shares(place: Path, plan: Mapping[str, object]) -> list[Path]:
    """Return the folders of all shares in their order.

    Args:
        place: that they will come to.
        plan: what is to be read, and how.

    Raises:
        DataError: one is missing, stands there twice, or is of other files or options.
    """
    # Every share is checked, whatever its number: a stray one would be read by nobody.
    manifests = {path: _manifest(path) for path in sorted(_shares(place).glob("*-of-*")) if path.is_dir()}
    if not manifests:
        raise DataError(f"{_shares(place)}: holds no share; prepare each with --share 1/N, 2/N, … first")
    counts = sorted({manifest.of for manifest in manifests.values()})
    if len(counts) > 1:
        numbers = " and ".join(map(str, counts))
        raise DataError(f"{_shares(place)}: holds shares of {numbers}, which overlap; remove those of one number")
    for path, manifest in manifests.items():
        share = Share(manifest.share, manifest.of)
        if path.name != share.folder(place).name:
            raise DataError(f"{path}: holds share {share.number} of {share.of}, which overlaps; {_PREPARE_ANEW}")
        _require_same(path, manifest.read, json.loads(json.dumps(plan)))
    folders = [Share(number, counts[0]).folder(place) for number in range(1, counts[0] + 1)]
    missing = [folder.name.replace("-of-", "/") for folder in folders if folder not in manifests]
    if missing:
        raise DataError(
            f"{_shares(place)}: {listed(missing, 5)} of all shares are missing; prepare --share {missing[0]}"
        )
    return folders


def _shares(place: Path) -> Path:
    return place.with_name(f"{place.name}.shares")


def _manifest(folder: Path) -> Manifest:
    try:
        return _MANIFEST.validate_json((folder / MANIFEST).read_bytes(), strict=True)
    except (ValidationError, OSError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise DataError(f"{folder}: {MANIFEST} cannot be read ({reason}); {_PREPARE_ANEW}") from error


def _require_same(folder: Path, former: Mapping[str, object], plan: Mapping[str, object]) -> None:
    """Refuse a share of other files or options; folders and dates of the files may differ."""
    for name, value in plan.items():
        if name != "files" and former.get(name) != value:
            raise DataError(
                f"{folder}: was prepared with {name} {former.get(name)}, and here it is {value}; give all shares the "
                f"same options, or {_PREPARE_ANEW}"
            )
    # Each machine may have the files in another folder, copied at another time.
    lists = (cast(list[tuple[str, int, int]], read["files"]) for read in (former, plan))
    stored, new = ([f"{Path(path).name} of {size:,} bytes" for path, size, _ in files] for files in lists)
    for file, other in zip_longest(stored, new, fillvalue="no file"):
        if file != other:
            raise DataError(
                f"{folder}: has read {file}, where {other} is here; give all shares the same files, or {_PREPARE_ANEW}"
            )
