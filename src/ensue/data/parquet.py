"""How much a Parquet file says it holds, read from its footer before any of it is unpacked."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from ensue.errors import DataError

# Fields of the format's FileMetaData and RowGroup, which are Thrift's compact protocol.
_ROW_GROUPS, _TOTAL_BYTE_SIZE = 4, 2
_DEEPEST = 20


def require_small(path: Path, data: bytes | mmap.mmap, limit: int, advice: str) -> None:
    """Refuse a file whose row groups unpack to too much; what has no readable footer is left to polars to refuse.

    Args:
        path: the file, for messages.
        data: its bytes.
        limit: bytes that it may unpack to.
        advice: what an error adds where there are more.

    Raises:
        DataError: more than the limit.
    """
    (length,) = struct.unpack("<i", data[-8:-4]) if len(data) > 12 else (0,)
    if not 0 < length <= len(data) - 12:
        return
    footer = _Footer(data[-8 - length : -8])
    try:
        footer.read_struct((), 0)
    except (IndexError, RecursionError):
        return
    if footer.total > limit:
        raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")


class _Footer:
    """A walk over the fields of the footer; ``total`` counts what its row groups hold."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.total = data, 0, 0

    def read_struct(self, place: tuple[int, ...], deep: int) -> None:
        """Every field of a struct; ``place`` are the numbers of the fields that lead to it."""
        if deep > _DEEPEST:
            raise RecursionError
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else _signed(self._varint())
            self._read(head & 15, (*place, field), deep)

    def _read(self, kind: int, place: tuple[int, ...], deep: int) -> None:
        if kind in (4, 5, 6):  # whole numbers
            number = _signed(self._varint())
            self.total += max(number, 0) * (place == (_ROW_GROUPS, _TOTAL_BYTE_SIZE))
        elif kind == 8:  # bytes
            length = self._varint()
            self.at += length
        elif kind in (9, 10):  # lists and sets
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._read_element(head & 15, place, deep)
        elif kind == 12:
            self.read_struct(place, deep + 1)
        elif kind in (3, 7):
            self.at += 1 if kind == 3 else 8
        elif kind not in (1, 2):  # a truth has no bytes of its own; maps do not occur
            raise IndexError

    def _read_element(self, kind: int, place: tuple[int, ...], deep: int) -> None:
        if kind in (1, 2):
            self._byte()
        else:
            self._read(kind, place, deep + 1)

    def _byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 70:
                raise IndexError


def _signed(number: int) -> int:
    """Thrift's zigzag, where 0, 1, 2, 3 stand for 0, -1, 1, -2."""
    return number >> 1 ^ -(number & 1)
