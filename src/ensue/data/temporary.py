"""Temporary folders that do not outlive their process: those of killed processes go with the next one that is made."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

TEMPORARY = ExitStack()
"""Clean-up at the end of a command."""
PREFIX = "ensue-run-"
"""Prefix of the names; whoever makes such a folder holds a lock on it."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder for this user alone, and remove it at the end.

    Raises:
        OSError: there is no place for it.
    """
    for abandoned in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), _locked(abandoned) as (locked, owner):
            if locked and owner == os.geteuid():
                shutil.rmtree(abandoned, ignore_errors=True)
    while True:
        folder = Path(mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError), _locked(folder):  # removed by another process before it was locked
            if folder.exists():
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                return


@contextmanager
def _locked(folder: Path) -> Iterator[tuple[bool, int]]:
    """Yield whether nobody else holds the lock of a folder, which is held meanwhile, and its owner."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except OSError:
            locked = False
        yield locked, os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
