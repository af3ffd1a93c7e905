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
    """Hold the lock beside a folder, which need not exist yet: ``.NAME.lock``, gone when it is let go.

    What a killed process leaves of it holds nobody up.

    Raises:
        FolderInUseError: another process holds it.
        ModelFolderError: it cannot be made there.
    """
    place = folder.resolve()
    path = place.with_name(f".{place.name}.lock")
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


_EXCHANGE, _HERE = 2, -100  # renameat2(2): RENAME_EXCHANGE, AT_FDCWD


def put_in_place(new: Path, folder: Path) -> None:
    """Rename, or swap with what stands there; the old one, now under the temporary name, goes with it.

    Raises:
        OSError: it cannot be; what stood there is unchanged.
    """
    if not folder.exists():
        new.rename(folder)
        return
    # One system call swaps both names: no moment without a folder. Python has no function for it.
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange and exchange(_HERE, os.fsencode(new), _HERE, os.fsencode(folder), _EXCHANGE) == 0:
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
    """Put right what killed processes left beside a folder as they wrote it; who is still at work holds a lock on it.

    What stood there is put back if nothing stands there now, and all else is removed.
    """
    put_back(folder)
    place = folder.resolve()
    for left in [*place.parent.glob(f".{glob.escape(place.name)}.*.tmp"), *_old(place)]:
        with suppress(OSError), locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(left, ignore_errors=True)


def put_back(folder: Path) -> bool:
    """Whether a folder stands again that a process was killed in the midst of replacing."""
    place = folder.resolve()
    for left in _old(place):
        with suppress(OSError), locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            # Somebody else may have put a folder there meanwhile.
            if not place.exists():
                left.rename(place)
                return True
    return False


def _old(place: Path) -> list[Path]:
    """What was moved aside from this place; a folder whose name goes on with a dot has others of its own."""
    begin, end = f".{place.name}.", ".old"
    aside = place.parent.glob(f"{glob.escape(begin)}*{end}")
    return [left for left in aside if "." not in left.name.removeprefix(begin).removesuffix(end)]


@contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Hold a lock on a folder.

    Raises:
        OSError: another holds it, or there are no locks here.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
