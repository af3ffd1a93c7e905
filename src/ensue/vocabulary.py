"""Values and their ids: padding is 0, unknown is 1, the values follow in order of arrival."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, compress, repeat

import numpy as np
import numpy.typing as npt
import polars as pl

PADDING = 0
UNKNOWN = 1
FIRST = 2
MANY, LARGE = 256, 2**16
"""So many values are looked up among so many by their hashes: each look-up in a large table waits for memory thrice."""


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
        before = len(self._values)
        for value in values:
            if value not in self._ids:
                self._ids[value] = len(self._values) + FIRST
                self._values.append(value)
        return len(self._values) - before

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

    def known_each(self, lists: Sequence[Collection[str]]) -> list[npt.NDArray[np.int64]]:
        """Of each of some lists the ids of the values that ever arrived, each once and rising.

        Of many values hashes of 64 bits are compared: that one is mistaken for another of a million has a chance of
        one in 10^13.
        """
        ids, ends = self._ids_by_hash(lists), np.cumsum([len(one) for one in lists])
        rising = [np.sort(part[part >= FIRST]) for part in np.split(ids, ends[:-1])] if lists else []
        return [part[np.diff(part, prepend=PADDING) > 0].astype(np.int64) for part in rising]

    def _ids_by_hash(self, lists: Sequence[Collection[str]]) -> npt.NDArray[np.int32]:
        """(values of all lists,) ids; what never arrived has 0 or ``UNKNOWN``."""
        if sum(map(len, lists)) < MANY or len(self._values) < LARGE:
            return self.ids(chain.from_iterable(lists))
        if self._table is None or len(self._table) < 0.9 * len(self._values):
            self._table = _Hashes(_hashed([self._values]))
        ids = self._table.look_up(_hashed(lists))
        if len(self._table) < len(self._values):  # some arrived after it was made
            missing = ids == 0
            ids[missing] = self.ids(compress(chain.from_iterable(lists), missing.tolist()))
        return ids

    def ids_of(self, column: pl.Series) -> npt.NDArray[np.int32]:
        """(values,) what :meth:`ids` gives, of a long column most of which arrived; as sure as :meth:`known_each`."""
        if self._columns is None or len(self._columns) < 0.9 * len(self._values):
            self._columns = _Hashes(pl.Series(self._values, dtype=pl.String).hash().to_numpy())
        ids = self._columns.look_up(column.hash().to_numpy())
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
    """The ids of many values by their hashes, which are spread evenly: of as many buckets as values each holds few.

    Args:
        hashes: (values,) in order of their ids.
    """

    def __init__(self, hashes: npt.NDArray[np.uint64]) -> None:
        order, bits = np.argsort(hashes), len(hashes).bit_length()
        self._shift = np.uint64(64 - bits)
        self._hashes, self._ids = hashes[order], (order + FIRST).astype(np.int32)
        bounds = np.arange((1 << bits) + 1, dtype=np.uint64)
        self._starts = np.searchsorted(self._hashes >> self._shift, bounds).astype(np.int32)

    def __len__(self) -> int:
        return len(self._ids)

    def look_up(self, wanted: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """(values,) their ids, 0 for what it lacks, by their hashes."""
        found = np.zeros(len(wanted), np.int32)
        bucket = (wanted >> self._shift).astype(np.int64)
        place, end = self._starts[bucket], self._starts[bucket + 1]
        live = np.flatnonzero(place < end)
        while len(live):  # the next one of each bucket that is not done
            at = place[live]
            right = self._hashes[at] == wanted[live]
            found[live[right]] = self._ids[at[right]]
            live = live[~right]
            place[live] += 1
            live = live[place[live] < end[live]]
        return found


def _hashed(lists: Sequence[Collection[str]]) -> npt.NDArray[np.uint64]:
    hashes = map(hash, chain.from_iterable(lists))
    return np.fromiter(hashes, np.int64, sum(map(len, lists))).view(np.uint64)
