"""Number of texts that hold each term, counted a block of texts at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.text.terms import Keys

_TEXTS, _CHARACTERS = 1 << 14, 1 << 22
"""Maximum number of texts and of characters per block; a single text may be longer."""
_MERGED = 1 << 20
"""Terms that wait before they are sorted into the others; more wait where there are more of these."""


class Frequencies(NamedTuple):
    """(terms,) sorted terms, and the number of ``num`` texts that hold each."""

    terms: Keys
    seen: Index
    num: int

    @classmethod
    def of(cls, texts: pl.Series, keys_of: Callable[[pl.Series], Keys]) -> Frequencies:
        """Count a column.

        Args:
            texts: (texts,).
            keys_of: the terms of some texts, each as often as texts hold it.
        """
        total = cls(np.empty(0, np.uint64), np.empty(0, np.int64), 0)
        pending = []
        for block in _blocks(texts):
            # Merging is a sort, so several blocks are merged at once.
            pending.append(cls(*np.unique(keys_of(block), return_counts=True), len(block)))
            if sum(len(table.terms) for table in pending) > max(_MERGED, len(total.terms)):
                total = total.joined(*pending)
                pending = []
        return total.joined(*pending)

    def joined(self, *others: Frequencies) -> Frequencies:
        """Return the table of all texts together; 3 7 seen 1 1 and 7 9 seen 2 1 are 3 7 9 seen 1 3 1."""
        tables = [table for table in (self, *others) if len(table.terms)]
        num = sum(table.num for table in (self, *others))
        if len(tables) < 2:  # as it is, so that several may hold one table
            return (tables[0] if tables else self)._replace(num=num)
        terms, seen = (np.concatenate(column) for column in list(zip(*tables, strict=True))[:2])
        # A term of several tables is summed up over its run in the sorted terms.
        order = np.argsort(terms, kind="stable")  # of parts that are sorted it is a merge
        terms = terms[order]
        starts = np.flatnonzero(np.append(True, terms[1:] != terms[:-1]))
        return Frequencies(terms[starts], np.add.reduceat(seen[order], starts), num)


def _blocks(texts: pl.Series) -> Iterator[pl.Series]:
    low = 0
    ends = np.cumsum(texts.str.len_chars().fill_null(0).to_numpy().astype(np.int64))
    while low < len(texts):
        # A block ends at the number of texts or of characters, whichever comes first.
        done = ends[low - 1] if low else 0
        high = max(low + 1, min(low + _TEXTS, int(np.searchsorted(ends, done + _CHARACTERS, side="right"))))
        yield texts[low:high]
        low = high
