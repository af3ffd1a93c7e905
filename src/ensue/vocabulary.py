"""Values and their ids: padding is 0, unknown is 1, the values follow in order of arrival."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain, compress, pairwise, repeat

import numpy as np
import numpy.typing as npt
import polars as pl

PADDING = 0
UNKNOWN = 1
FIRST = 2
MIN_VALUES = 256
MIN_TABLE = 2**16
"""Number of values from which on, and of a vocabulary in which, hashes are compared: a look-up in a large dictionary
waits for memory three times."""


class Vocabulary:
    """A growing two-way table of values and ids.

    Ids are stable for ever: a value that arrives later gets the next free id, so tables of weights grow at the end.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: list[str] = []
        self._ids: dict[str, int] = {}
        self._table: _Hashes | None = None
        self._columns: _Hashes | None = None
        """By hashes of polars, which takes a column at once."""
        self.add(values)

    def __len__(self) -> int:
        """Number of ids in use, padding and unknown included: the rows of an embedding table."""
        return len(self._values) + FIRST

    def __contains__(self, value: str) -> bool:
        return value in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    @property
    def values(self) -> Sequence[str]:
        """The values in order of their ids, from id 2 on."""
        return self._values

    def add(self, values: Iterable[str]) -> int:
        """Append the values that are new, in order of arrival; returns how many were."""
        num_before = len(self._values)
        for value in values:
            if value not in self._ids:
                self._ids[value] = len(self._values) + FIRST
                self._values.append(value)
        return len(self._values) - num_before

    def without(self, ids: Collection[int]) -> Vocabulary:
        """Return a copy in which some ids hold no value any more; all ids stay as they are."""
        values = list(self._values)
        for id in ids:
            values[id - FIRST] = f"forgotten:{id}"
        return Vocabulary(values)

    def id(self, value: str) -> int:
        """The value's id, or ``UNKNOWN``."""
        return self._ids.get(value, UNKNOWN)

    def ids(self, values: Iterable[str]) -> npt.NDArray[np.int32]:
        """Ids of many values, ``UNKNOWN`` where a value never arrived."""
        return np.fromiter(map(self._ids.get, values, repeat(UNKNOWN)), np.int32)

    def known_each(self, lists: Sequence[Collection[str]]) -> list[npt.NDArray[np.int32]]:
        """Return, for each list, the ids of its values that are in the vocabulary, in the order of the list.

        Many values are compared by hashes of 64 bits: the probability that a value is mistaken for one of a million
        others is 10^-13.
        """
        ids = self._ids_by_hash(lists)
        bounds = accumulate(map(len, lists), initial=0)
        of_lists = [ids[low:high] for low, high in pairwise(bounds)]
        return [list_ids[list_ids >= FIRST] for list_ids in of_lists]

    def _ids_by_hash(self, lists: Sequence[Collection[str]]) -> npt.NDArray[np.int32]:
        """Return (values of all lists,) ids; a value that is not in the vocabulary has 0 or ``UNKNOWN``."""
        if sum(map(len, lists)) < MIN_VALUES or len(self._values) < MIN_TABLE:
            return self.ids(chain.from_iterable(lists))
        if self._table is None or len(self._table) < 0.9 * len(self._values):
            self._table = _Hashes(_hashed([self._values]))
        ids = self._table.look_up(_hashed(lists))
        # Values that were added after the table was built are looked up one by one.
        if len(self._table) < len(self._values):
            missing = ids == 0
            ids[missing] = self.ids(compress(chain.from_iterable(lists), missing.tolist()))
        return ids

    def ids_of(self, column: pl.Series) -> npt.NDArray[np.int32]:
        """Return (values,) ids as :meth:`ids` does, of a long column; as reliable as :meth:`known_each`."""
        if self._columns is None or len(self._columns) < 0.9 * len(self._values):
            self._columns = _Hashes(pl.Series(self._values, dtype=pl.String).hash().to_numpy())
        ids = self._columns.look_up(column.hash().to_numpy())
        # Few values are new, or the table would have been built again.
        missing = np.flatnonzero(ids == 0)
        ids[missing] = self.ids(column.gather(missing).to_list())
        return ids

    def value(self, id: int) -> str:
        """Return the value with this id.

        Raises:
            IndexError: no value has it; padding and unknown are ids that stand for none.
        """
        if id < FIRST:
            raise IndexError(f"id {id} is a placeholder (padding or unknown) and has no value")
        return self._values[id - FIRST]


class _Hashes:
    """Ids of many values by their hashes, in as many buckets as values; hashes spread evenly, so a bucket holds few.

    Args:
        hashes: (values,) in order of their ids.
    """

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        order = np.argsort(hashes)
        # The highest bits of a hash are the number of its bucket, so sorted hashes are sorted by bucket.
        bits = len(hashes).bit_length()
        self._shift = np.uint64(64 - bits)
        self._hashes = hashes[order]
        self._ids = (order + FIRST).astype(np.int32)
        bounds = np.arange((1 << bits) + 1, dtype=np.uint64)
        self._starts = np.searchsorted(self._hashes >> self._shift, bounds).astype(np.int32)

    def __len__(self) -> int:
        return len(self._ids)

    def look_up(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """Return (values,) the ids of hashes, 0 where there is no such value."""
        ids = np.zeros(len(hashes), np.int32)
        bucket = (hashes >> self._shift).astype(np.int64)
        position = self._starts[bucket]
        end = self._starts[bucket + 1]
        live = np.flatnonzero(position < end)
        # Each round compares one more entry of every bucket whose value has not been matched.
        while len(live):
            positions = position[live]
            is_match = self._hashes[positions] == hashes[live]
            ids[live[is_match]] = self._ids[positions[is_match]]
            live = live[~is_match]
            position[live] += 1
            live = live[position[live] < end[live]]
        return ids


def _hashed(lists: Sequence[Collection[str]]) -> npt.NDArray[np.uint64]:
    hashes = map(hash, chain.from_iterable(lists))
    return np.fromiter(hashes, np.int64, sum(map(len, lists))).view(np.uint64)
