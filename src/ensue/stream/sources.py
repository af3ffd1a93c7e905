"""Sources of a stream: blocks of lines with the position after them, from files and queues.

A growing JSON Lines file, or a folder of them, is read in the order of the names. Its position is (file, bytes read)
and a digest of what stood just before, so that a file that was rotated, truncated or replaced is noticed, and a copy
of the same file on another machine is not. A last line without its newline waits for it. In a folder a file is over
once one with a later name exists; what its last line then holds, it holds for good.

A queue is one SQLite file with the table ``events(position INTEGER PRIMARY KEY AUTOINCREMENT, line)`` and a write-ahead
log: writers append lines and do not wait for the stream, which never writes. Lines up to a committed position may be
deleted.

A source in partitions is read side by side. All events of a session are in one partition, in order; between partitions
there is no order. :func:`partition_of` says where a writer puts a session. Redis and Kafka are in
:mod:`ensue.stream.brokers`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path
from string import digits
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import SplitResult, parse_qs, urlsplit

from ensue.errors import DataError, ModelFolderError, SettingError
from ensue.learning.state import Count
from ensue.lines import without_credentials
from ensue.store.pack import unpack
from ensue.stream.events import LONGEST

MAX_BYTES = 2**23
"""A block ends after so many bytes of lines, however few they are."""
Position = Mapping[str, object]
"""Position in a source, as JSON; each source has fields of its own."""
Kind = TypeVar("Kind")
POLL = 0.05
"""Seconds between two looks at a source that has nothing new."""


@dataclass(frozen=True)
class LineBlock:
    """Some lines in the source's order.

    Attributes:
        lines: as they came, without the newline.
        locations: where each stands, for people.
        position: where to go on after them, as JSON.
        at_end: whether the source held no more when it was asked.
        partition: the part of the source that the lines are of; empty where it has none.
    """

    lines: list[bytes]
    locations: list[str]
    position: Position
    at_end: bool
    partition: str = ""


class Behind(NamedTuple):
    """Amount of a source that is still to be read, and its unit, such as 12 lines."""

    amount: float
    unit: str


class StreamSource(ABC):
    """A log that grows at its end and can be read again from any position.

    Attributes:
        name: tells this source from another, without the machine's paths.
    """

    name: str

    @abstractmethod
    def begin(self, position: Position | None) -> None:
        """Go to a position that was committed, or to the beginning.

        Raises:
            DataError: the source does not exist, or is no longer what was read up to that position.
        """

    def read(self, limit: int, wait: float) -> LineBlock:
        """Return up to ``limit`` lines, or those that arrive within ``wait`` seconds, perhaps none.

        Raises:
            DataError: the source is no longer what was read so far.
        """
        lines: list[bytes] = []
        locations: list[str] = []
        until = time.monotonic() + wait
        size = 0
        at_end = False
        while len(lines) < limit and size < MAX_BYTES:
            # Small pieces, so that a block of large lines ends soon after MAX_BYTES.
            batch = self._next(limit - len(lines))
            for location, line in batch or ():
                locations.append(location)
                lines.append(line[: LONGEST + 1])  # a longer one is rejected
                size += len(line)
            if batch:
                continue
            seconds = until - time.monotonic()
            if seconds <= 0:
                # None: the source is away, and may hold more.
                at_end = batch is not None
                break
            self._await(seconds)
        return LineBlock(lines, locations, self._position(), at_end)

    def _next(self, limit: int) -> Sequence[tuple[str, bytes]] | None:
        """Return (location, line) of some of the next lines; none at the end, ``None`` while the source is away."""
        raise NotImplementedError

    def _position(self) -> Position:
        """Return the position after the lines that were given out."""
        raise NotImplementedError

    def _await(self, seconds: float) -> None:
        """Wait for a line, for some seconds at most."""
        time.sleep(min(POLL, seconds))

    def committed(self, position: Position) -> None:  # noqa: B027 - files and queues keep their lines
        """Follow a commit: everything up to a position is safe."""

    @abstractmethod
    def behind(self) -> Behind:
        """Return how much is left to read."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""


def position_of(start: Kind, position: Position | None) -> Kind:
    """Return a committed position as a source has it.

    Args:
        start: the position before the first line, a NamedTuple.
        position: the committed one; ``None`` for ``start``.

    Raises:
        ModelFolderError: it is the position of another source.
    """
    if position is None:
        return start
    try:
        return unpack(type(start), dict(position), {})
    except ValueError as error:
        raise ModelFolderError(
            f"stream.json, position: damaged ({error}); fit the model again or copy it again"
        ) from error


def split_address(address: str, example: str) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts of an address and the fields of its query, the last of each name.

    Args:
        address: ``redis://…`` or ``kafka://…``.
        example: an address for the message.

    Raises:
        SettingError: it is no address; a password in it is not shown.
    """
    try:
        url = urlsplit(address)
        return url, {name: values[-1] for name, values in parse_qs(url.query).items()}
    except ValueError:  # its text may quote a part of the password
        raise SettingError(f"{without_credentials(address)}: is not an address; write {example}") from None


def partition_of(sequence: str, partitions: int) -> int:
    """The partition of a sequence, from 0: the first eight bytes of its BLAKE2b digest, modulo their number.

    Example:
        >>> from ensue.stream import partition_of
        >>> partition_of("s1", 8) == partition_of("s1", 8), 0 <= partition_of("s2", 8) < 8
        (True, True)
    """
    return int.from_bytes(hashlib.blake2b(sequence.encode(), digest_size=8).digest(), "little") % partitions


class PartitionsPosition(NamedTuple):
    """Position in each partition, by name."""

    partitions: dict[str, dict[str, object]]


class Partitions(StreamSource):
    """Several sources as one; each block is of one of them, and they take turns.

    Args:
        kind: of source, for the name; to that comes how the names of the partitions begin, so that one may be added.
        sources: by name of the partition.
    """

    def __init__(self, kind: str, sources: Mapping[str, StreamSource]) -> None:
        self.sources = dict(sources)
        self.name = f"{kind}:{commonprefix(list(self.sources)).rstrip(digits)}*"  # noqa: RUF071 - of characters
        self._positions: dict[str, dict[str, object]] = {}
        self._turns = list(self.sources)

    def begin(self, position: Position | None) -> None:
        """See :class:`StreamSource`."""
        self._positions = position_of(PartitionsPosition({}), position).partitions
        if unknown := set(self._positions) - set(self.sources):
            raise DataError(f"{self.name}: partition {min(unknown)} was read before and is missing; name it too")
        for name, source in self.sources.items():
            source.begin(self._positions.get(name))

    def read(self, limit: int, wait: float) -> LineBlock:
        """See :class:`StreamSource`."""
        until = time.monotonic() + wait
        while True:
            ends = True
            # A copy: the partition that was read goes to the end, so that no busy one starves the others.
            for name in list(self._turns):
                block = self.sources[name].read(limit, 0.0)
                self._turns.remove(name)
                self._turns.append(name)
                if block.lines:
                    self._positions[name] = dict(block.position)
                    return LineBlock(block.lines, block.locations, self._position(), False, name)
                ends = ends and block.at_end
            if time.monotonic() >= until:
                return LineBlock([], [], self._position(), ends)
            time.sleep(POLL)

    def committed(self, position: Position) -> None:
        """See :class:`StreamSource`."""
        for name, position_of_source in cast(Mapping[str, Position], position["partitions"]).items():
            self.sources[name].committed(position_of_source)

    def behind(self) -> Behind:
        """Return what is left of all, or how long the latest one has waited."""
        lags = [source.behind() for source in self.sources.values()]
        amounts = [lag.amount for lag in lags]
        unit = lags[0].unit
        # Lines and bytes of partitions add up; seconds behind do not.
        return Behind(max(amounts) if unit == "s" else sum(amounts), unit)

    def close(self) -> None:
        """See :class:`StreamSource`."""
        for source in self.sources.values():
            source.close()

    def _position(self) -> Position:
        return {"partitions": dict(self._positions)}


CHUNK = 2**18
TAIL = 1024
"""Bytes before the position that are remembered by their digest."""
SUFFIXES = (".jsonl", ".ndjson")


class FilePosition(NamedTuple):
    """The file that is read, bytes of it that were given out, a digest of the latest, and lengths of earlier files."""

    file: str
    offset: Count
    digest: str
    done: dict[str, Count]


class JSONLinesSource(StreamSource):
    """The source; see the module.

    Args:
        path: a file, or a folder of ``.jsonl`` and ``.ndjson`` files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.resolve().name
        self.is_folder = path.is_dir()
        self._at = ""  # name of the file that is read
        self._offset = 0  # bytes of it that were given out as lines
        self._digest = ""  # of the bytes before the offset
        self._done: dict[str, int] = {}  # earlier files of the folder and how long they were
        self._file: int | None = None
        self.close()

    def begin(self, position: Position | None) -> None:
        """See :class:`StreamSource`."""
        if not self.path.exists():
            raise DataError(f"{self.path}: no such file or folder; give a JSON Lines file or a folder of them")
        self.close()
        start = FilePosition("" if self.is_folder else self.name, 0, "", {})
        self._at, self._offset, self._digest, self._done = position_of(start, position)
        if self._at:
            self._verify()

    def read(self, limit: int, wait: float) -> LineBlock:
        """See :meth:`Source.read`; a file that is read is compared with its digest first."""
        if self._at:
            self._verify()
        return super().read(limit, wait)

    def _next(self, limit: int) -> list[tuple[str, bytes]]:
        while True:
            start = self._offset
            line = self._line() if self._at else None
            if line is None:
                # This file holds no whole line any more; a folder may hold a later file.
                line = self._go_on()
            if line is not None:
                return [(f"{self._at}: byte {start}", line)]
            if not self._at or self._file is not None:
                return []
            self._verify()  # the next file of the folder

    def behind(self) -> Behind:
        """See :class:`StreamSource`."""
        sizes = [size for name, size in self._sizes() if name >= self._at]
        return Behind(max(0, sum(sizes) - self._offset), "bytes")

    def close(self) -> None:
        """See :class:`StreamSource`."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._inode = None, -1
        self._buffer = b""
        self._start = 0
        self._dropped = 0

    def _position(self) -> Position:
        if self._at and self._file is not None:
            # The bytes just before the position tell this file from one that was truncated and written again.
            self._digest = self._digest_before()
        return FilePosition(self._at, self._offset, self._digest, dict(self._done))._asdict()

    @property
    def _path(self) -> Path:
        return self.path / self._at if self.is_folder else self.path

    def _sizes(self) -> list[tuple[str, int]]:
        """(name, bytes) of every file, in the order they are read."""
        if not self.is_folder:
            return [(self.name, self.path.stat().st_size)] if self.path.exists() else []
        files = (entry for entry in os.scandir(self.path) if entry.name.endswith(SUFFIXES))
        return sorted((entry.name, entry.stat().st_size) for entry in files if not entry.name.startswith("."))

    def _verify(self) -> None:
        """The file under this name is the one that was read, and holds what was read, or it is an error."""
        changed = (
            f"{self._path}: is not the file that was read up to byte {self._offset:,} (rotated, truncated or "
            "replaced); put it back, or let logs rotate into a folder, one name after the other, and stream the folder "
            "with --restart"
        )
        try:
            if self.is_folder and self._at not in dict(self._sizes()):  # a position names no file elsewhere
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            status = self._path.stat()
            # Another file has the name: a copy is fine, which the digest shows, and a rotated log is not.
            if status.st_ino != self._inode:
                self.close()
                self._file, self._inode = os.open(self._path, os.O_RDONLY), status.st_ino
                os.lseek(self._file, self._offset, os.SEEK_SET)
        except OSError as error:
            raise DataError(changed if self._offset else f"{self._path}: cannot be read ({error.strerror})") from error
        # Bytes given out, dropped from a line that is too long, and read ahead.
        num_read = self._offset + self._dropped + len(self._buffer) - self._start
        if status.st_size < num_read or (self._offset and self._digest_before() != self._digest):
            raise DataError(changed)

    def _digest_before(self) -> str:
        assert self._file is not None
        begin = max(0, self._offset - TAIL)
        return hashlib.blake2b(os.pread(self._file, self._offset - begin, begin), digest_size=16).hexdigest()

    def _line(self) -> bytes | None:
        """The next whole line; of one that is too long, only a beginning that is too long as well."""
        assert self._file is not None
        while (end := self._buffer.find(b"\n", self._start)) < 0:
            chunk = os.read(self._file, CHUNK)
            if not chunk:
                return None
            tail = self._buffer[self._start :]
            # One byte more than allowed shows later that the line is too long; the rest need not be held.
            self._dropped += max(0, len(tail) - LONGEST - 1)
            self._buffer = tail[: LONGEST + 1] + chunk
            self._start = 0
        line = self._buffer[self._start : end]
        # The newline is part of what was read.
        self._offset += end + 1 - self._start + self._dropped
        self._start = end + 1
        self._dropped = 0
        return line

    def _go_on(self) -> bytes | None:
        """At the end of a file, once a later one stands: what follows its last newline, else the next file."""
        if not self.is_folder:
            return None
        sizes = self._sizes()
        self._require_order(sizes)
        # Names sort by time: log.2024-01-02.jsonl comes after log.2024-01-01.jsonl.
        later = [name for name, _ in sizes if name > self._at]
        if not later:
            return None
        if self._at:
            line = self._line()  # written between the last look and the next file
            if line is not None:
                return line
            tail = self._buffer[self._start :]
            if tail:
                self._offset += len(tail) + self._dropped
                self._start = len(self._buffer)
                self._dropped = 0
                return tail
            self._done[self._at] = self._offset
        self.close()
        standing = {name for name, _ in sizes}
        # Files that were removed need no length: nothing can grow there.
        self._done = {name: size for name, size in self._done.items() if name in standing}
        self._at, self._offset, self._digest = later[0], 0, ""
        return None

    def _require_order(self, sizes: list[tuple[str, int]]) -> None:
        for name, size in sizes:
            # -1: an earlier name that was never read appeared late, even an empty file.
            if name < self._at and size > self._done.get(name, -1):
                raise DataError(
                    f"{self.path / name}: grew or appeared after {self._at} was started and is not read any more; "
                    "give new files names that sort after the older ones, and move the new lines there"
                )


PATIENCE = 30.0
"""Seconds to wait for another process that holds the file."""


class SQLiteQueue:
    """The writer's end.

    Args:
        path: the database; it is made where there is none.

    Example:
        >>> from ensue.stream import SQLiteQueue
        >>> SQLiteQueue("queue.db").put(['{"session": "s1", "item": "a7", "time": 1700000000}'])
        1
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        with closing(self._open()) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE IF NOT EXISTS events (position INTEGER PRIMARY KEY AUTOINCREMENT, line)")

    def put(self, lines: Iterable[str | bytes]) -> int:
        """Append lines, all or none of them, and return the position of the last."""
        # one writer at a time in this process: SQLite lets the others wait in sleeps that grow
        with self._lock, closing(self._open()) as database, database:
            database.executemany("INSERT INTO events (line) VALUES (?)", ((line,) for line in lines))
            (last,) = database.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        return int(last)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=PATIENCE)


class QueuePosition(NamedTuple):
    """The latest line that was given out, and a digest of it."""

    position: Count
    digest: str


class SQLiteSource(StreamSource):
    """The reader's end.

    Args:
        path: a database made by :class:`SQLiteQueue`, or one with the same table.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = f"sqlite:{path.resolve().name}"
        self._database: sqlite3.Connection | None = None
        self._at, self._digest = 0, ""

    def begin(self, position: Position | None) -> None:
        """See :class:`StreamSource`."""
        self.close()
        if not self.path.is_file():
            raise DataError(
                f"{self.path}: no such queue; a writer makes it with "
                f"ensue.stream.SQLiteQueue({str(self.path)!r}).put(lines)"
            )
        self._at, self._digest = position_of(QueuePosition(0, ""), position)
        self._database = sqlite3.connect(self.path, timeout=PATIENCE)
        standing = self._rows("SELECT CAST(line AS BLOB) FROM events WHERE position = ?", self._at)
        # The line at the position may have been deleted, then only the highest number can tell.
        if self._at > self._last() or any(_digest(line) != self._digest for (line,) in standing):
            raise DataError(
                f"{self.path}: is not the queue that was read up to position {self._at}; restore it, or start with "
                "this one, with --restart"
            )

    def _next(self, limit: int) -> list[tuple[str, bytes]]:
        query = "SELECT position, CAST(line AS BLOB) FROM events WHERE position > ? ORDER BY position LIMIT ?"
        rows = self._rows(query, self._at, min(64, limit))
        if rows:
            self._at, self._digest = int(rows[-1][0]), _digest(rows[-1][1])
        return [
            (f"{self.path.name}: position {position}", b"null" if line is None else line) for position, line in rows
        ]

    def _position(self) -> Position:
        return QueuePosition(self._at, self._digest)._asdict()

    def behind(self) -> Behind:
        """See :class:`StreamSource`."""
        return Behind(max(0, self._last() - self._at), "lines")

    def close(self) -> None:
        """See :class:`StreamSource`."""
        if self._database is not None:
            self._database.close()
        self._database = None

    def _last(self) -> int:
        """The highest position ever given out, lines deleted since included."""
        # AUTOINCREMENT remembers the highest number in a table of its own, which foreign queues may lack.
        tables = self._rows("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'")
        sequences = self._rows("SELECT seq FROM sqlite_sequence WHERE name = 'events'") if tables[0][0] else []
        (standing,) = self._rows("SELECT coalesce(max(position), 0) FROM events")[0]
        return max(int(standing), *(int(seq) for (seq,) in sequences), 0)

    def _rows(self, query: str, *values: int) -> list[tuple[Any, ...]]:
        assert self._database is not None
        try:
            return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(
                f"{self.path}: not a queue ({error}); it needs the table events(position INTEGER PRIMARY KEY, line)"
            ) from error


def _digest(line: bytes | None) -> str:
    return hashlib.blake2b(line or b"", digest_size=16).hexdigest()
