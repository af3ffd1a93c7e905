"""A growing JSON Lines file, or a folder of them that are read in the order of their names.

A position is (file, bytes read) and a digest of what stood just before, so that a file that was rotated, truncated or
written anew is noticed, and a copy of the same file on another machine is not. A last line without its newline waits
for it. In a folder a file is over once one with a later name exists; what its last line then holds, it holds for good.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from pathlib import Path

from typing_extensions import TypedDict

from ensue.errors import DataError
from ensue.stream.blocks import MOST_BYTES, POLL, Behind, Block, Position, position_of
from ensue.stream.events import LONGEST
from ensue.tasks.metadata import Count

CHUNK = 2**18
TAIL = 1024
"""Bytes before the position that are remembered by their digest."""
SUFFIXES = (".jsonl", ".ndjson")


class FilePosition(TypedDict):
    """The file that is read, bytes of it that were given out, a digest of the latest, and lengths of earlier files."""

    file: str
    offset: Count
    digest: str
    done: dict[str, Count]


class JSONLines:
    """The source; see the module.

    Args:
        path: a file, or a folder of ``.jsonl`` and ``.ndjson`` files.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.resolve().name
        self.is_folder = path.is_dir()
        self._file: int | None = None
        self._inode = -1
        self._at = ""  # name of the file that is read
        self._offset = 0  # bytes of it that were given out as lines
        self._digest = ""  # of the bytes before the offset
        self._done: dict[str, int] = {}  # earlier files of the folder and how long they were
        self._buffer, self._start, self._dropped = b"", 0, 0

    def begin(self, position: Position | None) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        if not self.path.exists():
            raise DataError(f"{self.path}: no such file or folder; give a JSON Lines file or a folder of them")
        self.close()
        if position is None:
            self._at, self._offset, self._digest, self._done = "" if self.is_folder else self.name, 0, "", {}
        else:
            place = position_of(FilePosition, position)
            self._at, self._offset = place["file"], place["offset"]
            self._digest, self._done = place["digest"], place["done"]
        if self._at:
            self._verify()

    def read(self, limit: int, wait: float) -> Block:
        """See :class:`ensue.stream.blocks.Source`."""
        lines: list[bytes] = []
        places: list[str] = []
        until, size, at_end = time.monotonic() + wait, 0, False
        if self._at:
            self._verify()
        while len(lines) < limit and size < MOST_BYTES:
            begins = self._offset
            line = self._line() if self._at else None
            if line is None:
                line = self._go_on()
                if line is None and self._at and self._file is None:
                    self._verify()
                    continue
            if line is not None:
                lines.append(line)
                places.append(f"{self._at}: byte {begins}")
                size += len(line)
                continue
            if time.monotonic() >= until:
                at_end = True
                break
            time.sleep(POLL)
        if self._at and self._file is not None:
            self._digest = self._digest_before()
        return Block(lines, places, self._position(), at_end)

    def committed(self, position: Position) -> None:
        """Nothing to do: a file keeps its lines."""

    def behind(self) -> Behind:
        """See :class:`ensue.stream.blocks.Source`."""
        left = [size for name, size in self._sizes() if name >= self._at]
        return Behind(max(0, sum(left) - self._offset), "bytes")

    def close(self) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._inode = None, -1
        self._buffer, self._start, self._dropped = b"", 0, 0

    def _position(self) -> FilePosition:
        return FilePosition(file=self._at, offset=self._offset, digest=self._digest, done=dict(self._done))

    @property
    def _here(self) -> Path:
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
            f"{self._here}: is not the file that was read up to byte {self._offset:,} (rotated, truncated or "
            "replaced); put it back, or let logs rotate into a folder, one name after the other, and stream the folder "
            "with --restart"
        )
        try:
            if self.is_folder and self._at not in dict(self._sizes()):  # a position names no file elsewhere
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            status = self._here.stat()
            if status.st_ino != self._inode:
                self.close()
                self._file, self._inode = os.open(self._here, os.O_RDONLY), status.st_ino
                os.lseek(self._file, self._offset, os.SEEK_SET)
        except OSError as error:
            raise DataError(changed if self._offset else f"{self._here}: cannot be read ({error.strerror})") from error
        held = self._offset + self._dropped + len(self._buffer) - self._start
        if status.st_size < held or (self._offset and self._digest_before() != self._digest):
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
            rest = self._buffer[self._start :]
            self._dropped += max(0, len(rest) - LONGEST - 1)
            self._buffer, self._start = rest[: LONGEST + 1] + chunk, 0
        line = self._buffer[self._start : end]
        self._offset += end + 1 - self._start + self._dropped
        self._start, self._dropped = end + 1, 0
        return line

    def _go_on(self) -> bytes | None:
        """At the end of a file, once a later one stands: what follows its last newline, else the next file."""
        if not self.is_folder:
            return None
        sizes = self._sizes()
        self._require_order(sizes)
        later = [name for name, _ in sizes if name > self._at]
        if not later:
            return None
        if self._at:
            line = self._line()  # written between the last look and the next file
            if line is not None:
                return line
            rest = self._buffer[self._start :]
            if rest:
                self._offset += len(rest) + self._dropped
                self._start, self._dropped = len(self._buffer), 0
                return rest
            self._done[self._at] = self._offset
        self.close()
        standing = {name for name, _ in sizes}
        self._done = {name: size for name, size in self._done.items() if name in standing}
        self._at, self._offset, self._digest = later[0], 0, ""
        return None

    def _require_order(self, sizes: list[tuple[str, int]]) -> None:
        for name, size in sizes:
            if name < self._at and size > self._done.get(name, -1):
                raise DataError(
                    f"{self.path / name}: grew or appeared after {self._at} was started and is not read any more; "
                    "give new files names that sort after the older ones, and move the new lines there"
                )
