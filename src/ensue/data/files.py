"""A file as it lies on disk: opened, unpacked by its magic bytes, and refused early where it is no text.

Line numbers are those an editor shows. They are computed only when an error needs one.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import mmap
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import polars as pl

from ensue.errors import DataError

LONGEST_LINE = 8 * 2**20
_STEP = 2**20
_HEAD = 2**18
_REASONS = {
    FileNotFoundError: "no such file; check the name",
    IsADirectoryError: "is a folder; name a file in it",
    PermissionError: "may not be read; change its permissions",
}


@dataclass(frozen=True)
class Content:
    """The bytes of a file, unpacked; a plain file stays mapped on disk."""

    path: Path
    data: bytes | mmap.mmap

    @property
    def source(self) -> Path | bytes:
        """What polars reads from; a name that it would take for a pattern of names is not shown to it."""
        if isinstance(self.data, bytes):
            return self.data
        return self.data[:] if set(str(self.path)) & set("*?[~") else self.path

    @property
    def parquet(self) -> bool:
        """Whether the file opens as Parquet does."""
        return self.data[:4] == b"PAR1"

    def head(self, count: int = 100) -> list[str]:
        """The first lines that are not empty, without their ends."""
        end = self.data.find(b"\n", _HEAD)
        lines = self.data[: end if end > 0 else None].decode("utf-8-sig", errors="replace").split("\n")
        return [line.rstrip("\r") for line in lines if line.strip()][:count]

    def lines(self) -> Iterator[tuple[int, str]]:
        """Every line with its number.

        Raises:
            DataError: at the first line that is not UTF-8.
        """
        stream = self.path.open("rb") if isinstance(self.data, mmap.mmap) else io.BytesIO(self.data)
        with stream:
            for number, line in enumerate(stream, 1):
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{self.path}:{number}: not UTF-8 text; save the file as UTF-8") from error

    def rows(self, separator: str) -> Iterator[tuple[int, list[str]]]:
        """Every CSV record, the empty ones too, with the number of the line it begins on.

        Raises:
            DataError: at the first line that is not UTF-8 or cannot be CSV.
        """
        reader = csv.reader((line for _, line in self.lines()), delimiter=separator)
        begins = 1
        try:
            for row in reader:
                yield begins, row
                begins = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{self.path}:{begins}: not CSV ({error})") from error

    def column_of_lines(self) -> pl.Series:
        """All lines as a column of texts.

        Raises:
            DataError: at the first line that is not UTF-8.
        """
        try:
            return pl.read_lines(self.source)["line"].str.strip_prefix("\ufeff")
        except pl.exceptions.ComputeError as error:
            self.refuse(error)

    def refuse(self, error: Exception) -> NoReturn:
        """Raise what polars complained about, by line if the encoding is at fault.

        Raises:
            DataError: always.
        """
        for _ in self.lines():
            pass
        raise DataError(f"{self.path}: {str(error).splitlines()[0]}") from error


def open_file(path: Path) -> Content:
    """Open a file, plain, gzip, xz or Zstandard whatever its name says.

    Raises:
        DataError: a missing, empty, truncated or binary file, or a line over 8 MiB.
    """
    data = _bytes(path)
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(path, data[:])
    elif data[:6] == b"\xfd7zXZ\x00":
        data = _unxz(path, data[:])
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        data = _unzstd(path)
    content = Content(path, data)
    if not content.parquet:
        _check_text(content)
    return content


def _bytes(path: Path) -> bytes | mmap.mmap:
    try:
        with path.open("rb") as stream:
            regular = path.is_file() and path.stat().st_size > 0
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if regular else stream.read()
    except OSError as error:
        raise DataError(f"{path}: {_REASONS.get(type(error), error.strerror)}") from error


def _gunzip(path: Path, packed: bytes) -> bytes:
    try:
        return gzip.decompress(packed)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path}: the gzip data is truncated or damaged; fetch or pack the file again") from error


def _unxz(path: Path, packed: bytes) -> bytes:
    try:
        return lzma.decompress(packed)
    except (EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path}: the xz data is truncated or damaged; fetch or pack the file again") from error


def _unzstd(path: Path) -> bytes:
    """Unpack with polars, the one Zstandard reader at hand."""
    try:
        lines = pl.read_csv(
            path,
            has_header=False,
            separator="\x01",
            quote_char=None,
            infer_schema=False,
            encoding="utf8-lossy",
            glob=False,
        )
    except pl.exceptions.NoDataError:
        return b""
    except (OSError, pl.exceptions.ComputeError) as error:
        raise DataError(f"{path}: the zst data is truncated or damaged; fetch or pack the file again") from error
    text: str = lines.to_series().fill_null("").str.join("\n").item()
    data = text.encode()
    if "\ufffd" in text:  # it stands for what is not UTF-8, unless the file itself holds it
        try:
            pl.read_lines(path, glob=False)
        except pl.exceptions.ComputeError as error:
            line = text[: text.index("\ufffd")].count("\n") + 1
            raise DataError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from error
    return data


def _check_text(content: Content) -> None:
    path, data = content.path, content.data
    if b"\0" in data[:_HEAD]:
        raise DataError(f"{path}: is binary, neither text nor Parquet; give CSV, TSV, JSON Lines, Parquet or cascades")
    for low in range(0, len(data) - LONGEST_LINE, _STEP):
        if data.find(b"\n", low, low + LONGEST_LINE) < 0:
            line = data[:low].count(b"\n") + 1
            raise DataError(f"{path}:{line}: a line is longer than 8 MiB; put one event or one sequence on a line")
    if not content.head(1):
        raise DataError(f"{path}: is empty")
