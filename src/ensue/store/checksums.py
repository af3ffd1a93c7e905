"""Files of a model folder and their checksums, in a file that ``b2sum -c B2SUMS`` reads: 256 bits of BLAKE2b."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ensue.errors import ModelFolderError

FILE = "B2SUMS"
FREE = frozenset({FILE, "CARD.md"})
"""Files without a checksum: the card, which `evaluate` rewrites, holds nothing that is computed with."""

MAX_BYTES = 2**20
"""Bytes of ``B2SUMS`` that are read, at most."""
_LINE = re.compile(r"([0-9a-f]{64})  (\w[\w.-]*)", re.ASCII)


class Hashed:
    """Bytes in chunks, and their checksum in hexadecimal once all were read."""

    def __init__(self, blocks: Iterable[bytes | memoryview]) -> None:
        self._blocks = blocks
        self._hashed = hashlib.blake2b(digest_size=32)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Yield the chunks."""
        for block in self._blocks:
            self._hashed.update(block)
            yield block

    @property
    def digest(self) -> str:
        """Checksum of all chunks that were read."""
        return self._hashed.hexdigest()


def digest(blocks: Iterable[bytes | memoryview]) -> str:
    """Return the checksum of bytes in chunks, in hexadecimal."""
    hashed = Hashed(blocks)
    deque(hashed, maxlen=0)
    return hashed.digest


def lines_of(sums: Mapping[str, str]) -> bytes:
    """Return the contents of ``B2SUMS`` for checksums by name of the file."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(set(sums) - FREE)).encode()


@contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a regular file of a folder; opening a pipe would wait, and opening a device may act on it.

    Raises:
        ModelFolderError: it is missing, cannot be read, or is not a regular file.
    """
    path = folder / name
    try:
        # Looked at before it is opened: to open a pipe waits for its writer.
        regular = stat.S_ISREG(path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if regular else -1
    except OSError as error:
        raise ModelFolderError(
            f"{folder}: {name} is missing or unreadable ({error.strerror}); the model folder is incomplete"
        ) from error
    if not regular:
        raise ModelFolderError(f"{path}: is not a file; copy the folder again")
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # replaced between the two calls
            raise ModelFolderError(f"{path}: is not a file; copy the folder again")
        yield file


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in chunks of 1 MB."""
    return iter(partial(file.read, 2**20), b"")


def sums_of(folder: Path) -> dict[str, str]:
    """Return the checksums in ``B2SUMS`` by file name.

    Raises:
        ModelFolderError: it is missing or damaged.
    """
    if not os.path.lexists(folder / FILE):
        raise ModelFolderError(f"{folder}: {FILE} is missing; copy the folder again")
    with opened(folder, FILE) as file:
        # One byte more than allowed shows that there is more.
        return parse_sums(file.read(MAX_BYTES + 1), folder)


def names_in(folder: Path) -> list[str]:
    """Return the files of a model folder, sorted: those with a checksum, the sums, and the card, which is in no list.

    Raises:
        ModelFolderError: the checksums are missing or damaged.
    """
    card = ["CARD.md"] if (folder / "CARD.md").is_file() else []
    return sorted([*sums_of(folder), FILE, *card])


def parse_sums(content: bytes, folder: Path) -> dict[str, str]:
    """Return the checksums by file name in the bytes of ``B2SUMS``.

    Raises:
        ModelFolderError: they are damaged.
    """
    text = content.decode(errors="replace")
    lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")] if text else []
    # Group 1 is the sum, group 2 the name; a repeated name makes the two lengths differ.
    sums = {line[2]: line[1] for line in lines if line}
    if len(content) > MAX_BYTES or len(sums) < len(lines):
        raise ModelFolderError(
            f"{folder}/{FILE}: damaged (a line is not a checksum and a name of its own); copy the folder again"
        )
    return sums


def sum_of(folder: Path, name: str) -> str | None:
    """Return the checksum that a file must have; ``None`` for the card, which has none.

    Raises:
        ModelFolderError: ``B2SUMS`` is missing or damaged, or does not name the file.
    """
    if name in FREE:
        return None
    expected = sums_of(folder).get(name)
    if expected is None:
        raise ModelFolderError(f"{folder}/{name}: has no checksum in {FILE}; copy the folder again")
    return expected


def require_sum(folder: Path, name: str, expected: str | None, blocks: Iterable[bytes | memoryview]) -> None:
    """Compare the contents of a file with its checksum.

    Raises:
        ModelFolderError: they differ.
    """
    if expected is not None and digest(blocks) != expected:
        raise ModelFolderError(
            f"{folder}/{name}: damaged or edited (its checksum is not the one in {FILE}); copy the folder again or "
            "fit the model again"
        )
