"""Size of a Parquet file as its footer and the heads of its pages state it, read before any page is unpacked.

A file may lie: what its footer announces is compared with what its pages do, for a reader makes room by both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from ensue.data.file_bytes import FileBytes
from ensue.errors import DataError

# Fields of the format's structs, which are Thrift's compact protocol.
_FILE_ROWS, _ROW_GROUPS, _COLUMNS, _META_DATA = 3, 4, 1, 3
_TOTAL_BYTE_SIZE, _GROUP_ROWS = 2, 3
_NUM_VALUES, _PACKED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_PAGE_UNPACKED, _PAGE_PACKED, _PAGE_VALUES = (2,), (3,), ((5, 1), (8, 1))
_DEEPEST = 20
_MAGIC = 4
_HEAD = 1 << 16
"""Bytes that the head of a page may take, statistics included."""


def require_small(path: Path, data: bytes | FileBytes, limit: int, advice: str) -> None:
    """Refuse a file that unpacks to too much, or announces what it does not hold.

    What has no readable footer, or a page without a readable head, is left to polars to refuse.

    Args:
        path: the file, for messages.
        data: its bytes.
        limit: bytes that it may unpack to.
        advice: what an error adds where there are more.

    Raises:
        DataError: more than the limit, or figures that contradict each other.
    """
    (length,) = struct.unpack("<i", data[-8:-4]) if len(data) > 12 else (0,)
    if not 0 < length <= len(data) - 12:
        return
    footer = _Struct(data[-8 - length : -8])
    try:
        footer.read_struct((), 0)
    except (IndexError, RecursionError):
        return
    group, column = (_ROW_GROUPS,), (_ROW_GROUPS, _COLUMNS, _META_DATA)
    unpacked = sum(max(size, 0) for size in footer.all((*group, _TOTAL_BYTE_SIZE)))
    if unpacked <= limit:
        unpacked = _pages(path, data, footer.structs(column), len(data) - 8 - length)
    if unpacked > limit:
        raise DataError(f"{path}: unpacks to more than {limit / 1e9:.3g} GB{advice}")
    announced, held = sum(footer.all((_FILE_ROWS,))), sum(footer.all((*group, _GROUP_ROWS)))
    if announced != held:
        raise DataError(f"{path}: is damaged (it announces {announced:,} rows and holds {held:,}); write it again")


def _pages(path: Path, data: bytes | FileBytes, columns: Iterator[dict[int, int]], end: int) -> int:
    """Bytes that the pages of all columns say they unpack to."""
    total = 0
    for column in columns:
        starts = [column[place] for place in (_DATA_PAGE, _DICTIONARY_PAGE) if column.get(place, 0) >= _MAGIC]
        at, size = min(starts, default=0), column.get(_PACKED_SIZE, 0)
        if at < _MAGIC or size < 0 or at + size > end:
            raise DataError(f"{path}: is damaged (a column lies outside of it); write it again")
        stop, values = at + size, 0
        while at < stop:
            head = _Struct(data[at : min(at + _HEAD, stop)])
            try:
                head.read_struct((), 0)
            except (IndexError, RecursionError):
                return total
            total += max([0, *head.all(_PAGE_UNPACKED)])
            values += sum(sum(head.all(place)) for place in _PAGE_VALUES)
            at += head.at + max([0, *head.all(_PAGE_PACKED)])
        if values != column.get(_NUM_VALUES, 0):
            raise DataError(f"{path}: is damaged (a column announces other values than its pages); write it again")
    return total


class _Struct:
    """A walk over the fields of a struct; ``numbers`` holds its whole numbers by where they stand, in their order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.numbers: list[tuple[tuple[int, ...], int]] = []

    def all(self, place: tuple[int, ...]) -> list[int]:
        """The numbers of one place, in as many structs as there are."""
        return [number for owner, number in self.numbers if owner == place]

    def structs(self, place: tuple[int, ...]) -> Iterator[dict[int, int]]:
        """The numbers of each struct of one place, by their fields, which never fall within a struct."""
        numbers: dict[int, int] = {}
        for owner, number in self.numbers:
            if owner[:-1] == place:
                if numbers and owner[-1] < max(numbers):
                    yield numbers
                    numbers = {}
                numbers[owner[-1]] = number
        if numbers:
            yield numbers

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
            self.numbers.append((place, _signed(self._varint())))
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
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 70:
                raise IndexError


def _signed(number: int) -> int:
    """Thrift's zigzag, where 0, 1, 2, 3 stand for 0, -1, 1, -2."""
    return number >> 1 ^ -(number & 1)
