"""Locks on model folders, and the swap of a folder for its successor, with recovery from killed processes.

Each folder has at most one writer: it holds a lock, which ends with its process at the latest.
"""

from __future__ import annotations

import ctypes
import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ensue.errors import FolderInUseError, ModelFolderError
from ensue.store.access import sibling_access


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock ``.NAME.lock`` next to a folder, which need not exist yet; the file goes when the lock is released.

    A file that a killed process leaves blocks nobody.

    Raises:
        FolderInUseError: another process holds the lock.
        ModelFolderError: the file cannot be created.
    """
    target = folder.resolve()
    path = target.with_name(f".{target.name}.lock")
    access = sibling_access(folder)
    mode = 0o666 if access is None else access.mode
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        except OSError as error:
            raise ModelFolderError(
                f"{folder}: cannot be locked ({error.strerror}); make its parent writable"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise FolderInUseError(
                f"{folder}: another process updates it; stop that one, or wait until it has finished"
            ) from error
        with suppress(FileNotFoundError):  # removed by who held it, after it was opened here: then locked in vain
            # The lock is on this file and it still has the name: nobody else can hold another one.
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


_EXCHANGE, _CURRENT = 2, -100  # renameat2(2): RENAME_EXCHANGE, AT_FDCWD


def put_in_place(new: Path, folder: Path) -> None:
    """Rename a folder, or swap it with the one that has the name; the old one is then under the temporary name.

    Raises:
        OSError: it cannot be renamed; the old folder is unchanged.
    """
    if not folder.exists():
        new.rename(folder)
        return
    # One system call swaps both names: no moment without a folder. Python has no function for it.
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange and exchange(_CURRENT, os.fsencode(new), _CURRENT, os.fsencode(folder), _EXCHANGE) == 0:
        return
    old = new.with_suffix(".old")  # no swap on this system: two renames, a moment apart
    with ExitStack() as stack:
        with suppress(OSError):  # a file system without locks; else nobody takes it for a killed process's
            stack.enter_context(locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB))
        folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            # The new one cannot take the name; the old one gets it back.
            old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed processes left next to a folder, and restore the folder itself where it is missing.

    A writer that is still at work holds a lock on its temporary folder, which is then not touched.
    """
    put_back(folder)
    target = folder.resolve()
    for path in [*target.parent.glob(f".{glob.escape(target.name)}.*.tmp"), *_moved_aside(target)]:
        with suppress(OSError), locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(path, ignore_errors=True)


def put_back(folder: Path) -> bool:
    """Restore a folder that a process was killed in the midst of replacing; return whether one was restored."""
    target = folder.resolve()
    for path in _moved_aside(target):
        with suppress(OSError), locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            # Somebody else may have put a folder there meanwhile.
            if not target.exists():
                path.rename(target)
                return True
    return False


def _moved_aside(target: Path) -> list[Path]:
    """Return the folders that were moved aside from a name."""
    begin, end = f".{target.name}.", ".old"
    paths = target.parent.glob(f"{glob.escape(begin)}*{end}")
    # A dot within the rest belongs to a folder whose name begins with this one's and a dot.
    return [path for path in paths if "." not in path.name.removeprefix(begin).removesuffix(end)]


@contextmanager
def locked(path: Path, operation: int) -> Iterator[None]:
    """Hold a lock on a folder.

    Raises:
        OSError: another holds it, or there are no locks here.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
