"""A summary of a column of times: by unit and year, how many there are, the first of them, the least and the greatest.

The unit of a column and the events that lie years apart from the others are judged by it, whether the column is read
whole or piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index, Times
from ensue.lines import one_line

Where = Callable[[int], str]
SINCE_1970, MILLISECONDS = 1e8, 1e11
"""Numbers from 1973 on: seconds since 1970 up to the year 5138, milliseconds from there on, and so on by 1,000."""
BANDS = ("", "s", "ms", "us", "ns")
"""Units that a number may look like; the first is for those too small for any since 1970."""
CALENDARS = {"%Y%m%d": 8, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14}
"""Dates written as one number, and how many digits it has."""
YEAR = 365.25 * 86_400
"""Seconds."""
_YEARS = 2**16
"""Years of a band, half of them before 1970."""
_MAX_MASKS = 16
"""Groups that are selected by a mask each; more are sorted."""


@dataclass(frozen=True)
class ParsedTimes:
    """A column as numbers, before its unit is known."""

    numbers: Times
    """(events,) as they stand, or seconds since 1970 of dates."""
    words: str = ""
    """Detected format of dates; empty for numbers."""
    zoned: bool = False
    """True if dates were brought to UTC from another zone."""
    day_first: bool | None = None


@dataclass
class Bucket:
    """The times of one year, if they are in the unit that they look like."""

    count: int
    low: float
    high: float
    text: str
    """The first of them as in the file."""
    where: str
    """The place of the first."""

    def add(self, other: Bucket) -> None:
        """Take in the times that follow."""
        self.count += other.count
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass
class TimeSummary:
    """Statistics that decide the unit and the outliers of a column; can grow piece by piece, and goes into JSON."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    """``unit:year`` -> its times; of dates the unit is iso, of numbers too small for any since 1970 it is empty."""
    whole: bool = True
    """True if all numbers are whole."""
    zoned: bool = False
    """True if dates were brought to UTC from another zone."""
    calendars: tuple[str, ...] = tuple(CALENDARS)
    """Members of ``CALENDARS`` that all numbers fit."""

    @classmethod
    def of(cls, parsed: ParsedTimes, given: pl.Series, where: Where) -> TimeSummary:
        """Summarise some times.

        Args:
            parsed: (events,) the times.
            given: (events,) as in the file.
            where: the place of an event in the file.
        """
        numbers, is_dated = parsed.numbers, bool(parsed.words)
        buckets = {}
        for key, rows in _groups(numbers, is_dated):
            band = "iso" if is_dated else BANDS[key // _YEARS]
            times, first = numbers[rows], int(rows.argmax()) if rows.dtype == np.bool_ else int(rows[0])
            bucket = Bucket(len(times), float(times.min()), float(times.max()), _text(given[first]), where(first))
            buckets[f"{band}:{key % _YEARS - _YEARS // 2}"] = bucket
        is_whole = not parsed.words and bool((numbers == np.floor(numbers)).all())
        calendars = tuple(name for name in CALENDARS if is_whole and _fits(numbers, name))
        return cls(buckets, is_whole, parsed.zoned, calendars)

    def add(self, other: TimeSummary) -> None:
        """Take in the times that follow."""
        for key, bucket in other.buckets.items():
            if key in self.buckets:
                self.buckets[key].add(bucket)
            else:
                self.buckets[key] = bucket
        self.whole &= other.whole
        self.zoned |= other.zoned
        self.calendars = tuple(name for name in self.calendars if name in other.calendars)

    def counts(self) -> dict[str, int]:
        """Return how many times look like each unit."""
        counts = dict.fromkeys(BANDS, 0)
        for key, bucket in self.buckets.items():
            unit = key.partition(":")[0]
            counts[unit] = counts.get(unit, 0) + bucket.count
        return counts

    def of_unit(self, unit: str) -> list[Bucket]:
        """Return the buckets whose times look like a unit."""
        return [bucket for key, bucket in self.buckets.items() if key.partition(":")[0] == unit]

    @property
    def low(self) -> float:
        """The least of all."""
        return min(bucket.low for bucket in self.buckets.values())

    @property
    def high(self) -> float:
        """The greatest of all."""
        return max(bucket.high for bucket in self.buckets.values())


def calendar_seconds(numbers: Times, calendar: str) -> Times:
    """Seconds since 1970 of numbers such as 20231114, by a calendar of ``CALENDARS``."""
    digits = CALENDARS[calendar]
    year, month, day, hour, minute, second = _fields(numbers, digits)
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return (days * 86_400 + hour * 3_600 + minute * 60 + second).astype(np.float64)


def _keys(numbers: Times, is_dated: bool) -> Index:
    """Return (events,) the band and the year of each time as one number, which never decreases with the time."""
    edges = SINCE_1970 * 1e3 ** np.arange(4)
    bands = np.zeros(len(numbers), np.int64) if is_dated else np.searchsorted(edges, numbers, side="right")
    per_year = np.array([1.0, 1.0, 1e3, 1e6, 1e9]) * YEAR
    years = np.floor(np.clip(numbers / per_year[bands], -30_000, 30_000)).astype(np.int64)
    return bands * _YEARS + years + _YEARS // 2


def _groups(numbers: Times, is_dated: bool) -> Iterator[tuple[int, Index | npt.NDArray[np.bool_]]]:
    """Yield each distinct key with the rows that have it: a mask, or their numbers in order."""
    if len(numbers):
        low, high = _keys(np.array([numbers.min(), numbers.max()]), is_dated).tolist()
        if low == high:
            yield low, np.ones(len(numbers), np.bool_)
            return
    keys = _keys(numbers, is_dated)
    counts = np.bincount(keys)
    distinct = np.flatnonzero(counts)
    if len(distinct) <= _MAX_MASKS:
        yield from ((int(key), keys == key) for key in distinct)
        return
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(counts[distinct])
    for key, begin, end in zip(distinct, ends - counts[distinct], ends, strict=True):
        yield int(key), order[begin:end]


def _text(value: object) -> str:
    """A time as in the file, for messages; of a column of numbers without a point where it is whole."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.15g}"
    return one_line(str(value).strip())


def _fits(numbers: Times, calendar: str) -> bool:
    """Return whether all numbers are dates of a calendar such as ``%Y%m%d``, from 1900 to 2100."""
    digits = CALENDARS[calendar]
    if not len(numbers) or numbers.min() < 10.0 ** (digits - 1) or numbers.max() >= 10.0**digits:
        return False
    year, month, day, hour, minute, second = _fields(numbers, digits)
    valid = (year >= 1900) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool((valid & (hour < 24) & (minute < 60) & (second < 60)).all())


def _fields(numbers: Times, digits: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Year, month, day, hour, minute and second of numbers such as 20231114."""
    remaining = numbers.astype(np.int64) * 10 ** (14 - digits)
    fields = []
    for size in (2, 2, 2, 2, 2):
        fields.append(remaining % 10**size)
        remaining = remaining // 10**size
    return (remaining, *reversed(fields))
