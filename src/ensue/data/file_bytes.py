"""Bytes of a file, plain or packed, read so that no file of a stranger can end or stop this process.

A file is read, never mapped: what another program cuts short while it is mapped, as a rotation of logs does, ends a
process by SIGBUS. Devices and sockets are refused, and a pipe is waited for only while somebody may write into it.
gzip, xz, bzip2 and Zstandard are unpacked as a stream, up to a limit.
"""

from __future__ import annotations

import bz2
import fcntl
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import BinaryIO, TypedDict

from ensue.data.schema import DataSchema
from ensue.errors import DataError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RATIO = 64
"""Number of times its own size a packed file may unpack to; logs come to 5 to 20."""
_ALWAYS = 16 * 2**20
_STEP = 2**20
SUFFIXES = (".gz", ".xz", ".zst", ".bz2")
_UNPACKERS: Mapping[str, Callable[[BinaryIO], io.BufferedIOBase]] = {
    "gzip": lambda packed: gzip.GzipFile(fileobj=packed),
    "xz": lzma.LZMAFile,
    "bzip2": bz2.BZ2File,
    "zst": zstd.ZstdFile,
}
MAGIC: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
    **{b"BZh%d1A" % level: "bzip2" for level in range(1, 10)},
}


def ending(path: Path) -> str:
    """``.csv`` of ``clicks.csv.gz``, in lower case."""
    name = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return name.suffix.lower()


DROP = "drop"
KEEP = "keep"
REPORT = "report"
"""Policies for missing ids, see :class:`Opening`; ``report``, that of ``ensue check``, warns of rounded ids
and refuses none."""


class Opening(TypedDict, total=False):
    """Options of opening a file, the same for every reader."""

    encoding: str
    """Encoding of a text file, such as cp1252. [default: UTF-8, or UTF-16 by its byte-order mark]"""
    sheet: str
    """The name of an Excel file's sheet; the first unless stated."""
    max_unpacked: float | None
    """Gigabytes that a packed file may unpack to; 64 times its size, and half of the memory at hand, unless stated."""
    day_first: bool | None
    """True if dates such as 03/04/2024 begin with the day; by the other dates of the column unless stated."""
    schema: DataSchema
    """Schema of the training data of the model that this file is for."""
    missing: str
    """Policy for rows whose id is missing. Unless stated, an empty cell is refused and a word such as NULL or NaN
    is left out with a warning. ``drop`` leaves both out, and ids that a spreadsheet rounded; ``keep`` reads the words
    and rounded ids as they are."""


def is_pattern(path: Path) -> bool:
    """Return whether a name stands for the files that fit it, such as ``logs/*.parquet``, and is no file's own."""
    return bool(set(str(path)) & set("*?[")) and not path.exists()


def is_several(path: Path) -> bool:
    """Return whether a name stands for the files of a folder, or those that match a pattern."""
    return path.is_dir() or is_pattern(path)


def files_in(path: Path) -> list[Path]:
    """Return the files of a folder at any depth, or those that match a pattern, in the order of their names.

    Names that begin with a point or an underscore are passed over in a folder, as engines leave them behind.

    Raises:
        DataError: there is none.
    """
    # A pattern is looked for from the root or the present folder, for any of its parts may be one.
    start = path if path.is_dir() else Path(path.anchor)
    names = start.glob("**/*" if path.is_dir() else str(path.relative_to(start)))
    hidden = (".", "_") if path.is_dir() else ()
    files = [
        file
        for file in sorted(names)
        if file.is_file() and not any(part.startswith(hidden) for part in file.relative_to(start).parts)
    ]
    if not files:
        is_folder = path.is_dir()
        reason = "holds no file; name a folder with files in it" if is_folder else "no file matches; check the pattern"
        raise DataError(f"{path}: {reason}")
    return files


def packing(data: bytes) -> str | None:
    """``gzip``, ``xz``, ``zst`` or ``bzip2`` by the first bytes of a file, or ``None``."""
    return next((kind for magic, kind in MAGIC.items() if data.startswith(magic)), None)


def unpack(path: Path, packed: BinaryIO, kind: str, limit: int, advice: str) -> bytes:
    """The bytes inside a packed file.

    Args:
        path: the file, for messages.
        packed: its bytes.
        kind: what :func:`packing` says.
        limit: bytes, at most.
        advice: what an error adds where there are more.

    Raises:
        DataError: truncated or damaged data, or more than the limit.
    """
    try:
        with packed, _UNPACKERS[kind](packed) as stream:
            return _read_up_to(stream, limit, f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
    except MemoryError as error:
        raise DataError(f"{path}: needs more memory to unpack than is available; unpack it in parts") from error
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError) as error:
        raise DataError(f"{path}: the {kind} data is truncated or damaged; fetch or pack the file again") from error


def _read_up_to(stream: io.RawIOBase | io.BufferedIOBase, limit: int, excess: str) -> bytes:
    """Return the bytes of a stream.

    Raises:
        DataError: with the message ``excess``, where there are more than ``limit``.
    """
    buffer = io.BytesIO()
    while step := stream.read(_STEP):
        buffer.write(step)
        if buffer.tell() > limit:
            raise DataError(excess)
    return buffer.getvalue()


def allowed(packed: int, stated: float | None) -> tuple[int, str]:
    """Bytes that a file of so many packed bytes may unpack to, and what to say of more."""
    if stated is not None:
        return int(stated * 1e9), ", as allowed by --max-unpacked; raise that if you trust the file"
    raise_it = "if you trust the file, allow more with --max-unpacked GB"
    by_size = max(RATIO * packed, _ALWAYS)
    by_memory = memory_at_hand() // 2
    if by_size <= by_memory:
        return by_size, f", {RATIO} times its own size or over; {raise_it}"
    return by_memory, f", half of the available memory; unpack it in parts, or {raise_it}"


def memory_at_hand() -> int:
    """Bytes that this process can still get: of the machine, of its container, of its own limit."""
    free = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 if os.name == "posix" else 4 * 2**30]
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = [int(line.split()[1]) * 1024]
    # The limit of a container, in both versions of control groups, less what it uses.
    for folder, limit, used, inactive in (
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    ):
        numbers = [
            int(line) for name in (limit, used) for line in _lines(f"{folder}/{name}")[:1] if line.strip().isdigit()
        ]
        # Inactive pages of files are reclaimed before the limit is hit, so they count as free.
        cached = sum(int(line.split()[1]) for line in _lines(f"{folder}/memory.stat") if line.startswith(inactive))
        if len(numbers) == 2:
            free.append(max(numbers[0] - numbers[1] + cached, 0))
    if sys.platform != "win32":
        import resource

        # The limit of this process is on its addresses, of which statm names the pages.
        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = [int(line.split()[0]) for line in _lines("/proc/self/statm")]
        if soft != resource.RLIM_INFINITY and pages:
            free.append(max(soft - pages[0] * resource.getpagesize(), 0))
    return min(free)


def _lines(name: str) -> list[str]:
    try:
        return Path(name).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


PIPE_WAIT = 5.0
"""Seconds in which somebody must open the other end of a named pipe."""
_OVERLAP = 2**8
_REASONS: Mapping[type[Exception], str] = {
    FileNotFoundError: "no such file; check the name",
    IsADirectoryError: "is a folder; name a file in it",
    PermissionError: "cannot be read; change its permissions",
}
_KINDS = (
    (stat.S_ISDIR, _REASONS[IsADirectoryError]),
    (stat.S_ISSOCK, "is a socket; give a file"),
    (stat.S_ISCHR, "is a device or a terminal; give a file, or pipe the data in"),
    (stat.S_ISBLK, "is a disk; give a file on it"),
)


def open_input(path: Path) -> io.FileIO:
    """Open a file or a pipe that a user named.

    Raises:
        DataError: it is missing, a folder, a socket or a device, may not be read, or is a pipe without a writer.
    """
    try:
        mode = path.stat().st_mode
        for is_kind, reason in _KINDS:
            if is_kind(mode):
                raise DataError(f"{path}: {reason}")
        descriptor = _open_pipe(path) if stat.S_ISFIFO(mode) else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return io.FileIO(descriptor, "rb")
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise DataError(f"{path}: {_reason(path, error)}") from error


def read_input(path: Path) -> bytes:
    """Return all bytes of a small file, such as a list of values.

    Raises:
        DataError: see :func:`open_input` and :meth:`FileBytes.whole`.
    """
    with open_input(path) as file:
        return FileBytes(path, file).whole() if is_regular(file) else read_stream(path, file)


def require_regular(path: Path) -> None:
    """Refuse what is no regular file where one is read several times.

    Raises:
        DataError: see :func:`open_input`; or it is a pipe.
    """
    with open_input(path) as file:
        if not is_regular(file):
            raise DataError(f"{path}: is a pipe, and is read more than once; give a file")


def read_stream(path: Path, file: io.RawIOBase) -> bytes:
    """Return what comes out of a pipe.

    Raises:
        DataError: it gives more than half of the memory at hand, or cannot be read.
    """
    limit = memory_at_hand() // 2
    excess = f"{path}: does not end within {limit / 1e9:.3g} GB, half of the available memory; give a file"
    try:
        return _read_up_to(file, limit, excess)
    except OSError as error:
        raise DataError(f"{path}: {_reason(path, error)}") from error


class FileBytes(io.RawIOBase):
    """The bytes of a regular file as they were when it was opened, each read when it is asked for.

    Args:
        path: the file, for messages.
        file: open; whoever renames or replaces the file changes nothing here.
    """

    def __init__(self, path: Path, file: io.FileIO) -> None:
        super().__init__()
        self.path = path
        self._file = io.FileIO(os.dup(file.fileno()), "rb")
        status = os.fstat(self._file.fileno())
        self._size = status.st_size
        self._changed = status.st_mtime_ns
        self._at = 0  # of the stream

    def __len__(self) -> int:
        """Number of bytes."""
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        """Return some bytes.

        Raises:
            DataError: the file has been cut short, or cannot be read.
        """
        start, stop, _ = part.indices(self._size)
        data = b""
        while len(data) < stop - start:  # Linux gives 2 GB at a time, at most
            try:
                step = os.pread(self._file.fileno(), stop - start - len(data), start + len(data))
            except OSError as error:
                raise DataError(f"{self.path}: {_reason(self.path, error)}") from error
            if not step:
                raise self._shortened()
            data = data + step if data else step
        return data

    def find(self, wanted: bytes, start: int = 0, stop: int | None = None) -> int:
        """Return the place of the first occurrence between two places, or -1; as ``bytes.find``."""
        stop = self._size if stop is None else min(stop, self._size)
        step = 2**12  # the next newline is near, mostly
        while start < stop:
            end = min(start + step, stop)
            index = self[start:end].find(wanted)
            if index >= 0:
                return start + index
            # What is wanted may lie across two steps.
            start = end if end == stop else end - len(wanted) + 1
            step = min(4 * step, _STEP)
        return -1

    def whole(self) -> bytes:
        """Return all bytes; those of a file that grows meanwhile up to the end of its last whole line.

        Raises:
            DataError: the file is written anew or cut short meanwhile, or is larger than the memory at hand.
        """
        limit = memory_at_hand()
        if self._size > limit:
            raise DataError(
                f"{self.path}: has {self._size / 1e9:.3g} GB, and {limit / 1e9:.3g} GB of memory are free; keep "
                "only the columns that are needed, or read it in parts"
            )
        data = self[:]
        return data[: data.rfind(b"\n") + 1] if self.has_grown() else data

    def has_grown(self) -> bool:
        """Return whether somebody has appended to the file since it was opened, so that its last line may be half one.

        Raises:
            DataError: it has been cut short or written anew.
        """
        status = os.fstat(self._file.fileno())
        if status.st_size < self._size:
            raise self._shortened()
        if status.st_size == self._size and status.st_mtime_ns != self._changed:
            raise DataError(f"{self.path}: was written to while it was read; wait until it is complete")
        return status.st_size > self._size

    def readable(self) -> bool:
        """Return that it can be read as a stream."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read on as a stream."""
        step = self[self._at : self._at + len(buffer)]
        buffer[: len(step)] = step
        self._at += len(step)
        return len(step)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def stream(self) -> io.BufferedReader:
        """Return a new stream over all bytes."""
        raw = FileBytes(self.path, self._file)
        raw._size = self._size
        return io.BufferedReader(raw, _STEP)

    def _shortened(self) -> DataError:
        return DataError(
            f"{self.path}: was cut short while it was read (is it a log that is being rotated?); try again, or read a "
            "copy"
        )


def contains(data: bytes | FileBytes, pattern: re.Pattern[bytes]) -> bool:
    """Return whether a pattern that matches few bytes occurs; in a file it may also match what a step cut off."""
    if isinstance(data, bytes):
        return pattern.search(data) is not None
    # Steps overlap by more than the pattern matches, so that none is missed between them.
    steps = (data[max(low - _OVERLAP, 0) : low + _STEP] for low in range(0, len(data), _STEP))
    return any(pattern.search(step) for step in steps)


def is_regular(file: io.FileIO) -> bool:
    """Return whether an open file is one on a disk."""
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        return f"is a link to {path.readlink()}, which does not exist; check the name"
    return _REASONS.get(type(error)) or getattr(error, "strerror", None) or str(error)


def _open_pipe(path: Path) -> int:
    """Open a pipe for reading once somebody has opened it for writing.

    Raises:
        DataError: nobody does within ``PIPE_WAIT`` seconds.
        OSError: it cannot be opened.
    """
    opened: list[int | OSError] = []

    def wait() -> None:
        try:
            opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            opened.append(error)

    # Opening a pipe for reading blocks until it has a writer, and no time limit can be given.
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(PIPE_WAIT)
    nobody = not opened
    if nobody:  # be the writer for a moment, so that the thread ends
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        thread.join()
    (descriptor,) = opened
    if isinstance(descriptor, OSError):
        raise descriptor
    if nobody:
        os.close(descriptor)
        raise DataError(f"{path}: is a pipe without a writer; start its writer first, or give a file")
    return descriptor


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
    # A folder whose lock is free was left behind by a process that was killed.
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


def flush(path: Path) -> None:
    """See to it that a file or the names in a folder are on the disk."""
    # A folder has no Python file, but a descriptor.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
