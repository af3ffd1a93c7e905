"""A queue in one SQLite file: writers append lines, the stream reads them in order.

The table is ``events(position INTEGER PRIMARY KEY AUTOINCREMENT, line)`` in a database with a write-ahead log, so that
writers and the reader do not wait for each other. The reader never writes; lines up to a committed position may be
deleted.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ensue.errors import DataError
from ensue.stream.blocks import MOST_BYTES, POLL, Behind, Block, Position, position_of
from ensue.tasks.metadata import Count

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
        with closing(self._open()) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE IF NOT EXISTS events (position INTEGER PRIMARY KEY AUTOINCREMENT, line)")

    def put(self, lines: Iterable[str | bytes]) -> int:
        """Append lines, all or none of them; returns the position of the last."""
        with closing(self._open()) as database, database:
            database.executemany("INSERT INTO events (line) VALUES (?)", ((line,) for line in lines))
            (last,) = database.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
        return int(last)

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=PATIENCE)


class QueuePosition(TypedDict):
    """The latest line that was given out, and a digest of it."""

    position: Count
    digest: str


class SQLiteSource:
    """The reader's end.

    Args:
        path: a database made by :class:`SQLiteQueue`, or one with the same table.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, f"sqlite:{path.resolve().name}"
        self._database: sqlite3.Connection | None = None
        self._at, self._digest = 0, ""

    def begin(self, position: Position | None) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        self.close()
        if not self.path.is_file():
            raise DataError(
                f"{self.path}: no such queue; a writer makes it with "
                f"ensue.stream.SQLiteQueue({str(self.path)!r}).put(lines)"
            )
        place = QueuePosition(position=0, digest="") if position is None else position_of(QueuePosition, position)
        self._at, self._digest = place["position"], place["digest"]
        self._database = sqlite3.connect(self.path, timeout=PATIENCE)
        standing = self._rows("SELECT CAST(line AS BLOB) FROM events WHERE position = ?", self._at)
        if self._at > self._last() or any(_digest(line) != self._digest for (line,) in standing):
            raise DataError(
                f"{self.path}: is not the queue that was read up to position {self._at}; restore it, or start with "
                "this one, with --restart"
            )

    def read(self, limit: int, wait: float) -> Block:
        """See :class:`ensue.stream.blocks.Source`."""
        lines: list[bytes] = []
        places: list[str] = []
        until, size, at_end = time.monotonic() + wait, 0, False
        while len(lines) < limit and size < MOST_BYTES:
            query = "SELECT position, CAST(line AS BLOB) FROM events WHERE position > ? ORDER BY position LIMIT ?"
            before = len(lines)
            for position, line in self._rows(query, self._at, min(64, limit - len(lines))):
                lines.append(b"null" if line is None else line)
                places.append(f"{self.path.name}: position {position}")
                size += len(lines[-1])
                self._at = int(position)
                self._digest = _digest(line)
            if len(lines) == before:
                if time.monotonic() >= until:
                    at_end = True
                    break
                time.sleep(POLL)
        return Block(lines, places, QueuePosition(position=self._at, digest=self._digest), at_end)

    def committed(self, position: Position) -> None:
        """Nothing to do: the queue keeps its lines."""

    def behind(self) -> Behind:
        """See :class:`ensue.stream.blocks.Source`."""
        return Behind(max(0, self._last() - self._at), "lines")

    def close(self) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        if self._database is not None:
            self._database.close()
        self._database = None

    def _last(self) -> int:
        """The highest position ever given out, lines deleted since included."""
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
