"""Numbers for values as they arrive, piece by piece: each distinct value is looked at as a text once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids

_SPAN = 2**26
"""Whole numbers that lie this close together are looked up in a table, without a text of each."""


class Codes:
    """Values to numbers from 0 on, in order of arrival."""

    def __init__(self) -> None:
        self._values: list[pl.Series] = []
        self._taken = 0
        self._alive = pl.Series([""], dtype=pl.Categorical)
        """Categories keep their numbers as long as some column of them lives."""
        self.count = 0
        self._by_category = np.full(1, -1, np.int32)
        self._by_number = np.empty(0, np.int32)
        self._least = 0
        self._only_numbers = True
        """Whether all values so far were whole numbers, of which none has a category yet: most logs stay like that."""

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
        return self._of_categories(values)

    def _of_new(self, numbers: pl.Series) -> Ids:
        """Numbers of distinct whole numbers that come as such for the first time."""
        if not self._only_numbers:  # one of them may have come as a text
            return self._of_categories(numbers)
        return self._put(numbers.cast(pl.String))

    def _put(self, texts: pl.Series) -> Ids:
        """Numbers for texts that have none."""
        self._values.append(texts)
        self.count += len(texts)
        return np.arange(self.count - len(texts), self.count, dtype=np.int32)

    def add(self, values: pl.Series) -> None:
        """Give numbers to distinct texts that are known already to whoever keeps what is :meth:`taken`."""
        if len(values):
            self._of_categories(values)
        self._taken = len(self._values)

    def taken(self) -> pl.Series:
        """The texts that came since this was asked before, in order of their numbers."""
        new, self._taken = self._values[self._taken :], len(self._values)
        return pl.concat(new) if new else pl.Series(dtype=pl.String)

    def every(self) -> pl.Series:
        """The texts in order of their numbers."""
        return pl.concat(self._values) if self._values else pl.Series(dtype=pl.String)

    def _of_categories(self, values: pl.Series) -> Ids:
        if values.dtype != pl.Categorical:
            values = values.cast(pl.String).cast(pl.Categorical)
        if self._only_numbers:
            self._only_numbers = False
            known = self._categories(self.every().cast(pl.Categorical))
            self._by_category[known] = np.arange(self.count, dtype=np.int32)
        physical = self._categories(values)
        codes: Ids = self._by_category[physical]
        unseen: npt.NDArray[np.bool_] = codes < 0
        if unseen.any():
            new = values.filter(unseen).unique(maintain_order=True)
            self._by_category[new.to_physical().to_numpy()] = self._put(new.cast(pl.String))
            codes = self._by_category[physical]
        return codes

    def _categories(self, values: pl.Series) -> npt.NDArray[np.uint32]:
        """The numbers of the categories of some values; there is room for each."""
        physical = values.to_physical().to_numpy()
        if len(physical) and (short := int(physical.max()) + 1 - len(self._by_category)) > 0:
            more = np.full(max(short, len(self._by_category)), -1, np.int32)
            self._by_category = np.concatenate([self._by_category, more])
        return physical

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
