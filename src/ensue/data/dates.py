"""Dates as programs and people write them: ISO 8601, RFC 2822, ``31.12.2023``, ``12/31/2023 1:05 PM`` and others.

A date with a zone is converted to UTC, one without is read as UTC. Where the year comes last and the month is a number,
the column determines which number is the day: a number above 12 is one. Where no date of the column has such a number,
the order has to be stated. :class:`TimeSummary` describes all times of a column, over all pieces of a log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import polars as pl

from ensue.data.histories import Times
from ensue.errors import DataError
from ensue.lines import quoted

Where = Callable[[int], str]
CALENDARS = {"%Y%m%d": 8, "%Y%m%d%H": 10, "%Y%m%d%H%M": 12, "%Y%m%d%H%M%S": 14}
"""Dates written as one number, and how many digits it has."""


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


HOURS = re.compile(r"(?i)(?:hour|hour_?of_?day|stunde|heure|hora|hr)$")
"""The end of the name of a column of hours."""
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
_END = rf"(?:(?:,? +(?:@ |at )?|[T,:]){_CLOCK})?{_ZONE}$"
_YEAR_LAST = rf"^(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<then>\d{{1,2}})[./-](?P<year>\d{{4}}){_END}"
_SHAPES = (
    rf"^(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}}){_END}",
    # 20231114T221320Z
    r"^(?P<year>\d{4})-?(?P<month>\d{2})-?(?P<day>\d{2})"
    r"(?:[T ]?(?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    rf"{_ZONE}$",
    # Wed, 27 Aug 2008 13:08:45 +0000; 27/Aug/2008:13:08:45 +0000, as in logs of web servers
    rf"^{_WEEKDAY}(?P<day>\d{{1,2}})[ /-]{_MONTH}\.?,?[ /-](?P<year>\d{{4}}){_END}",
    # August 27, 2008 at 1:08 PM; Aug 27, 2008 @ 13:08:45.000; Wed Aug 27 2008 13:08:45 GMT+0000 (Greenwich Time)
    rf"^{_WEEKDAY}{_MONTH}\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_END}",
    # Wed Aug 27 13:08:45 +0000 2008
    rf"^{_WEEKDAY}{_MONTH} +(?P<day>\d{{1,2}}) {_CLOCK}{_ZONE} (?P<year>\d{{4}})$",
)


def join_days(days: pl.Series, clocks: pl.Series) -> pl.Series:
    """Return (events,) texts of a day and a time of day; null where either is missing.

    Args:
        days: (events,) dates, or texts or numbers of dates, perhaps with their midnight.
        clocks: (events,) times of day, named as in the file. Numbers are hours in a column of hours, and hours, minutes
            and seconds elsewhere: 32815 is 03:28:15.
    """
    days, texts = (
        column.cast(pl.String).str.strip_chars().str.strip_suffix(".0").replace("", None) for column in (days, clocks)
    )
    if HOURS.search(clocks.name):
        texts = texts.str.replace(r"^(\d{1,2})$", "$1:00")
    # 32815 becomes #0000032815, of which the last six digits are taken; longer numbers stay what they are.
    digits = texts.str.replace(r"^(\d{1,6})$", "#00000$1").str.replace(r"^#\d*(\d\d)(\d\d)(\d\d)$", "$1:$2:$3")
    return days.str.replace(r"[T ]00:00(?::00(?:\.0*)?)?$", "") + " " + digits.str.strip_prefix("0 days ")


def are_day_and_clock(days: pl.Series, clocks: pl.Series) -> bool:
    """Return whether two columns of texts are days and times of day."""
    texts = join_days(days, clocks).drop_nulls()
    with suppress(DataError):
        return len(texts) > 0 and len(parse_dates(texts, str, usual=True).numbers) > 0
    return False


def calendar_seconds(numbers: Times, calendar: str) -> Times:
    """Return seconds since 1970 of numbers such as 20231114; NaN of what is no date from 1900 to 2100."""
    remaining = numbers.astype(np.int64) * 10 ** (14 - CALENDARS[calendar])
    # 20231114221320 is cut from its end: 20 seconds, 13 minutes, 22 hours, day 14, month 11, and the year is left.
    fields = []
    for _ in range(5):
        fields.append(remaining % 100)
        remaining = remaining // 100
    second, minute, hour, day, month = fields
    is_date = (remaining >= 1900) & (remaining <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    is_valid = is_date & (hour < 24) & (minute < 60) & (second < 60)
    months = ((remaining - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return np.where(is_valid, days * 86_400.0 + hour * 3_600 + minute * 60 + second, np.nan)


def fits_calendar(numbers: Times, calendar: str) -> bool:
    """Return whether all numbers are dates of a calendar such as ``%Y%m%d``."""
    digits = CALENDARS[calendar]
    if not len(numbers) or numbers.min() < 10.0 ** (digits - 1) or numbers.max() >= 10.0**digits:
        return False
    return not np.isnan(calendar_seconds(numbers, calendar)).any()


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
    order = None
    if groups["year"].null_count() < len(texts):
        mark = groups["mark"].drop_nulls()[0]
        order = _order(texts, groups, where, day_first, usual)
        day, month = ("first", "then") if order else ("then", "first")
        moments = _moments(groups.rename({day: "day", month: "month"}))
        layout = f"day{mark}month{mark}year" if order else f"month{mark}day{mark}year"
        words = f"dates as {layout}"
        expected = f"is not a date written as {layout}, like the others"
    else:
        moments = _fast(texts)
        # Each shape is tried on the texts that are left.
        for shape in _SHAPES if moments.null_count() else ():
            rows = moments.is_null().arg_true()
            moments = moments.scatter(rows, _moments(_parts(texts.gather(rows), shape)))
        words = "dates with names of months" if re.match("[0-9]*[ /-]?[A-Za-z]", texts[0]) else "ISO dates"
        expected = "is not a time; use seconds since 1970, ISO 8601, or --time-unit"
    for row in moments.is_null().arg_true()[:1]:
        if re.fullmatch(_CLOCK, texts[row]):
            expected = "has no date; write date and time of day into one column, as in 2023-11-14 22:13"
        raise DataError(f"{where(row)}: time {quoted(texts[row])} {expected}")
    seconds = np.asarray(moments.dt.timestamp("us").to_numpy() / 1e6, np.float64)
    return ParsedTimes(seconds, words, _has_zones(texts), order)


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


def _order(texts: pl.Series, groups: pl.DataFrame, where: Where, stated: bool | None, usual: bool | None) -> bool:
    """Return whether the day comes first: as stated, as a number above 12 tells, or as in the training data.

    Raises:
        DataError: a date contradicts another one or what is stated, or nothing tells the order.
    """
    late = {name: (groups[name].cast(pl.Int64) > 12).fill_null(value=False) for name in ("first", "then")}
    rows = {name: int(column.arg_max() or 0) for name, column in late.items() if column.any()}
    if len(rows) == 2:
        earlier, later = sorted(rows.values())
        raise DataError(
            f"{where(later)}: time {quoted(texts[later])} swaps day and month, unlike {quoted(texts[earlier])} before "
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
    by_mark = True if groups["mark"].drop_nulls()[0] == "." else None  # nobody writes month.day.year
    for order in (stated, proved, usual, by_mark):
        if order is not None:
            return order
    row = int(groups["year"].is_not_null().arg_max() or 0)
    raise DataError(
        f"{where(row)}: time {quoted(texts[row])} may be day-first or month-first, and no time in the file "
        f"decides it; {ASK}, or write ISO dates, such as 2023-12-31"
    )
