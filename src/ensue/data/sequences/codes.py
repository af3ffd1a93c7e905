"""Numbers for values as they arrive, piece by piece: each distinct value is looked at as a text once."""

from __future__ import annotations

import ctypes
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids, Index
from ensue.kernels import library
from ensue.kernels.loading import CodesCall

_SPAN = 2**26
"""Whole numbers that lie this close together are looked up in a table, without a text of each."""


class Codes:
    """Values to numbers from 0 on, in order of arrival."""

    def __init__(self) -> None:
        self._values: list[pl.Series] = []
        self._taken = 0
        self.count = 0
        self._texts: _Table = _Categories() if library() is None else _Hashes()
        self._by_number = np.empty(0, np.int32)
        self._least = 0
        self._only_numbers = True
        """Whether all values so far were whole numbers, of which none is known as a text: most logs stay like that."""

    def of(self, values: pl.Series) -> Ids:
        """(values,) their numbers.

        Args:
            values: categories, whole numbers, or anything that has a text.
        """
        if values.dtype.is_integer() and values.dtype not in (pl.UInt64, pl.Int128, pl.UInt128) and self._near(values):
            places = np.subtract(values.to_numpy(), self._least, dtype=np.int64)
            codes: Ids = self._by_number[places]
            if (codes < 0).any():
                new = values.filter(codes < 0).unique(maintain_order=True)
                self._by_number[new.to_numpy().astype(np.int64) - self._least] = self._of_new(new)
                codes = self._by_number[places]
            return codes
        return self._of_texts(values)

    def _of_new(self, numbers: pl.Series) -> Ids:
        """Numbers of distinct whole numbers that come as such for the first time."""
        if not self._only_numbers:  # one of them may have come as a text
            return self._of_texts(numbers)
        self._put(numbers.cast(pl.String))
        return np.arange(self.count - len(numbers), self.count, dtype=np.int32)

    def _put(self, texts: pl.Series) -> None:
        """Texts that have none get the next numbers."""
        self._values.append(texts)
        self.count += len(texts)

    def add(self, values: pl.Series) -> None:
        """Give numbers to distinct texts that are known already to whoever keeps what is :meth:`taken`."""
        if len(values):
            self._of_texts(values)
        self._taken = len(self._values)

    def taken(self) -> pl.Series:
        """The texts that came since this was asked before, in order of their numbers."""
        new, self._taken = self._values[self._taken :], len(self._values)
        return pl.concat(new) if new else pl.Series(dtype=pl.String)

    def every(self) -> pl.Series:
        """The texts in order of their numbers."""
        return pl.concat(self._values) if self._values else pl.Series(dtype=pl.String)

    def _of_texts(self, values: pl.Series) -> Ids:
        if self._only_numbers:
            self._only_numbers = False
            if self.count:
                self._texts.of(self.every(), 0)
        codes, new = self._texts.of(values, self.count)
        self._put(new)
        return codes

    def _near(self, numbers: pl.Series) -> bool:
        """Whether whole numbers lie close enough to each other, and to those before, for a table; it is widened."""
        span = numbers.to_physical()
        low, high = int(span.min()), int(span.max()) + 1  # type: ignore[arg-type]
        if len(self._by_number):
            low, high = min(low, self._least), max(high, self._least + len(self._by_number))
        if high - low > _SPAN or low < -(2**62) or high > 2**62:
            return False
        if high - low > len(self._by_number):
            table = np.full(high - low, -1, np.int32)
            begin = self._least - low if len(self._by_number) else 0
            table[begin : begin + len(self._by_number)] = self._by_number
            self._by_number, self._least = table, low
        return True


class _Table(Protocol):
    """Texts that have numbers."""

    def of(self, values: pl.Series, count: int) -> tuple[Ids, pl.Series]:
        """(values,) their numbers, and the texts that have none before: they get the next ones, from ``count`` on."""


class _Categories:
    """By polars' categories."""

    def __init__(self) -> None:
        self._alive = pl.Series([""], dtype=pl.Categorical)
        """Categories keep their numbers as long as some column of them lives."""
        self._codes = np.full(1, -1, np.int32)

    def of(self, values: pl.Series, count: int) -> tuple[Ids, pl.Series]:
        """See :class:`_Table`."""
        if values.dtype != pl.Categorical:
            values = values.cast(pl.String).cast(pl.Categorical)
        physical = values.to_physical().to_numpy()
        if len(physical) and (short := int(physical.max()) + 1 - len(self._codes)) > 0:
            self._codes = np.concatenate([self._codes, np.full(max(short, len(self._codes)), -1, np.int32)])
        codes: Ids = self._codes[physical]
        unseen: npt.NDArray[np.bool_] = codes < 0
        new = values.filter(unseen).unique(maintain_order=True)
        if len(new):
            self._codes[new.to_physical().to_numpy()] = np.arange(count, count + len(new), dtype=np.int32)
            codes = self._codes[physical]
        return codes, new.cast(pl.String)


class _Hashes:
    """By two hashes, of 64 and of 32 bits, in a compiled table: any two of a billion texts share both once in 10^11."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << 10, _SLOT)

    def of(self, values: pl.Series, count: int) -> tuple[Ids, pl.Series]:
        """See :class:`_Table`."""
        texts, codes = values.cast(pl.String), np.empty(len(values), np.int32)
        hashes = [texts.hash(seed).to_numpy() for seed in _SEEDS]
        found, fresh, low = 0, list[Index](), 0
        while low < len(texts):
            high = min(low + _ROWS, len(texts))
            self._grow(count + found + high - low)
            rows = np.empty(high - low, np.int64)
            new = self._numbered([own[low:high] for own in hashes], codes[low:high], rows, count + found)
            fresh.append(rows[:new] + low)
            found, low = found + new, high
        return codes, texts.gather(np.concatenate(fresh)) if found else texts[:0]

    def _numbered(self, hashes: list[npt.NDArray[np.uint64]], codes: Ids, fresh: Index, count: int) -> int:
        functions, places = library(), [own.ctypes.data for own in (*hashes, self._table, codes, fresh)]
        assert functions is not None
        return int(functions.ensue_codes(ctypes.byref(CodesCall(len(codes), len(self._table), count, *places))))

    def _grow(self, most: int) -> None:
        """Make room for so many texts: no more than two of three slots are filled."""
        functions, old = library(), self._table
        if 3 * most <= 2 * len(old):
            return
        self._table = np.zeros(1 << (3 * most // 2).bit_length(), _SLOT)
        assert functions is not None
        to = CodesCall(0, len(self._table), 0, None, None, self._table.ctypes.data, None, None)
        functions.ensue_move_codes(old.ctypes.data, len(old), ctypes.byref(to))


_SEEDS = (0x9E3779B9, 0x85EBCA6B)
_ROWS = 1 << 16
"""Rows at once, so that a table is not made for texts that repeat."""
_SLOT = np.dtype([("first", np.uint64), ("rest", np.uint32), ("above", np.int32)])
"""``CodeSlot`` of ``native/kernels.h``."""
