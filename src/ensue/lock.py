"""One writer a model folder: whoever learns into it holds its lock, which ends with the process at the latest."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ensue.errors import ModelFolderError


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock beside a folder, ``.NAME.lock``; the file stays, for removing it would let two processes in.

    Raises:
        ModelFolderError: another process holds it, or it cannot be made there.
    """
    place = folder.resolve()
    path = place.with_name(f".{place.name}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ModelFolderError(f"{folder}: cannot be locked ({error.strerror}); make its parent writable") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ModelFolderError(
                f"{folder}: another ensue learns into it; stop that one first, or wait until it is done"
            ) from error
        yield
    finally:
        os.close(descriptor)
