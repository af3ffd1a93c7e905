"""One writer a model folder: whoever learns into it holds its lock, which ends with the process at the latest."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                break
        os.close(descriptor)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)
