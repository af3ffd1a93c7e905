"""Permissions of written files: what is replaced keeps mode, owner, group and access list; what is new gets the umask.

Files next to a model folder (versions, rejected lines, journals, indexes) repeat parts of what the folder holds, as
labels do of their posts, so :func:`sibling_access` gives them to nobody who may not read those.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_GROUP, _WORLD = 0o070, 0o007


class Access(NamedTuple):
    """Mode, owner, group and POSIX access lists of a file or folder."""

    mode: int
    user: int
    group: int
    lists: tuple[tuple[str, bytes], ...] = ()
    """Name and value of each extended attribute that holds an access list."""


def access_of(path: Path) -> Access | None:
    """Return the permissions of a path (of a link: of its target), or ``None`` if nothing is there."""
    try:
        status = path.stat()
    except OSError:
        return None
    lists = []
    if sys.platform == "linux":
        for name in _ACCESS_LISTS:
            with suppress(OSError):  # no such attribute, or a file system without access lists
                lists.append((name, os.getxattr(path, name)))
    return Access(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, tuple(lists))


def private_access() -> Access:
    """Return permissions for the owner of this process alone."""
    return Access(0o600, os.geteuid(), os.getegid())


def sibling_access(source: Path, mode: int = 0o666) -> Access | None:
    """Return permissions for a new file next to a source: the umask's, without those who cannot read the source.

    Args:
        source: a model folder or a file.
        mode: 0o777 for a new folder next to it.

    Returns:
        The permissions; ``None`` if there is no source yet.
    """
    outer = access_of(source)
    inner = access_of(source / "settings.json") if source.is_dir() else outer
    if outer is None or inner is None:
        return None
    for bits in (_GROUP, _WORLD):
        may_read = (inner is outer or outer.mode & bits & 0o111) and inner.mode & bits & 0o444
        # Who may not read the source gets nothing of its neighbour, whatever the umask says.
        mode &= 0o777 if may_read else ~bits
    return Access(mode & ~_umask(), inner.user, inner.group)


def create_file(path: Path, access: Access | None = None) -> BinaryIO:
    """Create a file and open it for writing; it has its final permissions before its first byte.

    Args:
        path: where nothing is, not even a link.
        access: its permissions; those of the umask if ``None``.

    Raises:
        OSError: something is there, or the place cannot be written.
    """
    # O_EXCL and O_NOFOLLOW: neither a file nor a link that somebody put there is written to.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666 if access is None else 0o600)
    try:
        if access is not None:
            _set_access(descriptor, access)
        return os.fdopen(descriptor, "wb")
    except BaseException:
        os.close(descriptor)
        raise


def ensure_file(path: Path, access: Access | None = None) -> None:
    """Create an empty file unless something is there; see :func:`create_file`.

    Raises:
        OSError: the place cannot be written.
    """
    with suppress(FileExistsError):
        create_file(path, access).close()


def create_folder(path: Path, access: Access | None = None) -> None:
    """Create a folder with the permissions of the umask or, if others are given, for its owner alone.

    Whoever fills it sets the others at the end, with :func:`set_folder_access`.

    Raises:
        OSError: something is there, or the place cannot be written.
    """
    path.mkdir(mode=0o777 if access is None else 0o700)


def ensure_folder(path: Path, access: Access | None = None) -> None:
    """Create an empty folder with these permissions unless something is there; see :func:`create_folder`.

    Raises:
        OSError: the place cannot be written.
    """
    with suppress(FileExistsError):
        create_folder(path, access)
        if access is not None:
            set_folder_access(path, access)


def set_folder_access(path: Path, access: Access) -> None:
    """Give a folder the permissions of another one.

    Raises:
        OSError: the mode cannot be set.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _set_access(descriptor, access)
    finally:
        os.close(descriptor)


def _set_access(descriptor: int, access: Access) -> None:
    """Set permissions; where owner or group cannot be set, nobody gets more by that."""
    mode = access.mode
    for user in (access.user, -1):  # only root may give a file away; its group may be any that the process is in
        with suppress(OSError):
            os.fchown(descriptor, user, access.group)
            break
    # With an access list the group's bits are the list's mask, and say nothing about the group itself.
    if access.lists or os.fstat(descriptor).st_gid != access.group:
        mode &= ~_GROUP | (mode & _WORLD) << 3
    os.fchmod(descriptor, mode)
    if sys.platform == "linux":
        for name, value in access.lists:
            with suppress(OSError):
                os.setxattr(descriptor, name, value)


def _umask() -> int:
    """Return the umask; it is read, not set and set back, because another thread may create a file in between."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o077
