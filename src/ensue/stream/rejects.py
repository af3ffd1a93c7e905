"""Lines that are no events and events with impossible times: written with their reason beside the model folder.

The file's length is committed with the position. A restart cuts the file back to it and reads on from the position, so
that a line is written once, whenever the process was killed. A new file may be read by those who may read the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ensue.errors import ModelFolderError
from ensue.store.access import ensure_file, sibling_access
from ensue.stream.events import LONGEST

SHOWN = 5
"""Rejected lines of a run that its summary shows."""


def rejects_of(folder: Path) -> Path:
    """Return where the rejected lines of a folder's stream are."""
    place = folder.resolve()
    return place.with_name(f"{place.name}.rejects.jsonl")


class Rejected(NamedTuple):
    """Where a rejected line is, and why it was rejected."""

    place: str
    reason: str


class Rejects:
    """The file ``FOLDER.rejects.jsonl``; it is made with the first line.

    Args:
        folder: the model folder.
        length: bytes that were committed.
    """

    def __init__(self, folder: Path, length: int) -> None:
        self.path = rejects_of(folder)
        self.first: list[Rejected] = []
        """The first rejected lines of this run."""
        self.length = 0
        self._access = sibling_access(folder)
        if self.path.exists():
            with self._written():
                self.length = min(length, self.path.stat().st_size)
                os.truncate(self.path, self.length)

    def add(self, line: bytes, place: str, reason: str) -> None:
        """Write one line; of one that is too long, the beginning."""
        if len(self.first) < SHOWN:
            self.first.append(Rejected(place, reason))
        text = line.decode("utf-8", "backslashreplace")
        entry = {"place": place, "reason": reason, "line": text[:1000] if len(line) > LONGEST else text}
        data = f"{json.dumps(entry)}\n".encode()
        with self._written():
            if not self.length:
                ensure_file(self.path, self._access)
            with self.path.open("ab") as file:
                file.write(data)
        self.length += len(data)

    def flush(self) -> None:
        """Wait until everything so far is on the disk."""
        if self.length:
            with self._written(), self.path.open("rb") as file:
                os.fsync(file.fileno())

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Report errors of the file.

        Raises:
            ModelFolderError: it cannot be written, or is no file.
        """
        try:
            if self.path.exists() and not self.path.is_file():
                raise ModelFolderError(f"{self.path}: is not a regular file; move it away")
            yield
        except OSError as error:
            raise ModelFolderError(f"{self.path}: cannot be written ({error.strerror})") from error
