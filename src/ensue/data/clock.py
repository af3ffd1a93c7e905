"""Times: which unit a column keeps, and everything in seconds.

A stated unit wins; then the column's name (``time_ms``); then the values; then the layout's convention. The values are
judged by their bulk: a few that lie years apart from the others, such as 0 or the year 9999, stand for a missing time,
and are counted in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl

from ensue.data.dates import (
    CALENDARS,
    ParsedTimes,
    Where,
    calendar_seconds,
    fits_calendar,
    has_year_last,
    parse_dates,
    telling_date,
)
from ensue.data.histories import Index, Times
from ensue.data.schema import split_words
from ensue.errors import DataError
from ensue.lines import one_line, part_of, quoted

UNITS = ("s", "ms", "us", "ns", "h", "days", "iso")
WORDS = {
    "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds", "h": "hours",
    "days": "Excel days", "iso": "ISO dates",
}  # fmt: skip
TIME_NAMES = split_words(
    "time timestamp ts datetime createdat when eventtimestamp eventtime occurredat happenedat clickedat viewedat",
    "visitedat playedat listenedat purchasedat orderedat ratedat reviewedat postedat sharedat tweetedat loggedat",
    "receivedat sentat firedat clicktime viewtime visittime actiontime interactiontime ratingtime buytime ordertime",
    "purchasetime requesttime logtime servertime posttime accesstime starttime unixtime unixtimestamp",
    "unixreviewtime reviewtime utctimestamp epochtime epoch utctime timeutc timestamputc datetimeutc createdutc",
    "localtime created createtime createdtime creationtime date eventdate clickdate visitdate orderdate",
    "purchasedate ratingdate reviewdate timeframe zeit datum zeitstempel fecha hora horodatage datehourminute datehour",
    "querytime searchtime searchedat invoicedate tdat clicktimestamp servertimestamp collectortstamp endtime zeitpunkt",
)
"""Names of columns that hold the time of an event, as :func:`plain_time_name` leaves them, the surest first."""
SINCE_1970 = 1e8
MILLISECONDS = 1e11
"""Numbers from 1973 on: seconds since 1970 up to the year 5138, milliseconds from there on, and so on by 1,000."""
BANDS = ("", "s", "ms", "us", "ns")
"""Units that a number may look like; the first is for those too small for any since 1970."""
YEAR = 365.25 * 86_400
"""Seconds."""
_YEARS = 2**16
"""Years of a band, half of them before 1970."""
FACTORS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "h": 3600.0, "days": 86_400.0, "iso": 1.0}
"""Seconds of each unit."""
_EXCEL_1970 = 25_569
"""Excel's number of 1970-01-01, whose day 0 is 1899-12-30."""
_EXCEL_DAYS = (20_000, 60_000)
"""1954 to 2064."""
_MAX_WHOLE_DAYS = 8_000
"""Maximum range in days (22 years); whole numbers over a wider range are seconds."""
_MAX_PAUSE = 5 * YEAR
"""Pause that sets some events apart from the others."""
_SAME = 10 * YEAR
"""Numbers of two units that mean moments no farther apart than this are one log in two units."""
_MAX_APART = 0.05
"""Share of the bulk that events apart from it may have, unless no log could be from then."""
_MAX_EXAMPLES = 3
_SUFFIXES = {
    "s": "s|secs?|seconds?",
    "ms": "ms|millis|milliseconds?",
    "us": "us|micros|microseconds?",
    "ns": "ns|nanos|nanoseconds?",
    "h": "h|hours?",
}
_SUFFIX = re.compile("_(?:" + "|".join(f"(?P<{unit}>{words})" for unit, words in _SUFFIXES.items()) + ")$", re.I)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_THOUSANDS = re.compile(r"\d{1,3}([,.'’ _\u00a0\u202f])\d{3}(?:\1\d{3})+")
_SCIENTIFIC = r"^[-+]?(\d)(?:[.,](\d*))?[eE]\+?(\d+)$"
_SAMPLES = 100
FIRST_INEXACT_FLOAT32 = 2**24
"""Floats of 32 bits from here on no longer hold every whole number."""


@dataclass(frozen=True, kw_only=True)
class TimeOptions:
    """Time unit and order of day and month, as stated or as in the model's training data."""

    unit: str | None = None
    """One of ``UNITS``, as stated."""
    day_first: bool | None = None
    """True if dates such as 03/04/2024 begin with the day, as stated."""
    usual_unit: str | None = None
    """The unit that was stated for the training data."""
    usual_day_first: bool | None = None
    """The order of day and month in the training data."""


FIND_OUT = TimeOptions()


@dataclass(frozen=True, kw_only=True)
class TimeFormat:
    """Format of a column of times."""

    unit: str
    """One of ``UNITS``."""
    scale: str
    """Conversion of :func:`in_seconds`: the unit, or a calendar such as ``%Y%m%d``."""
    absolute: bool
    """True if times are since 1970."""
    sentence: str
    """Detected format, and the first and the last time."""
    warnings: tuple[str, ...] = ()
    """Events years apart from the others."""
    day_first: bool | None = None
    """The order of day and month where the year comes last."""


@dataclass(frozen=True)
class Clock:
    """Times in seconds, and how they were understood."""

    seconds: Times
    format: TimeFormat


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


Search = Callable[[Callable[[pl.Series], str | None]], str | None]
"""Applies a function to the times of a whole log, piece by piece, until it returns a text."""


@dataclass
class TimeSummary:
    """The times of a log so far, and how they were written: what decides the unit and the outliers. Goes into JSON."""

    name: str = ""
    """Name of the column."""
    words: str | None = None
    """Detected format of dates, empty for numbers; ``None`` before the first time."""
    day_first: bool | None = None
    """Order of day and month in dates whose year comes last."""
    first_place: str = ""
    """The place of the first time."""
    witness: str | None = None
    """A date of the log that shows which number is the day, where the first one does not."""
    buckets: dict[str, Bucket] = field(default_factory=dict)
    """``unit:year`` -> its times; of dates the unit is iso, of numbers too small for any since 1970 it is empty."""
    all_whole: bool = True
    """True if all numbers are whole."""
    zoned: bool = False
    """True if dates were brought to UTC from another zone."""
    calendars: tuple[str, ...] = tuple(CALENDARS)
    """Members of ``CALENDARS`` that all numbers fit."""

    def add(self, column: pl.Series, where: Where, options: TimeOptions, search: Search | None = None) -> Times:
        """Take in the times that follow, and return them: numbers as they are, dates as seconds.

        Args:
            column: (events,) named as in the file.
            where: the place of an event in the file, for messages.
            options: what is stated or known of the times.
            search: searches the times of a log of which this column is only a piece.

        Raises:
            DataError: a time that is empty, no number and no date, or written otherwise than those before.
        """
        is_text = column.dtype == pl.String and bool(len(column)) and column[0] is not None
        if search and self.words is None and is_text and options.day_first is None and has_year_last(column[0].strip()):
            self.witness = search(telling_date)
        if self.witness is None:
            parsed = parse_times(column, where, options)
        else:  # the witness goes above the piece, so that it is read as the whole log is
            column_below = pl.concat([pl.Series(column.name, [self.witness]), column])
            parsed = parse_times(column_below, lambda row: where(max(row - 1, 0)), options)
            parsed = replace(parsed, numbers=parsed.numbers[1:])
        numbers = parsed.numbers
        is_whole = not parsed.words and bool((numbers == np.floor(numbers)).all())
        piece = TimeSummary(
            column.name,
            parsed.words,
            parsed.day_first,
            where(0),
            self.witness,
            _buckets(numbers, bool(parsed.words), column, where),
            is_whole,
            parsed.zoned,
            tuple(name for name in CALENDARS if is_whole and fits_calendar(numbers, name)),
        )
        self.merge(piece)
        return numbers

    def merge(self, other: TimeSummary) -> None:
        """Take in the summary of the times that follow.

        Raises:
            DataError: times are written otherwise there.
        """
        if self.words is None:
            vars(self).update(vars(other))
            return
        if other.words != self.words:
            raise DataError(
                f"{other.first_place}: times are {other.words or 'numbers'} here, but {self.words or 'numbers'} at "
                f"{self.first_place}; write all times in the same way"
            )
        for key, bucket in other.buckets.items():
            if (former := self.buckets.setdefault(key, bucket)) is not bucket:
                former.count += bucket.count
                former.low = min(former.low, bucket.low)
                former.high = max(former.high, bucket.high)
        self.all_whole &= other.all_whole
        self.zoned |= other.zoned
        self.calendars = tuple(name for name in self.calendars if name in other.calendars)

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

    def format(self, layout: str, options: TimeOptions) -> TimeFormat:
        """Judge the unit of all times, and which of them lie apart from the others.

        Args:
            layout: the file's layout, for its convention.
            options: what is stated or known of the times.

        Raises:
            DataError: times in two units, or in one that they cannot be in.
        """
        scale, reason = ("iso", "") if self.words else _unit(self, layout, options)
        buckets = sorted(self.buckets.values(), key=lambda bucket: (_second(bucket.low, scale), bucket.low))
        bulk, outliers = _split(buckets, scale)
        low = _second(bulk[0].low, scale)
        high = max(_second(bucket.high, scale) for bucket in bulk)
        unit = "iso" if scale in CALENDARS else scale
        if high >= MILLISECONDS:
            worst = max(bulk, key=lambda bucket: bucket.high)
            raise DataError(
                f"{worst.where}: time {worst.text} cannot be {WORDS[unit]} ({reason}); set the unit with --time-unit"
            )
        absolute = bool(self.words) or low >= SINCE_1970
        span = " to ".join(format_time(second, unit, absolute) for second in (low, high))
        if scale in CALENDARS:
            sentence = f"dates such as {buckets[0].text} ({reason}), read as UTC, {span}"
        elif self.words:
            read = "converted from their time zones to UTC" if self.zoned else "read as UTC"
            sentence = f"{self.words}, {read}, {span}"
        else:
            since = " since 1970" if absolute else " from 0" if low == 0 else ""
            sentence = f"{WORDS[unit]}{' since 1899-12-30' if unit == 'days' else since} ({reason}), {span}"
        total = sum(bucket.count for bucket in buckets)
        warnings = (_apart_sentence(outliers, total, span),) if outliers else ()
        return TimeFormat(
            unit=unit, scale=scale, absolute=absolute, sentence=sentence, warnings=warnings, day_first=self.day_first
        )


def read_clock(column: pl.Series, layout: str, where: Where, options: TimeOptions = FIND_OUT) -> Clock:
    """Understand a column of numbers, dates or texts of either kind.

    Args:
        column: (events,) named as in the file.
        layout: the file's layout, for its convention.
        where: the place of an event in the file, for messages.
        options: what is stated or known of the times.

    Raises:
        DataError: a time that is empty, no number and no date, not finite, or in a different unit from the others.
    """
    summary = TimeSummary()
    numbers = summary.add(column, where, options)
    time_format = summary.format(layout, options)
    return Clock(in_seconds(numbers, time_format.scale), time_format)


def in_seconds(times: Times, scale: str) -> Times:
    """Convert times of a unit, or of a calendar, to seconds; those of dates are in seconds."""
    if scale in CALENDARS:
        return calendar_seconds(times, scale)
    if scale == "days":
        return np.round((times - _EXCEL_1970) * 86_400, 3)  # Excel keeps milliseconds
    if scale == "ns":
        return np.round(times / 1e3) / 1e6  # whole microseconds, which 64 bits hold exactly
    return times / {"ms": 1e3, "us": 1e6}.get(scale, 1.0) * (3600.0 if scale == "h" else 1.0)


def _buckets(numbers: Times, is_dated: bool, column: pl.Series, where: Where) -> dict[str, Bucket]:
    """Return the buckets of some times; ``column`` has them as in the file."""
    if not len(numbers):
        return {}
    low = float(numbers.min())
    high = float(numbers.max())
    first_key, last_key = _keys(np.array([low, high]), is_dated).tolist()
    groups = [(first_key, len(numbers), low, high, 0)]
    if first_key != last_key:  # most columns are of one year, and need no key of each time
        number = pl.col("number")
        rows = pl.DataFrame({"key": _keys(numbers, is_dated), "number": numbers}).with_row_index("row")
        statistics = pl.len(), number.min().alias("low"), number.max().alias("high"), pl.col("row").min()
        groups = rows.group_by("key").agg(statistics).sort("key").rows()
    buckets = {}
    for key, count, low, high, first in groups:
        band = "iso" if is_dated else BANDS[key // _YEARS]
        bucket = Bucket(count, low, high, _text(column[first]), where(first))
        buckets[f"{band}:{key % _YEARS - _YEARS // 2}"] = bucket
    return buckets


def _keys(numbers: Times, is_dated: bool) -> Index:
    """Return (events,) the band and the year of each time as one number, which never decreases with the time."""
    # Seconds begin at 1e8, milliseconds at 1e11, and so on: 5 and 1.4e9 and 1.4e12 are of the bands 0 1 2.
    edges = SINCE_1970 * 1e3 ** np.arange(4)
    bands = np.zeros(len(numbers), np.int64) if is_dated else np.searchsorted(edges, numbers, side="right")
    per_year = np.array([1.0, 1.0, 1e3, 1e6, 1e9]) * YEAR
    years = np.floor(np.clip(numbers / per_year[bands], -30_000, 30_000)).astype(np.int64)
    return bands * _YEARS + years + _YEARS // 2


def _text(value: object) -> str:
    """Return a time as in the file, for messages; of a column of numbers without a point where it is whole."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.15g}"
    return one_line(str(value).strip())


def parse_times(column: pl.Series, where: Where, options: TimeOptions = FIND_OUT) -> ParsedTimes:
    """Parse numbers as they stand, or dates to seconds since 1970.

    Args:
        column: (events,) named as in the file.
        where: the place of an event in the file, for messages.
        options: what is stated or known of the times; the unit ``iso`` makes all of them dates.

    Raises:
        DataError: a time that is empty, no number and no date, not finite, or that a spreadsheet cut.
    """
    for row in column.is_null().arg_true()[:1]:
        raise DataError(
            f"{where(row)}: time is empty; give every event a time, or leave such rows out with --missing drop"
        )
    if column.dtype in (pl.Time, pl.Duration):
        raise DataError(f"{where(0)}: column {quoted(column.name)} has times of day without a date; add the date")
    if column.dtype.is_temporal():
        # Columns with a zone are stored in UTC, whatever the zone.
        moments = column.cast(pl.Datetime("us")).dt.timestamp("us").to_numpy() / 1e6
        return ParsedTimes(moments, "ISO dates", zoned=getattr(column.dtype, "time_zone", None) not in (None, "UTC"))
    column = _plain_numbers(column, where)
    if options.unit == "iso" or (column.dtype == pl.String and options.unit is None and _are_dates(column)):
        texts = column if column.dtype == pl.String else column.cast(pl.Int64, strict=False).cast(pl.String)
        return parse_dates(texts.fill_null(""), where, options.day_first, options.usual_day_first)
    return ParsedTimes(_parse_numbers(column, where))


def is_number(text: object) -> bool:
    """Return whether a text or a decoded JSON value reads as a number."""
    try:
        float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def is_plain_number(text: str) -> bool:
    """Return whether a text is a number in digits; ``1.7E+09``, which a spreadsheet may have cut, is a text."""
    return is_number(text) and "e" not in text.lower()


def named_unit(name: str) -> str | None:
    """The unit that a column's name ends with, as in ``time_ms``."""
    match = _SUFFIX.search(name)
    return match.lastgroup if match else None


def plain_time_name(name: str) -> str:
    """``Event_Time``, ``eventTime``, ``event_time_ms`` and RecBole's ``event_time:float`` alike."""
    word = _SUFFIX.sub("", name.strip().split(":")[0].lower())
    return re.sub(r"[^a-z0-9]", "", word)


def format_time(seconds: float, unit: str, absolute: bool) -> str:
    """A time for people: a date to the minute, or a number in the file's unit."""
    if absolute:
        try:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        except OverflowError:
            return f"{1970 + seconds / YEAR:.0f}"  # a year that calendars do not have
        return f"{moment.year:04}-{moment:%m-%d %H:%M}"
    return f"{seconds / FACTORS[unit]:g}"


def _plain_numbers(column: pl.Series, where: Where) -> pl.Series:
    """Numbers as texts with a decimal point and nothing between thousands, as their first one tells.

    Raises:
        DataError: most of them have fewer digits than a time needs.
    """
    if column.dtype != pl.String or not len(column):
        return column
    first = column[0].strip()
    # 1.700.000.000 and 1,700,000,000: all numbers must have the mark that the first one has.
    if (thousands := _THOUSANDS.fullmatch(first)) is not None:
        mark = re.escape(thousands[1])
        if column.str.contains(rf"^\s*\d{{1,3}}(?:{mark}\d{{3}})*\s*$").all():
            column = column.str.replace_all(thousands[1], "", literal=True)
    elif _DECIMAL_COMMA.fullmatch(first):
        column = column.str.replace(",", ".", literal=True)
    # Of 1.7041E+09 the digits behind the point are 7041 and the exponent is 9.
    groups = column.str.strip_chars().str.extract_groups(_SCIENTIFIC).struct.unnest()
    digits = groups["2"].fill_null("").str.len_chars().cast(pl.Int64)
    exponents = groups["3"].cast(pl.Int64, strict=False)
    # 1.7041E+09 lacks 5 of the digits of a second; of a millisecond, the last 3 would be less than one.
    needless = pl.select(pl.when(exponents < 11).then(0).when(exponents < 14).then(3).when(exponents < 17).then(6))
    cut = (exponents >= 8) & (exponents - digits > needless.to_series().fill_null(9))
    cut = cut.fill_null(value=False)
    # A few such numbers may be right: 1.5E+09 can be a second without its zeros.
    for row in cut.arg_true()[:1] if 2 * cut.sum() > len(column) else ():
        raise DataError(
            f"{where(row)}: time {column[row].strip()} was cut to {digits[row] + 1} digits by a spreadsheet, like most "
            f"of the column; export {quoted(column.name)} again as whole numbers, or as text"
        )
    return column


def _are_dates(column: pl.Series) -> bool:
    """Return whether most of the first texts are no numbers."""
    samples = column.head(_SAMPLES).to_list()
    return 2 * sum(map(is_number, samples)) < len(samples)


def _parse_numbers(column: pl.Series, where: Where) -> Times:
    texts = column.str.strip_chars() if column.dtype == pl.String else column
    numbers = texts.cast(pl.Float64, strict=False)
    for row in numbers.is_null().arg_true()[:1]:
        raise DataError(
            f"{where(row)}: time {quoted(column[row])} is not a time; use seconds since 1970, ISO 8601, or --time-unit"
        )
    for row in (~numbers.is_finite()).arg_true()[:1]:
        raise DataError(f"{where(row)}: time {numbers[row]} is not a finite number")
    is_rounded = numbers.abs() >= FIRST_INEXACT_FLOAT32
    for row in is_rounded.arg_true()[:1] if column.dtype == pl.Float32 else ():
        raise DataError(
            f"{where(row)}: time {numbers[row]:.0f} was rounded: column {quoted(column.name)} holds 32-bit floats, "
            "which keep seven digits; export it again as whole numbers or 64-bit floats"
        )
    return numbers.to_numpy()


def _unit(summary: TimeSummary, layout: str, options: TimeOptions) -> tuple[str, str]:
    """Return the scale, and the reason given in the sentence.

    Raises:
        DataError: times in two units, or the unit of the training data is another one.
    """
    if options.unit is not None:
        return options.unit, "as stated"
    if name_unit := named_unit(summary.name):
        return name_unit, f"from the column's name {quoted(summary.name)}"
    if layout.endswith("histories"):
        return "s", "the convention of this record type"
    if summary.calendars:
        return summary.calendars[-1], "inferred: every number is a date"
    if (unit := _unit_since_1970(summary)) is not None:
        # Numbers that look like a unit since 1970 are not in the unit of the training data by habit.
        buckets = summary.of_unit(unit)
        if options.usual_unit not in (None, unit):
            raise DataError(
                f"{buckets[0].where}: time {buckets[0].text} looks like {WORDS[unit]} since 1970, but the training "
                f"data was read in {WORDS[options.usual_unit or 's']}; set the unit with --time-unit"
            )
        lowest = f"{min(bucket.low for bucket in buckets):.1e}".replace("e+0", "e").replace("e+", "e")
        return unit, f"inferred: values near {lowest}"
    if options.usual_unit is not None:
        return options.usual_unit, "as in the training data"
    # Hours since 1970 of 1993 to 2049.
    if layout in ("forest", "ms-hgat", "topo-lstm") and summary.low >= 2e5 and summary.high <= 7e5:
        return "h", f"inferred: values near {summary.low:.0f}"
    if layout == "hidan":
        return "h", "the convention of this layout"
    if _are_excel_days(summary):
        return "days", "inferred: all from 20,000 to 60,000"
    return "s", "assumed; set the unit with --time-unit"


def _unit_since_1970(summary: TimeSummary) -> str | None:
    """Return the unit since 1970 that the bulk of the numbers is in; ``None`` where they look like none.

    Raises:
        DataError: others mean the same years in another unit.
    """
    counts = {unit: sum(bucket.count for bucket in summary.of_unit(unit)) for unit in BANDS}
    unit = max(BANDS[1:], key=counts.__getitem__)
    inside = summary.of_unit(unit)
    if not inside:
        return None
    for other in BANDS[1:]:
        for bucket in summary.of_unit(other) if other != unit else ():
            nearest = min(abs(_second(bucket.low, other) - _second(member.low, unit)) for member in inside)
            if nearest < _SAME:
                raise DataError(
                    f"{bucket.where}: time {bucket.text} looks like {WORDS[other]} since 1970, but others, such as "
                    f"{inside[0].text}, look like {WORDS[unit]}; give all times in one unit"
                )
    # Numbers just below the band are of the same clock, which then does not count from 1970.
    smallest = min(bucket.low for bucket in inside)
    smaller = [bucket for bucket in summary.buckets.values() if bucket.high < smallest]
    is_adjacent = any(_second(smallest, unit) - _second(bucket.high, unit) < YEAR for bucket in smaller)
    is_minority = 2 * counts[unit] <= sum(counts.values())
    return None if is_adjacent or is_minority else unit


def _are_excel_days(summary: TimeSummary) -> bool:
    """Return whether all numbers are such as Excel counts days with, in a column whose name speaks of time."""
    plain = plain_time_name(summary.name)
    if not any(word in plain for word in ("time", "date", "when", "created", "zeit", "datum")):
        return False
    low, high = _EXCEL_DAYS
    # Whole days over many years are more likely seconds: an export of days has fractions, or a few years.
    span = summary.high - summary.low
    return low <= summary.low and summary.high <= high and (not summary.all_whole or span < _MAX_WHOLE_DAYS)


def _second(number: float, scale: str) -> float:
    return float(in_seconds(np.array([number]), scale)[0])


def _split(buckets: list[Bucket], scale: str) -> tuple[list[Bucket], list[Bucket]]:
    """The buckets that most events are in, and those years apart from them, in order of time."""
    # Buckets in order of time: a pause of years between two of them begins a cluster.
    clusters = [[buckets[0]]]
    for previous, bucket in pairwise(buckets):
        if _second(bucket.low, scale) - _second(previous.high, scale) > _MAX_PAUSE:
            clusters.append([])
        clusters[-1].append(bucket)
    sizes = [sum(bucket.count for bucket in cluster) for cluster in clusters]
    max_size = max(sizes)
    if sizes.count(max_size) > 1:  # of two halves neither is apart from the other
        return buckets, []
    bulk = list[Bucket]()
    outliers = list[Bucket]()
    for cluster, size in zip(clusters, sizes, strict=True):
        out = size < max_size and (size <= _MAX_APART * max_size or _is_impossible(cluster, scale))
        (outliers if out else bulk).extend(cluster)
    return bulk, outliers


def _is_impossible(cluster: list[Bucket], scale: str) -> bool:
    """Return whether no log is from then: 1970-01-01, before 1900, from 2100 on."""
    low = _second(cluster[0].low, scale)
    high = _second(cluster[-1].high, scale)
    return (abs(low) <= 86_400 and abs(high) <= 86_400) or high < -70 * YEAR or low > 130 * YEAR


def _apart_sentence(outliers: list[Bucket], total: int, time_range: str) -> str:
    count = sum(bucket.count for bucket in outliers)
    examples = ", ".join(f"{bucket.where}: {bucket.text}" for bucket in outliers[:_MAX_EXAMPLES])
    tail = ", …" if len(outliers) > _MAX_EXAMPLES or count > len(outliers) else ""
    return (
        f"{part_of(count, total, 'event', 'is', 'are')} years apart from the others ({time_range}): {examples}{tail}; "
        "correct the time or remove the event, because order and splits depend on it"
    )
