"""Times: which unit a file keeps, and everything in seconds.

A stated unit wins; then the column's name (``time_ms``); then the values; then the layout's convention.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from ensue.data.day_order import read_dates
from ensue.data.histories import Times
from ensue.errors import DataError
from ensue.lines import quoted

UNITS = ("s", "ms", "h", "iso")
Where = Callable[[int], str]
WORDS = {"s": "seconds", "ms": "milliseconds", "h": "hours", "iso": "ISO dates"}
_SUFFIX = re.compile(r"_(?:(s|sec|seconds?)|(ms|millis|milliseconds?)|(h|hours?))$", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
# Numbers of 1973 and later: seconds since 1970 up to the year 5138, milliseconds from there on.
SINCE_1970, MILLISECONDS = 1e8, 1e11


@dataclass(frozen=True)
class Clock:
    """Times in seconds, and one sentence on how they were understood."""

    given: pl.Series
    """As in the file."""
    seconds: Times
    unit: str
    absolute: bool
    sentence: str


def read_clock(column: pl.Series, layout: str, where: Where, stated: str | None = None) -> Clock:
    """Understand a column of numbers, dates or texts of either kind.

    Args:
        column: (events,) named as in the file.
        layout: the file's layout, for its convention.
        where: the place of an event in the file, for messages.
        stated: a unit of ``UNITS``, or ``None`` to find out.

    Raises:
        DataError: a time that is empty, no number and no date, not finite, or in a different unit from the others.
    """
    column = without_commas(column, where)
    numbers, how = parse_times(column, where, stated)
    if how:
        return dates_clock(column, numbers, how)
    _refuse_mixture(numbers, where)
    unit, reason = _unit(numbers, column.name, layout, stated)
    seconds = in_seconds(numbers, unit)
    if seconds.max() >= MILLISECONDS:
        raise DataError(
            f"{where(int(seconds.argmax()))}: time {numbers.max():g} cannot be {WORDS[unit]} ({reason}); state the "
            "unit with --time-unit"
        )
    absolute = bool(seconds.min() >= SINCE_1970)
    since = " since 1970" if absolute else " from 0" if seconds.min() == 0 else ""
    return Clock(column, seconds, unit, absolute, f"{WORDS[unit]}{since} ({reason}), {_range(seconds, unit, absolute)}")


def in_seconds(times: Times, unit: str) -> Times:
    """Times of a unit in seconds; those of dates are."""
    return times / 1000 if unit == "ms" else times * 3600 if unit == "h" else times


def without_commas(column: pl.Series, where: Where) -> pl.Series:
    """Times as texts with a point where the first of them has a decimal comma.

    Raises:
        DataError: a time is empty.
    """
    if column.null_count():
        raise DataError(f"{where(_first(column.is_null()))}: time is empty; give every event a time")
    commas = column.dtype == pl.String and len(column) and _DECIMAL_COMMA.fullmatch(column[0].strip())
    return column.str.replace(",", ".", literal=True) if commas else column


def parse_times(column: pl.Series, where: Where, stated: str | None = None) -> tuple[Times, str]:
    """Numbers as they stand, or dates in seconds since 1970 and how these were read; nothing of numbers.

    Args:
        column: (events,) with no null.
        where: the place of an event in the file, for messages.
        stated: a unit of ``UNITS``, or ``None``; ``iso`` makes all of them dates.

    Raises:
        DataError: a time that is no number and no date, or not finite.
    """
    if _holds_dates(column, stated):
        return _parse_dates(column, where)
    return _parse_numbers(column, where), ""


def dates_clock(given: pl.Series, seconds: Times, how: str) -> Clock:
    """The clock of dates; ``how`` they were read."""
    return Clock(given, seconds, "iso", True, f"{how}, read as UTC, {_range(seconds, 'iso', True)}")


def is_number(text: object) -> bool:
    """Whether a text or a decoded JSON value reads as a number."""
    try:
        float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def named_unit(name: str) -> str | None:
    """The unit that a column's name ends with, as in ``time_ms``."""
    match = _SUFFIX.search(name)
    return UNITS[(match.lastindex or 1) - 1] if match else None


def format_time(seconds: float, unit: str, absolute: bool) -> str:
    """A time for people: a date to the minute, or a number in the file's unit."""
    if absolute and abs(seconds) < MILLISECONDS:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{seconds * 1000 if unit == 'ms' else seconds / 3600 if unit == 'h' else seconds:g}"


def _holds_dates(column: pl.Series, stated: str | None) -> bool:
    if column.dtype.is_temporal() or stated == "iso":
        return True
    return column.dtype == pl.String and stated is None and not is_number(column[0])


def _parse_dates(column: pl.Series, where: Where) -> tuple[Times, str]:
    """Seconds since 1970, and how the dates were read."""
    how = WORDS["iso"]
    if column.dtype.is_numeric():
        column = column.cast(pl.String)
    if column.dtype == pl.String and (parsed := read_dates(column.str.strip_chars(), where)) is not None:
        dates, how = parsed[0], f"dates as {parsed[1]}"
        if dates.null_count():
            place = _first(dates.is_null())
            raise DataError(
                f"{where(place)}: time {quoted(column[place])} is no date as {parsed[1]}, as which others are read"
            )
    elif column.dtype == pl.String:
        dates = column.str.strip_chars().str.to_datetime(strict=False, time_zone="UTC", time_unit="us")
        if dates.null_count():
            dates = _parse_mixed_dates(column, where)
    else:
        dates = column.cast(pl.Datetime("us"))
    return dates.dt.timestamp("us").to_numpy() / 1e6, how


def _parse_mixed_dates(column: pl.Series, where: Where) -> pl.Series:
    """Dates in more than one ISO form, each distinct text once."""
    dates_of = {text: _iso(text.strip()) for text in column.unique()}
    dates = column.replace_strict(dates_of, return_dtype=pl.Datetime("us", "UTC"))
    if dates.null_count():
        _refuse_text(column, dates, where)
    return dates


def _iso(text: str) -> datetime | None:
    try:
        date = datetime.fromisoformat(text)
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _parse_numbers(column: pl.Series, where: Where) -> Times:
    texts = column.str.strip_chars() if column.dtype == pl.String else column
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count():
        _refuse_text(column, numbers, where)
    times = numbers.to_numpy()
    finite = np.isfinite(times)
    if not finite.all():
        place = int(np.argmin(finite))
        raise DataError(f"{where(place)}: time {times[place]} is not a finite number")
    return times


def _refuse_text(column: pl.Series, parsed: pl.Series, where: Where) -> None:
    place = _first(parsed.is_null())
    raise DataError(f"{where(place)}: time {quoted(column[place])} is not a number or an ISO date")


def _refuse_mixture(numbers: Times, where: Where) -> None:
    if not SINCE_1970 <= numbers.min() < MILLISECONDS <= numbers.max():
        return
    coarse = numbers < MILLISECONDS
    place = int(np.argmax(coarse != coarse[0]))
    first, other = ("seconds", "milliseconds") if coarse[0] else ("milliseconds", "seconds")
    raise DataError(
        f"{where(place)}: time {numbers[place]:.0f} looks like {other} since 1970, but the file begins in {first}; "
        "give all times in one unit"
    )


def _unit(numbers: Times, name: str, layout: str, stated: str | None) -> tuple[str, str]:
    """The unit, and the reason given in the sentence."""
    low, high = numbers.min(), numbers.max()
    if stated is not None:
        return stated, "as stated"
    if named := named_unit(name):
        return named, f"by the column's name {quoted(name)}"
    if layout.endswith("histories"):
        return "s", "the record's convention"
    if low >= SINCE_1970:
        return "s" if low < MILLISECONDS else "ms", f"inferred: values near {low:.1e}".replace("e+", "e").replace(
            "e0", "e"
        )
    if layout in ("forest", "ms-hgat", "topo-lstm") and low >= 2e5 and high <= 7e5:
        return "h", f"inferred: values near {low:.0f}"
    if layout == "hidan":
        return "h", "the layout's convention"
    return "s", "assumed: state the unit with --time-unit"


def _range(seconds: Times, unit: str, absolute: bool) -> str:
    return " to ".join(format_time(float(t), unit, absolute) for t in (seconds.min(), seconds.max()))


def _first(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0)
