"""The parts of a log that is prepared: events hashed by sequence, each part brought in order of its sequences alone.

Events come in batches. A batch is written with the events of part 0 first, then those of part 1, …, each part in the
order of the log; a part is then read from all batches, and put sequence after sequence in order of first arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids, Index, Times, ranges
from ensue.data.sequences.dataset import first_arrival
from ensue.data.sequences.slices import read_numbers, read_texts, write_slices

_SEED = 28
_NAMES = 2**15
"""Names of sequences in a slice."""


@dataclass(frozen=True)
class Part:
    """Whole sequences, in order of first arrival; the events of each in the order of the log."""

    first: Index
    """(sequences,) the row of the log with the first event of each, rising."""
    lengths: Index
    """(sequences,) number of events of each."""
    names: pl.Series
    """(sequences,) whole numbers or texts."""
    values: Ids
    """(events,) numbers of the values."""
    times: Times
    """(events,) as in the log, or empty."""


def parted(events: pl.DataFrame, bits: int) -> tuple[pl.DataFrame, list[int]]:
    """Events in order of their parts, and where each of the 2 ** ``bits`` parts begins, the end last.

    Args:
        events: (events,) a column ``session`` and others.
        bits: of the hash that choose the part, at most 16.
    """
    if not bits:
        return events, [0, len(events)]
    part = (_hash(events["session"]) >> np.uint64(64 - bits)).astype(np.uint16)
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=1 << bits))
    return events[order], [0, *ends.tolist()]


def ordered(events: pl.DataFrame) -> Part:
    """The sequences of a part.

    Args:
        events: (events,) ``session``, ``item``, ``row`` and maybe ``time``, in the order of the log.
    """
    sequences = events["session"]
    # Hash and place in one number: sorting it brings equal sequences together and keeps their order, see `group`.
    bits = max(1, (len(events) - 1).bit_length())
    packed = _hash(sequences) << np.uint64(bits)
    packed |= np.arange(len(events), dtype=np.uint64)
    packed = pl.Series(packed).sort(multithreaded=False).to_numpy()  # a third of the time that NumPy takes
    places = (packed & np.uint64((1 << bits) - 1)).astype(np.int64)
    hashes = packed >> np.uint64(bits)
    begins = np.ones(len(events), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=begins[1:])
    together = sequences.gather(places)
    changes = together[1:] != together[:-1]
    if (changes.to_numpy() != begins[1:]).any():  # two sequences with one hash
        owners, _ = first_arrival(sequences.cast(pl.String).cast(pl.Categorical))
        places = np.argsort(owners, kind="stable")
        begins[1:] = np.diff(owners[places]) != 0
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(events)))
    order = _rising(places[starts], len(events))
    starts, lengths = starts[order], lengths[order]
    heads = places[starts]
    places = places[ranges(starts, lengths)]
    timed = "time" in events.columns
    return Part(
        events["row"].to_numpy()[heads],
        lengths,
        sequences.gather(heads),
        events["item"].to_numpy()[places],
        events["time"].to_numpy()[places] if timed else np.empty(0),
    )


def write_part(place: Path, part: Part) -> None:
    """Write a part as columns beside each other, ``PLACE.first`` and so on."""
    part.first.tofile(place.with_suffix(".first"))
    part.lengths.astype(np.int64).tofile(place.with_suffix(".lengths"))
    part.values.tofile(place.with_suffix(".values"))
    part.times.tofile(place.with_suffix(".times"))
    ends = [*range(0, len(part.names), _NAMES), len(part.names)]
    np.array(write_slices(place.with_suffix(".names"), part.names, ends)).tofile(place.with_suffix(".places"))


class PartReader:
    """A part that is read from its begin to its end, some sequences at a time.

    Args:
        place: where it was written.
        timed: whether its events have times.
        numbers: whether its names are whole numbers.
    """

    def __init__(self, place: Path, *, timed: bool, numbers: bool) -> None:
        self._place, self._timed, self._numbers = place, timed, numbers
        self._sequence = self._event = self._chunk = 0
        self._names = pl.Series(dtype=pl.String)
        self._places = [] if numbers else np.fromfile(self._file(".places"), np.int64).tolist()
        empty = not self._file(".first").stat().st_size
        self._first = np.empty(0, np.int64) if empty else np.memmap(self._file(".first"), np.int64, "r")

    def until(self, row: int) -> Part:
        """The next sequences, all that begin before a row of the log."""
        low = self._sequence
        high = low + int(np.searchsorted(self._first[low:], row))
        lengths = read_numbers(self._file(".lengths"), np.int64, low, high)
        begin, end = self._event, self._event + int(lengths.sum())
        values = read_numbers(self._file(".values"), np.int32, begin, end)
        times = read_numbers(self._file(".times"), np.float64, begin, end) if self._timed else np.empty(0)
        self._sequence, self._event = high, end
        return Part(np.array(self._first[low:high]), lengths, self._take(low, high), values, times)

    def _take(self, low: int, high: int) -> pl.Series:
        """The names of the next sequences."""
        if self._numbers:
            return pl.Series(read_numbers(self._file(".names"), np.int64, low, high))
        while len(self._names) < high - low:
            more = read_texts(self._file(".names"), *self._places[self._chunk : self._chunk + 2])
            self._names, self._chunk = pl.concat([self._names, more]), self._chunk + 1
        taken, self._names = self._names[: high - low], self._names[high - low :]
        return taken

    def _file(self, suffix: str) -> Path:
        return self._place.with_suffix(suffix)


def merged(parts: Sequence[Part]) -> Part:
    """Sequences of several parts as one, in order of first arrival."""
    first = np.concatenate([part.first for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    starts = np.cumsum(lengths) - lengths
    order = _rising(first, 4 * int(lengths.sum()))
    events = ranges(starts[order], lengths[order])
    times = np.concatenate([part.times for part in parts])
    return Part(
        first[order],
        lengths[order],
        pl.concat([part.names for part in parts]).gather(order),
        np.concatenate([part.values for part in parts])[events],
        times[events] if len(times) else times,
    )


def _rising(numbers: Index, room: int) -> Index:
    """The order in which distinct numbers rise; those that lie within ``room`` of each other are put in their places.

    Of 5 2 6 the places from 2 on are 1 - - 0 2, and the order is 1 0 2.
    """
    if not len(numbers):
        return numbers
    least = int(numbers.min())
    span = int(numbers.max()) + 1 - least
    if span > room:
        return np.argsort(numbers)
    places = np.full(span, -1, np.int64)
    places[numbers - least] = np.arange(len(numbers))
    return places[places >= 0]


def _hash(sequences: pl.Series) -> npt.NDArray[np.uint64]:
    return sequences.hash(_SEED).to_numpy()
