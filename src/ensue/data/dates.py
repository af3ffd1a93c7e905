"""Dates as programs and people write them: ISO 8601, RFC 2822, ``31.12.2023``, ``12/31/2023 1:05 PM`` and others.

A date with a zone is converted to UTC, one without is read as UTC. Where the year comes last and the month is a number,
the column determines which number is the day: a number above 12 is one. Where no date of the column has such a number,
the order has to be stated. :class:`TimeSummary` describes all times of a column, over all pieces of a log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index, Times
from ensue.errors import DataError
from ensue.lines import one_line, quoted

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


ASK = "set --day-first or --month-first"
_ISO = re.compile(r"\s*\d{4}-\d\d-\d\d")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<name>[A-Za-z]{3,9})"
_WEEKDAY = r"(?:[A-Za-z]{3,9}\.?,? +)?"
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
# Z, UTC, +0200, +02:00, GMT+0200 (Central European Time), and +0000 UTC as Go prints it.
_ZONE = (
    r"(?: ?(?:(?P<utc>[Zz]|UTC|GMT)|(?:UTC|GMT)?(?P<sign>[+-])(?P<zone_hour>\d{2}):?(?P<zone_minute>\d{2})?)"
    r"(?: \([^)]*\)| UTC| GMT)?)?"
)
_END = rf"(?:(?:,? +|[T,]){_CLOCK})?{_ZONE}$"
_YEAR_LAST = rf"^(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<then>\d{{1,2}})[./-](?P<year>\d{{4}}){_END}"
_SHAPES = (
    rf"^(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}}){_END}",
    # 20231114T221320Z
    r"^(?P<year>\d{4})-?(?P<month>\d{2})-?(?P<day>\d{2})"
    r"(?:[T ]?(?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    rf"{_ZONE}$",
    # Wed, 27 Aug 2008 13:08:45 +0000
    rf"^{_WEEKDAY}(?P<day>\d{{1,2}})[ -]{_MONTH}\.?,?[ -](?P<year>\d{{4}}){_END}",
    # August 27, 2008, 1:08 PM; Wed Aug 27 2008 13:08:45 GMT+0000 (Coordinated Universal Time)
    rf"^{_WEEKDAY}{_MONTH}\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_END}",
    # Wed Aug 27 13:08:45 +0000 2008
    rf"^{_WEEKDAY}{_MONTH} +(?P<day>\d{{1,2}}) {_CLOCK}{_ZONE} (?P<year>\d{{4}})$",
)


def telling_date(texts: pl.Series) -> str | None:
    """Return the first date whose year comes last and that tells which number is its day; ``None`` where none does."""
    groups = _parts(texts, _YEAR_LAST)
    late = [(groups[name].cast(pl.Int64) > 12).fill_null(value=False) for name in ("first", "then")]
    rows = (late[0] | late[1]).arg_true()
    return texts[rows[0]] if len(rows) else None


def has_year_last(text: str) -> bool:
    """Return whether a text looks like a date whose year comes last."""
    return bool(pl.Series([text]).str.contains(_YEAR_LAST)[0])


def parse_dates(
    texts: pl.Series, where: Callable[[int], str], day_first: bool | None = None, usual: bool | None = None
) -> ParsedTimes:
    """Parse a column of dates.

    Args:
        texts: (events,) with no null.
        where: the place of an event in the file, for messages.
        day_first: whether the day comes first where the year comes last, as stated.
        usual: the same of the model's training data, for a column that does not tell.

    Raises:
        DataError: a text that is no date, one of another kind than those whose year comes last, or an order of day
            and month that nothing tells.
    """
    texts = texts.str.strip_chars()
    groups = _parts(texts, _YEAR_LAST)
    if groups["year"].null_count() < len(texts):
        return _year_last(texts, groups, where, day_first, usual)
    moments = _fast(texts)
    for shape in _SHAPES:
        if not moments.null_count():
            break
        rows = moments.is_null().arg_true()
        moments = moments.scatter(rows, _moments(_parts(texts.gather(rows), shape)))
    if moments.null_count():
        row = int(moments.is_null().arg_max() or 0)
        raise DataError(
            f"{where(row)}: time {quoted(texts[row])} is not a time; use seconds since 1970, ISO 8601, or --time-unit"
        )
    words = "dates with names of months" if re.match("[0-9]*[ -]?[A-Za-z]", texts[0]) else "ISO dates"
    return ParsedTimes(_seconds(moments), words, _has_zones(texts), None)


def _has_zones(texts: pl.Series) -> bool:
    """Return whether a text has a zone other than UTC: after a time of day, for -14 may be a day."""
    suffix = r"(?: \([^)]*\)| UTC| GMT| \d{4})?$"
    zoned = texts.str.contains(rf":.*[+-]\d{{2}}:?(?:\d{{2}})?{suffix}")
    return bool((zoned & ~texts.str.contains(rf":.*[+-]00:?(?:00)?{suffix}")).any())


def _fast(texts: pl.Series) -> pl.Series:
    """Parse ISO dates of one form by the parser of polars; null where it cannot."""
    nothing = pl.Series([None], dtype=pl.Datetime("us", "UTC")).new_from_index(0, len(texts))
    if not _ISO.match(texts[0]):
        return nothing
    try:
        return texts.str.to_datetime(strict=False, time_zone="UTC", time_unit="us")
    except pl.exceptions.PolarsError:
        return nothing


def _parts(texts: pl.Series, shape: str) -> pl.DataFrame:
    """(texts, groups) the named groups of a pattern, null where it does not fit."""
    return texts.str.extract_groups(shape).struct.unnest()


def _moments(words: pl.DataFrame) -> pl.Series:
    """(texts,) dates of UTC from the named parts of texts; null where they are none."""
    number = {name: words[name].cast(pl.Int64) for name in ("day", "hour", "zone_hour", "zone_minute") if name in words}
    month = words["month"] if "month" in words else _month_numbers(words["name"])
    hour = number["hour"].fill_null(0)
    if "half" in words:
        half = words["half"].str.to_lowercase()
        afternoon = (half == "p").fill_null(value=False).cast(pl.Int64)
        hour = hour.zip_with(half.is_null(), hour % 12 + 12 * afternoon)
    written = words.select(
        pl.concat_str(
            *("year", pl.lit("-"), month.alias("m"), pl.lit("-"), "day", pl.lit(" ")),
            *(hour.cast(pl.String).alias("h"), pl.lit(":"), pl.col("minute").fill_null("00"), pl.lit(":")),
            pl.col("second").fill_null("00"),
        )
    ).to_series()
    moments = written.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_zone="UTC", time_unit="us")
    # .5 is 500,000 microseconds: digits are filled up to six, further ones are cut.
    microseconds = words["fraction"].fill_null("0").str.pad_end(6, "0").str.head(6).cast(pl.Int64)
    offsets = number["zone_hour"].fill_null(0) * 3600 + number["zone_minute"].fill_null(0) * 60
    signs = pl.select(pl.when(words["sign"] == "-").then(-1).otherwise(1)).to_series()
    shifts = microseconds - 1_000_000 * offsets * signs
    return moments + shifts.cast(pl.Duration("us"))


def _month_numbers(names: pl.Series) -> pl.Series:
    """(texts,) ``8`` of Aug and August as texts; null where a word is no month."""
    numbers = {name: str(number) for number, name in enumerate(_MONTHS, 1)}
    return names.str.to_lowercase().str.head(3).replace_strict(numbers, default=None, return_dtype=pl.String)


def _seconds(moments: pl.Series) -> Times:
    microseconds = moments.dt.timestamp("us").to_numpy()
    return np.asarray(microseconds / 1e6, np.float64)


def _year_last(
    texts: pl.Series, groups: pl.DataFrame, where: Callable[[int], str], stated: bool | None, usual: bool | None
) -> ParsedTimes:
    """Parse dates whose year comes last, once the column has told which number is the day."""
    late = {name: (groups[name].cast(pl.Int64) > 12).fill_null(value=False) for name in ("first", "then")}
    mark = groups["mark"].drop_nulls()[0]
    order = _order(texts, late, where, stated)
    if order is None:
        order = usual if usual is not None else True if mark == "." else None
    if order is None:
        row = int(groups["year"].is_not_null().arg_max() or 0)
        raise DataError(
            f"{where(row)}: time {quoted(texts[row])} may be day-first or month-first, and no time in the file "
            f"decides it; {ASK}, or write ISO dates, such as 2023-12-31"
        )
    words = f"day{mark}month{mark}year" if order else f"month{mark}day{mark}year"
    names: Mapping[str, str] = {"first": "day", "then": "month"} if order else {"first": "month", "then": "day"}
    moments = _moments(groups.rename(dict(names)))
    if moments.null_count():
        row = int(moments.is_null().arg_max() or 0)
        raise DataError(f"{where(row)}: time {quoted(texts[row])} is not a date written as {words}, like the others")
    return ParsedTimes(_seconds(moments), f"dates as {words}", _has_zones(texts), order)


def _order(
    texts: pl.Series, late: Mapping[str, pl.Series], where: Callable[[int], str], stated: bool | None
) -> bool | None:
    """Return whether the day comes first: as stated, or as a number above 12 tells; ``None`` where nothing does.

    Raises:
        DataError: a date contradicts another one, or what is stated.
    """
    rows = {name: int(column.arg_max() or 0) for name, column in late.items() if column.any()}
    if len(rows) == 2:
        first, second = sorted(rows.values())
        raise DataError(
            f"{where(second)}: time {quoted(texts[second])} swaps day and month, unlike {quoted(texts[first])} before "
            "it; write ISO dates, such as 2023-12-31"
        )
    proved = "first" in rows if rows else None
    if None not in (stated, proved) and stated != proved:
        (row,) = rows.values()
        option, other = ("--day-first", "month") if stated else ("--month-first", "day")
        raise DataError(
            f"{where(row)}: time {quoted(texts[row])} begins with the {other}, which contradicts {option}; remove "
            "that option"
        )
    return proved if stated is None else stated
