"""Files of a model folder and their checksums, in a file that ``b2sum -c B2SUMS`` reads: 256 bits of BLAKE2b."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ensue.errors import ModelFolderError

FILE = "B2SUMS"
FREE = frozenset({FILE, "CARD.md"})
"""Files without a checksum: the card, which `evaluate` rewrites, holds nothing that is computed with."""

_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


def digest(parts: Iterable[bytes]) -> str:
    """The checksum of bytes that come in parts, in hexadecimal."""
    hashed = hashlib.blake2b(digest_size=32)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()


class Counted:
    """Bytes that come in parts, and once they have come their checksum, in hexadecimal."""

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        self._parts, self._hashed = parts, hashlib.blake2b(digest_size=32)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """The parts, one after the other."""
        for part in self._parts:
            self._hashed.update(part)
            yield part

    @property
    def digest(self) -> str:
        """The checksum of all that has come."""
        return self._hashed.hexdigest()


def lines_of(sums: Mapping[str, str]) -> bytes:
    """The contents of ``B2SUMS`` for checksums by name of the file."""
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(set(sums) - FREE)).encode()


@contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """A file of a folder; nothing else is opened, for who opens a pipe waits, and a device may act on it.

    Raises:
        ModelFolderError: it is missing, cannot be read, or is no file.
    """
    path = folder / name
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelFolderError(f"{path}: is not a file; copy the folder anew")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ModelFolderError(
            f"{folder}: {name} is missing or unreadable ({error.strerror}); this is not a whole model folder"
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        yield file


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """The rest of a file in parts of 1 MB."""
    return iter(partial(file.read, 2**20), b"")


def sums_of(folder: Path) -> dict[str, str]:
    """Checksums by name; none in a folder of before there were any.

    Raises:
        ModelFolderError: ``B2SUMS`` is damaged.
    """
    if not os.path.lexists(folder / FILE):
        return {}
    with opened(folder, FILE) as file:
        text = file.read().decode(errors="replace")
    lines = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    if not all(lines):
        raise ModelFolderError(f"{folder}/{FILE}: damaged (a line is not a checksum and a name); copy the folder anew")
    return {line[2]: line[1] for line in lines if line}


def sum_of(folder: Path, name: str) -> str | None:
    """The checksum that a file should have; ``None`` where there is none to compare.

    Raises:
        ModelFolderError: ``B2SUMS`` is damaged, or lacks the file.
    """
    sums = sums_of(folder)
    if sums and name not in sums and name not in FREE:
        raise ModelFolderError(f"{folder}/{name}: has no checksum in {FILE}; copy the folder anew")
    return sums.get(name)


def require_sum(folder: Path, name: str, expected: str | None, parts: Iterable[bytes]) -> None:
    """Compare the contents of a file with its checksum.

    Raises:
        ModelFolderError: they differ.
    """
    if expected is not None and digest(parts) != expected:
        raise ModelFolderError(
            f"{folder}/{name}: damaged or edited (its checksum is not the one in {FILE}); copy the folder anew or fit "
            "the model again"
        )
