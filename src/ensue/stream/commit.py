"""State of a stream in the model's folder: ``stream.json`` and ``stream.safetensors``.

Commits of a large model: what changed since the one before is appended to a file beside the folder.

To write a folder takes as long as it is large. A commit of the journal holds the rows that were moved and their
moments, all small tensors, open sessions, the position and what was seen; so it is as large as what was learned. From
time to time, and when a stream ends, the folder is written whole and the journal begins anew.

The file ``.NAME.journal`` begins with the checksum of the folder that it goes on from. Each commit is its length, its
bytes and their checksum, and is on the disk before the source hears of it. Whatever was cut off by a kill is no commit;
a journal of another folder, as after ``ensue update``, is none at all.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ensue.errors import ModelFolderError, SettingError
from ensue.learning.state import Count
from ensue.lines import one_line, plural
from ensue.nn.validation import Array
from ensue.store import checksums
from ensue.store.access import ensure_file, sibling_access
from ensue.store.checksums import opened
from ensue.store.folder import damage, read_file, read_settings, write_folder
from ensue.store.pack import TensorFile, arrays_in, files_of, read_packed, require_finite, tensor_bytes
from ensue.stream.events import ReaderState
from ensue.stream.metrics import BaselineTable, Board, Hour
from ensue.stream.sessions import Chunk, HistoryTable, SessionTable
from ensue.stream.state import StreamCounts, StreamState

FILES = STATE, TENSORS = "stream.json", "stream.safetensors"
CARD = "\n## Trained on a stream\n"


@dataclass(eq=False, kw_only=True)
class Commit:
    """State of a stream beside the model, as its folder or an entry of the journal holds it."""

    source: str
    position: dict[str, object] | None
    counts: StreamCounts
    reader: ReaderState
    sessions: dict[str, SessionTable]
    """Open sessions of each partition."""
    chunk: Chunk
    ended: HistoryTable
    """Sessions that are over and not counted yet."""
    period: int | None
    hours: tuple[Hour, ...]
    reported_hour: int
    """The latest hour that was reported."""
    rejects: Count
    """Bytes of the file of rejected lines."""
    baselines: BaselineTable | None = None
    """Counts of the baselines; the journal holds the events instead."""
    resume: str = ""
    """The checksum of the folder beside it that a stream goes on from, where the last chunk was learned early."""


def read_commit(folder: Path) -> Commit | None:
    """Return the state of a folder's stream, ``None`` for a folder that never learned from one.

    Raises:
        ModelFolderError: it is damaged.
    """
    if not (folder / STATE).exists():
        return None
    with damage(folder):
        return read_packed(Commit, folder, FILES)


def commit_of(stream: StreamState) -> Commit:
    """Return the state of a stream, but for the counts of the baselines."""
    return Commit(
        source=stream.source.name,
        position=None if stream.position is None else dict(stream.position),
        counts=stream.counts,
        reader=stream.reader.state(),
        sessions=stream.sessions.tables(),
        chunk=stream.chunk,
        ended=HistoryTable.of(stream.ended),
        period=stream.period,
        hours=tuple(stream.board.rows()),
        reported_hour=stream.reported_hour,
        rejects=stream.rejects.length,
    )


def files(stream: StreamState, resume: str = "") -> dict[str, bytes | TensorFile]:
    """Return all the files of a commit that is a whole folder, the model's included.

    Args:
        stream: the stream as it is.
        resume: the checksum of the folder that it goes on from, where that is another one.
    """
    # A whole folder holds the counts; a journal entry holds the events, from which they are counted again.
    commit = replace(commit_of(stream), baselines=stream.baselines.table(), resume=resume)
    return {**stream.predictor.contents(_card(stream)), **files_of(commit, FILES)}


def begin_of(folder: Path) -> tuple[Path, Commit | None]:
    """Return the folder that a stream goes on from, and its commit.

    A stream that ended in the midst of a chunk learned it early, so that nothing is missing in the model. To go on as
    if it had never ended, it needs the model from before; that is in a folder beside it (:func:`write_end`). Where the
    model has been updated since, or that folder is gone, the stream goes on from the model itself.

    Raises:
        ModelFolderError: it is damaged.
    """
    commit = read_commit(folder)
    if commit is None or not commit.resume:
        return folder, commit
    resume_folder = _resumed_from(folder, commit.counts.lines)
    with suppress(ModelFolderError):
        # An update of the model since then must not be lost, so both must be of the same age.
        if _checksum(resume_folder) == commit.resume and _updates(resume_folder) == _updates(folder):
            return resume_folder, read_commit(resume_folder)
    return folder, commit


def write_end(stream: StreamState, learn: Callable[[], None]) -> None:
    """Write the folder of a stream that ends in the midst of a chunk, and beside it the one to go on from.

    Args:
        stream: as it is; its chunk is not complete.
        learn: learns the chunk early.

    Raises:
        ModelFolderError: the folder cannot be written; the last commit stands.
    """
    resume_folder = _resumed_from(stream.folder, stream.counts.lines)
    # Written first: a kill after this leaves a folder that goes on as if nothing had been ended.
    write_folder(resume_folder, files(stream), like=stream.folder)
    learn()
    write_folder(stream.folder, files(stream, _checksum(resume_folder)))


def remove_former(folder: Path, lines: int) -> None:
    """Remove folders that a stream of a model went on from before it had read so many lines."""
    current = _resumed_from(folder, lines)
    for path in current.parent.glob(f"{glob.escape(current.stem)}.*"):
        if path != current:
            shutil.rmtree(path, ignore_errors=True)


def restore(stream: StreamState, commit: Commit) -> None:
    """Put a new stream where a commit stood.

    Args:
        stream: of the commit's model.
        commit: of its folder.

    Raises:
        SettingError: the folder learns from another source.
        ModelFolderError: the commit is damaged.
    """
    if commit.source != stream.source.name:
        raise SettingError(
            f"{stream.folder} follows {one_line(commit.source)}, not {stream.source.name}; give that source, or "
            "start over on this one with --restart"
        )
    with damage(stream.folder):
        restore_state(stream, commit)
        stream.baselines.restore(commit.baselines, len(stream.predictor.vocabulary))


def restore_state(stream: StreamState, commit: Commit) -> None:
    """Give a stream everything of a commit but the counts of the baselines."""
    vocabulary = stream.predictor.vocabulary
    stream.position = commit.position
    stream.reported_hour = commit.reported_hour
    stream.counts = commit.counts
    stream.reader.restore(commit.reader)
    stream.board = Board(commit.hours)
    stream.chunk = commit.chunk.resume(vocabulary)
    stream.period = commit.period
    stream.sessions.restore(commit.sessions, stream.chunk)
    stream.ended = commit.ended.histories(vocabulary)


def _resumed_from(folder: Path, lines: int) -> Path:
    """Return the folder to go on from that is written when a stream ends after so many lines."""
    resume_folder = folder.resolve()
    return resume_folder.with_name(f".{resume_folder.name}.resume.{lines}")


def _checksum(folder: Path) -> str:
    with opened(folder, checksums.FILE) as file:
        return checksums.digest([file.read()])


def _updates(folder: Path) -> object:
    return read_settings(folder)["facts"].get("updates", 0)


def _card(stream: StreamState) -> str:
    """The card that stands, and how much was learned since."""
    has_card = (stream.folder / "CARD.md").exists()
    standing = read_file(stream.folder, "CARD.md").decode(errors="replace") if has_card else ""
    total = stream.board.total()
    figures = [
        f"- {name}: HR@20 {row['hr@20']:.4f}, MRR@20 {row['mrr@20']:.4f}" for name, row in total.figures().items()
    ]
    lines = [
        f"{plural(stream.counts.events, 'event')} of {stream.source.name}, each predicted before training on it "
        f"({plural(total.targets, 'target')}, all known items, ties count against the target):",
        *figures,
    ]
    return "\n".join([standing.split(CARD)[0].rstrip(), CARD, *lines, ""])


SUM = 32
"""Bytes of a checksum."""


class Entry(NamedTuple):
    """One commit, packed: a tree of JSON and arrays by path (:mod:`ensue.store.pack`)."""

    tree: Any
    arrays: dict[str, Array]


class Journal:
    """The file; see the module.

    Args:
        folder: the model folder, under its lock.
    """

    def __init__(self, folder: Path) -> None:
        path = folder.resolve()
        self.folder = folder
        self.path = path.with_name(f".{path.name}.journal")
        self.size = 0

    def read(self) -> list[Entry]:
        """The commits since the folder was written; what was cut off is cut away.

        Raises:
            ModelFolderError: the file cannot be read.
        """
        if not self.path.exists():
            return []
        entries: list[Entry] = []
        size = 0
        with opened(self.path.parent, self.path.name) as file:
            if file.read(SUM) == self._base():
                size = SUM
                while entry := self._next(file):
                    entries.append(entry)
                    size = file.tell()
        if not entries:
            self.restart()
            return []
        # What was cut off by a kill goes, so that the next commit follows a whole one.
        os.truncate(self.path, size)
        self.size = size
        return entries

    def append(self, entry: Entry) -> None:
        """Add a commit; it is on the disk when this returns.

        Raises:
            ModelFolderError: the disk is full, or the place cannot be written; the commit before stands.
        """
        data = tensor_bytes(entry.arrays, {"tree": json.dumps(entry.tree)})
        head = b"" if self.size else self._base()
        try:
            ensure_file(self.path, sibling_access(self.folder))
            with self.path.open("r+b") as file:
                # An append that failed midway is written over.
                file.seek(self.size)
                file.write(head + len(data).to_bytes(8, "little"))
                file.write(data)
                file.write(_sum(data))
                file.truncate()
                file.flush()
                # On the disk before the source hears of it.
                os.fsync(file.fileno())
                self.size = file.tell()
        except OSError as error:
            raise ModelFolderError(
                f"{self.path}: cannot be written ({error.strerror}); the last commit is kept"
            ) from error

    def restart(self) -> None:
        """Begin anew: the folder holds all there was."""
        self.path.unlink(missing_ok=True)
        self.size = 0

    def _base(self) -> bytes:
        """Return the checksum that identifies the current folder."""
        return _sum((self.folder / checksums.FILE).read_bytes())

    def _next(self, file: BinaryIO) -> Entry | None:
        """The next commit; ``None`` at the end, and where it is not whole."""
        size = int.from_bytes(file.read(8), "little")
        data = file.read(size) if size <= os.fstat(file.fileno()).st_size else b""
        if not data or file.read(SUM) != _sum(data):
            return None
        with damage(self.path):
            arrays = arrays_in(bytearray(data), self.path)  # which may be written, unlike bytes
            for key, array in arrays.items():
                require_finite(self.path, key, array)
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            return Entry(json.loads(header["__metadata__"]["tree"]), arrays)


def _sum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SUM).digest()
