"""Packed files unpacked as a stream: gzip, xz and Zstandard, up to a limit that a stranger's file cannot pass."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
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
SUFFIXES = (".gz", ".xz", ".zst")
MAGIC: Mapping[bytes, str] = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zst"}


def ending(path: Path) -> str:
    """``.csv`` of ``clicks.csv.gz``, in lower case."""
    name = path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
    return name.suffix.lower()


DROP, KEEP, REPORT = "drop", "keep", "report"
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
    """``gzip``, ``xz`` or ``zst`` by the first bytes of a file, or ``None``."""
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
    buffer = io.BytesIO()
    try:
        with packed, _opened(packed, kind) as stream:
            while step := stream.read(_STEP):
                buffer.write(step)
                if buffer.tell() > limit:
                    raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
    except MemoryError as error:
        raise DataError(f"{path}: needs more memory to unpack than is available; unpack it in parts") from error
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError) as error:
        raise DataError(f"{path}: the {kind} data is truncated or damaged; fetch or pack the file again") from error
    return buffer.getvalue()


def allowed(packed: int, stated: float | None) -> tuple[int, str]:
    """Bytes that a file of so many packed bytes may unpack to, and what to say of more."""
    if stated is not None:
        return int(stated * 1e9), ", as allowed by --max-unpacked; raise that if you trust the file"
    raise_it = "if you trust the file, allow more with --max-unpacked GB"
    by_size, by_memory = max(RATIO * packed, _ALWAYS), memory_at_hand() // 2
    if by_size <= by_memory:
        return by_size, f", {RATIO} times its own size or over; {raise_it}"
    return by_memory, f", half of the available memory; unpack it in parts, or {raise_it}"


def memory_at_hand() -> int:
    """Bytes that this process can still get: of the machine, of its container, of its own limit."""
    free = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 if os.name == "posix" else 4 * 2**30]
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = [int(line.split()[1]) * 1024]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        numbers = [int(line) for name in (limit, used) for line in _lines(name)[:1] if line.strip().isdigit()]
        if len(numbers) == 2:
            free.append(max(numbers[0] - numbers[1], 0))
    if sys.platform != "win32":
        import resource

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


def _opened(packed: BinaryIO, kind: str) -> io.BufferedIOBase:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=packed)
    if kind == "xz":
        return lzma.LZMAFile(packed)
    return zstd.ZstdFile(packed)
