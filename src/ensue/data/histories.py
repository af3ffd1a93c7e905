"""Many histories as columns: flat ids, flat times, offsets. No Python object per event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypedDict, TypeVar, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_fraction, require_records
from ensue.errors import DataError
from ensue.lines import listed
from ensue.records import History
from ensue.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary

CATEGORY = "category"
TEXT = "text"
NUMBER = "number"
TIME = "time"
IGNORE = "ignore"
KINDS = (CATEGORY, TEXT, NUMBER, TIME, IGNORE)


@dataclass(frozen=True, eq=False)
class Items:
    """Features of items.

    Attributes:
        ids: one id per item, each once.
        columns: one column of texts per feature, by its name; empty cells are null.
        kinds: the type of each feature, one of ``KINDS``.
        title: name of the column that names an item for people, or nothing.
        id_column: name of the column of ids.
        left_out: names of columns that are no feature: all their values differ, or all cells are empty.
    """

    ids: pl.Series
    columns: pl.DataFrame
    kinds: Mapping[str, str]
    title: str = ""
    id_column: str = ""
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of items."""
        return len(self.ids)

    def titles(self) -> dict[str, str]:
        """Return the title of each item that has one, by id."""
        if not self.title:
            return {}
        pairs = zip(self.ids.to_list(), self.columns[self.title].to_list(), strict=True)
        return {item: title for item, title in pairs if title}

    def filter(self, mask: pl.Series) -> Items:
        """Return the items that a mask keeps."""
        return replace(self, ids=self.ids.filter(mask), columns=self.columns.filter(mask))

    def merge(self, newer: Items) -> Items:
        """Return these items and newer ones; where both know an item, the newer row counts.

        Raises:
            DataError: the newer table lacks a column.
        """
        if missing := [name for name in self.kinds if name not in newer.columns.columns]:
            raise DataError(f"items: the table lacks {listed(missing)}, which the model was trained with")
        is_older = ~self.ids.is_in(newer.ids.implode())
        # Columns that only the newer table has are left out: the model knows no type of theirs.
        ids = pl.concat([self.ids.filter(is_older), newer.ids])
        columns = pl.concat([self.columns.filter(is_older), newer.columns.select(self.columns.columns)])
        return replace(self, ids=ids, columns=columns)


Ids = npt.NDArray[np.int32]
Times = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)
_NAMELESS = pl.Series(dtype=pl.String)
_EVENT_COLUMNS = ("ids", "times", "kinds", "weights", "propensities")
"""Columns of :class:`Histories` with one entry per event, or none at all."""


@dataclass(frozen=True, eq=False)
class Negatives:
    """Items that were shown or disliked before an event, in place of which its item was chosen.

    Attributes:
        ids: (negatives,) items, event after event.
        offsets: (events + 1,) those of event ``i`` are ``ids[offsets[i]:offsets[i + 1]]``.
    """

    ids: Ids
    offsets: Index

    def take(self, events: Index) -> Negatives:
        """Return the negatives of some events, (events,) positions."""
        _, entries = entries_of(self.offsets, events)
        return Negatives(self.ids[entries], offsets_of(np.diff(self.offsets)[events]))


class EventColumns(TypedDict, total=False):
    """Fields of :class:`Histories` that concern single events."""

    ids: Ids
    times: Times
    kinds: npt.NDArray[np.int16]
    kind_names: tuple[str, ...]
    weights: npt.NDArray[np.float64]
    propensities: npt.NDArray[np.float64]
    negatives: Negatives


@dataclass(frozen=True, eq=False)
class Histories:
    """Histories in columns.

    Attributes:
        ids: (events,) ids in ``vocabulary``, history after history, oldest event first.
        offsets: (histories + 1,) history ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.
        vocabulary: the values behind the ids.
        times: (events,) seconds, non-decreasing within a history; or empty where the data has no clock.
        names: one id a history, or empty.
        items: features of items, if there is a table of them.
        kinds: (events,) the kind of each event, a position in ``kind_names``; or empty.
        kind_names: kinds of events, such as view and purchase.
        weights: (events,) the weight of each event; or empty where every one is 1.
        propensities: (events,) the probability with which the item was shown; or empty.
        negatives: items that the events were preferred to, if any are known.

    Example:
        >>> from ensue import History
        >>> from ensue.data.histories import Histories
        >>> histories = Histories.of([History(("ann", "bob")), History(("bob",))])
        >>> len(histories), histories.lengths.tolist(), histories.record(1).values
        (2, [2, 1], ('bob',))
    """

    ids: Ids
    offsets: Index
    vocabulary: Vocabulary
    times: Times = field(default_factory=lambda: np.empty(0, np.float64))
    names: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.String))
    items: Items | None = None
    kinds: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    kind_names: tuple[str, ...] = ()
    weights: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    propensities: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    negatives: Negatives | None = None

    def __len__(self) -> int:
        """Number of histories."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Index:
        """(histories,) number of events of each."""
        return np.diff(self.offsets)

    @property
    def timed(self) -> bool:
        """Return whether the events carry times."""
        return len(self.times) > 0

    @classmethod
    def of(cls, records: Iterable[History], vocabulary: Vocabulary | None = None) -> Histories:
        """Columns of a few records; their values get ids of a new vocabulary unless one is given.

        Times are kept only if every non-empty record has them.
        """
        rows = require_records(records, History)
        flat = [value for record in rows for value in record.values]
        shared = Vocabulary(flat) if vocabulary is None else vocabulary
        lengths = np.array([len(record.values) for record in rows], np.int64)
        names = [record.id for record in rows]
        timed = all(record.times for record in rows if record.values)
        times = np.array([t for record in rows for t in record.times] if timed else [], np.float64)
        return cls(
            shared.ids(flat),
            offsets_of(lengths),
            shared,
            times,
            pl.Series(names, dtype=pl.String) if any(names) else _NAMELESS,
        )

    def record(self, index: int) -> History:
        """Return one history as a record.

        Events that :meth:`encode` made ``UNKNOWN`` have no value any more: they are left out with their times.
        """
        events = slice(self.offsets[index], self.offsets[index + 1])
        ids = self.ids[events]
        in_vocabulary = ids >= FIRST
        values = tuple(map(self.vocabulary.value, ids[in_vocabulary].tolist()))
        times = tuple(self.times[events][in_vocabulary].tolist()) if self.timed else ()
        return History(values, times, self.names[index] if len(self.names) else "")

    def records(self) -> Iterator[History]:
        """All histories as records, one at a time."""
        return (self.record(index) for index in range(len(self)))

    def select(self, chosen: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Histories:
        """The chosen histories, in the order chosen; most of them in a row are no copy."""
        all_rows = np.arange(len(self))
        index = all_rows[chosen]
        if np.array_equal(index, all_rows):
            return self
        # A run of rows is a view of the columns; a few rows of many are copied, so that the others can be freed.
        if 2 * len(index) > len(self) and (np.diff(index) == 1).all():
            return self._run(int(index[0]), int(index[-1]) + 1)
        lengths = self.lengths[index]
        offsets = offsets_of(lengths)
        names = self.names.gather(index) if len(self.names) else self.names
        return replace(self, offsets=offsets, names=names, **self.columns(ranges(self.offsets[index], lengths)))

    def columns(self, events: Index | npt.NDArray[np.bool_] | slice) -> EventColumns:
        """Return all columns of some events, by name, for :func:`dataclasses.replace`."""
        stored = {name: getattr(self, name) for name in _EVENT_COLUMNS}
        selected_columns = cast(EventColumns, {name: column[events] for name, column in stored.items() if len(column)})
        if self.negatives is not None:
            selected_columns["negatives"] = self.negatives.take(np.arange(len(self.ids))[events])
        return selected_columns

    def _run(self, first: int, end: int) -> Histories:
        """Histories that stand beside each other, in the pages in which they stand."""
        low, high = self.offsets[[first, end]].tolist()
        offsets = self.offsets[first : end + 1] - low
        return replace(self, offsets=offsets, names=self.names[first:end], **self.columns(slice(low, high)))

    def keep(self, events: npt.NDArray[np.bool_]) -> Histories:
        """Return the histories without the events that are ``False`` (some may become empty).

        Of the events 1 0 1 | 0 1 the running sums are 0 1 1 2 2 3; those at the offsets 0 3 5 are the new ones, 0 2 3.
        """
        if events.all():
            return self
        ends = np.concatenate([[0], np.cumsum(events)])
        return replace(self, offsets=ends[self.offsets].astype(np.int64), **self.columns(events))

    def encode(self, vocabulary: Vocabulary, *, drop_unknown: bool = False, number_unknown: bool = False) -> Histories:
        """Return the histories in the ids of another vocabulary.

        A value that the other vocabulary lacks becomes ``UNKNOWN``, or is dropped together with its time; with
        ``number_unknown`` it gets an id beyond that vocabulary, from its length on in the order of this one.
        """
        recoded = self
        if vocabulary is not self.vocabulary:
            # One look-up an event: table[5] is the other id of the value that has id 5 here.
            table = np.concatenate([[PADDING, UNKNOWN], vocabulary.ids(self.vocabulary.values)]).astype(np.int32)
            if number_unknown:
                unknown = table == UNKNOWN
                unknown[UNKNOWN] = False
                table[unknown] = len(vocabulary) + np.arange(unknown.sum())
            same = np.array_equal(table, np.arange(len(table)))  # what is mapped stays mapped
            ids = self.ids if same else table[self.ids]
            negatives = self.negatives and replace(self.negatives, ids=table[self.negatives.ids])
            recoded = replace(self, ids=ids, vocabulary=vocabulary, negatives=negatives)
        return recoded.keep(recoded.ids != UNKNOWN) if drop_unknown else recoded

    def sequence_index(self) -> Index:
        """(events,) the index of the history each event belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def is_followed(self) -> npt.NDArray[np.bool_]:
        """(events - 1,) whether each event and the next one belong to the same history."""
        followed = np.ones(max(len(self.ids) - 1, 0), np.bool_)
        # The event before the first one of a history ends another; the first history has none before it.
        starts = self.offsets[(self.offsets > 0) & (self.offsets < len(self.ids))]
        followed[starts - 1] = False
        return followed


def concat_histories(first: Histories, second: Histories) -> Histories:
    """Return histories one after the other, without names and kinds.

    If either is timed, the other gets time 0; if either is weighted, the other gets weight 1.

    Args:
        first: encoded histories.
        second: more, in the same vocabulary.
    """
    times = np.empty(0)
    if first.timed or second.timed:
        times = np.concatenate([log.times if log.timed else np.zeros(len(log.ids)) for log in (first, second)])
    # The second histories begin where the first end: 0 2 3 and 0 4 give 0 2 3 7.
    offsets = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    joined = Histories(np.concatenate([first.ids, second.ids]), offsets, first.vocabulary, times)
    if len(first.weights) or len(second.weights):
        weights = [log.weights if len(log.weights) else np.ones(len(log.ids)) for log in (first, second)]
        joined = replace(joined, weights=np.concatenate(weights))
    if first.negatives is None and second.negatives is None:
        return joined
    negatives = [
        log.negatives or Negatives(log.ids[:0], np.zeros(len(log.ids) + 1, np.int64)) for log in (first, second)
    ]
    lengths = np.concatenate([np.diff(each.offsets) for each in negatives])
    return replace(joined, negatives=Negatives(np.concatenate([each.ids for each in negatives]), offsets_of(lengths)))


def is_prefix(histories: Histories, short: Index, long: Index) -> npt.NDArray[np.bool_]:
    """Return (pairs,) whether one history begins another: as many events or fewer, and the same ones.

    Args:
        histories: all of them.
        short: (pairs,) the index of one; none of them empty.
        long: (pairs,) the index of the other.
    """
    lengths = histories.lengths
    mask = lengths[short] <= lengths[long]
    pairs = np.flatnonzero(mask)
    if len(pairs):
        shared = lengths[short[pairs]]
        first, second = (histories.ids[ranges(histories.offsets[rows[pairs]], shared)] for rows in (short, long))
        # One truth per pair: of pairs that share 2 and 3 events, those from 0 to 1 and from 2 to 4 are joined.
        mask[pairs] = np.logical_and.reduceat(first == second, np.cumsum(shared) - shared)
    return mask


def keys_of(histories: Histories) -> list[bytes]:
    """Return the ids and the times of each history as bytes; without a clock every time is 0."""
    times = histories.times if histories.timed else np.zeros(len(histories.ids))
    ids, bounds = histories.ids.astype(np.int32), histories.offsets.tolist()
    return [ids[low:high].tobytes() + times[low:high].tobytes() for low, high in pairwise(bounds)]


def ranges(starts: Index, lengths: Index) -> Index:
    """All the ranges ``start, start + 1, …`` of the given lengths, one after the other, without a loop.

    Of starts 5 0 and lengths 2 3 it is 5 6 | 0 1 2: the count 0 1 2 3 4, moved by 5 for the first two and by -2 for
    the others.
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def entries_of(offsets: Index, rows: Index) -> tuple[Index, Index]:
    """(entries,) which of some rows each entry is of, and its place: row r has those from offsets[r] to offsets[r + 1].

    For instance with offsets [0 2 2 5] the rows [2 0] have owners [0 0 0 1 1] and places [2 3 4 0 1].
    """
    starts = offsets[rows]
    lengths = offsets[rows + 1] - starts
    return np.repeat(np.arange(len(rows)), lengths), ranges(starts, lengths)


_INCREMENT, _LAST_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(31)
_MIXERS = tuple(
    (np.uint64(shift), np.uint64(factor)) for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
)


def scrambled(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A well mixed 64-bit number for each number: splitmix64 (Steele, Lea & Flood 2014)."""
    mixed = numbers + _INCREMENT
    # In place: of few numbers, new arrays take longer than the arithmetic.
    for shift, factor in _MIXERS:
        mixed ^= mixed >> shift
        mixed *= factor
    mixed ^= mixed >> _LAST_SHIFT
    return mixed


def offsets_of(lengths: npt.NDArray[np.bool_ | np.integer] | list[int]) -> Index:
    """(lengths + 1,) where each of some parts begins, and the end of all: of lengths 2 3, 0 2 5."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def distinct_texts(texts: pl.Series) -> tuple[pl.Series, Index]:
    """Return the distinct texts in order of first arrival, and the index of each text among them, 0 where it is null.

    Args:
        texts: (texts,) texts or categories.
    """
    categories = texts.cast(pl.Categorical)
    distinct = categories.drop_nulls().unique(maintain_order=True)
    physical, codes = (column.to_physical().fill_null(0).to_numpy() for column in (categories, distinct))
    # Categories may be numbered by an earlier file: of the physical codes 7 4 7 the table says 4 -> 1 and 7 -> 0.
    table = np.zeros(int(physical.max(initial=0)) + 1, np.int64)
    table[codes] = np.arange(len(codes))
    return distinct.cast(pl.String), table[physical]


def distinct_numbers(numbers: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct numbers in ascending order; ``np.unique`` hashes, which takes up to 100 times as long."""
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that histories can be put in order of their start."""


def dated(histories: Histories) -> bool:
    """Return whether the clock is one for all histories."""
    return histories.timed and float(histories.times.min()) > DATED


def is_later(later: Histories, earlier: Histories) -> bool:
    """Return whether no history of ``later`` starts before the last one of ``earlier``.

    Without times that count from 1970, the order in which both were given decides; with times on one side alone,
    nothing does.
    """
    if later.timed != earlier.timed:
        return False
    if not (dated(later) and dated(earlier)):
        return True
    starts, earlier_starts = (log.times[log.offsets[:-1][log.lengths > 0]] for log in (later, earlier))
    return bool(starts.min() >= earlier_starts.max())


def append_histories(first: Histories, second: Histories) -> Histories:
    """Return histories one after the other, in a vocabulary of the items of both."""
    vocabulary = Vocabulary(first.vocabulary.values)
    vocabulary.add(second.vocabulary.values)
    return concat_histories(first.encode(vocabulary), second.encode(vocabulary))


def hold_out(histories: Histories, share: float = 0.1, *, by_time: bool = True) -> tuple[Histories, Histories, str]:
    """Split off the last histories: by the time of their first event, or as they stand.

    Args:
        histories: at least two.
        share: part to hold out, between 0 and 1; at least one history stays on either side.
        by_time: whether to go by time. Pass ``SequencesReport.absolute``: clocks that start anew with every history
            order nothing. Without times the order is the file's.

    Returns:
        The histories to train on, those held out (both in their former order), and the rule for the protocol card.

    Raises:
        DataError: fewer than two histories.
        SettingError: a share outside (0, 1).
    """
    require_fraction(share, "share")
    if len(histories) < 2:
        raise DataError(f"{len(histories)} history cannot be split in two; give at least 2")
    num_held = min(max(round(share * len(histories)), 1), len(histories) - 1)  # one stays on either side
    order = np.arange(len(histories))
    timed = by_time and histories.timed and bool((histories.lengths > 0).all())
    if timed:
        order = np.argsort(histories.times[histories.offsets[:-1]], kind="stable")
    # Both keep the order of the file.
    train = histories.select(np.sort(order[:-num_held]))
    held_out = histories.select(np.sort(order[-num_held:]))
    rule = "by start time" if timed else "in file order"
    return train, held_out, f"the last {num_held} of {len(histories)} {rule}"


def hold_groups(labels: Index, owners: Index, quotas: Index, generator: np.random.Generator) -> Mask:
    """Return (rows,) whether each row is held out: whole groups in random order, each if its labels have room for it.

    Args:
        labels: (rows,) label of each row, from 0.
        owners: (rows,) group of each row, from 0; at least two groups.
        quotas: (labels,) rows of each label to hold out at most; the smallest group is held out where none has room.
        generator: draws the order of the groups.
    """
    members = np.split(np.argsort(owners, kind="stable"), np.cumsum(np.bincount(owners))[:-1])
    order = generator.permutation(len(members))
    held_out = np.zeros(len(labels), bool)
    num_free = quotas.copy()
    for group in order:
        counts = np.bincount(labels[members[group]], minlength=len(quotas))
        if (counts <= num_free).all():
            num_free -= counts
            held_out[members[group]] = True
    if not held_out.any():
        # No group is small enough: take the smallest that leaves every label a row, or else the smallest.
        totals = np.bincount(labels)
        emptied = [int((np.bincount(labels[rows], minlength=len(totals)) == totals).sum()) for rows in members]
        held_out[members[min(order, key=lambda group: (emptied[group], len(members[group])))]] = True
    return held_out
