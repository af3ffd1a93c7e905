"""Dates as people write them, ``31.12.2023`` or ``12/31/2023 1:05 PM``: a column tells which number is the day."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from ensue.errors import DataError
from ensue.lines import quoted

_DATE = (
    r"^(\d{1,2})([./-])(\d{1,2})[./-](\d{4})"
    r"(?:,?[ T]+(\d{1,2}):(\d{2})(?::(\d{2}))?(?: ?([AaPp])\.?[Mm]\.?)?)?$"
)
_ISO = "write ISO dates, such as 2023-12-31"


def telling_date(texts: pl.Series) -> str | None:
    """The first date whose year comes last and that tells which number is its day; ``None`` where none does."""
    parts = texts.str.extract_groups(_DATE).struct.unnest()
    late = [(parts[name].cast(pl.Int64) > 12).fill_null(value=False) for name in ("1", "3")]
    place = (late[0] | late[1]).arg_true()
    return texts[place[0]] if len(place) else None


def has_year_last(text: str) -> bool:
    """Whether a text looks like a date whose year comes last."""
    return bool(pl.Series([text]).str.contains(_DATE)[0])


def read_dates(texts: pl.Series, where: Callable[[int], str]) -> tuple[pl.Series, str] | None:
    """Dates whose year comes last, and the order that was taken.

    A number above 12 is a day. Where no date of the column has one, points mean day.month.year, as wherever they are
    written; slashes and hyphens mean one or the other, depending on the country.

    Args:
        texts: (events,) without spaces around them.
        where: the place of an event in the file, for messages.

    Returns:
        (events,) dates of UTC, null where a text is none, and such as ``day/month/year``; ``None`` where no text looks
        like such a date.

    Raises:
        DataError: day and month cannot be told apart, or change places within the column.
    """
    parts = texts.str.extract_groups(_DATE).struct.unnest()
    if parts["1"].null_count() == len(texts):
        return None
    numbers = {name: parts[name].cast(pl.Int64) for name in ("1", "3", "5")}
    late = {name: (numbers[name] > 12).fill_null(value=False) for name in ("1", "3")}
    place, mark = int(parts["1"].is_not_null().arg_max() or 0), parts["2"].drop_nulls()[0]
    if late["1"].any() and late["3"].any():
        first, then = sorted(int(late[name].arg_max() or 0) for name in ("1", "3"))
        raise DataError(
            f"{where(then)}: time {quoted(texts[then])} has day and month the other way round than "
            f"{quoted(texts[first])} before it; {_ISO}"
        )
    if not late["1"].any() and not late["3"].any() and mark != ".":
        raise DataError(
            f"{where(place)}: time {quoted(texts[place])} may begin with the day or with the month, and no time of the "
            f"file tells which; {_ISO}"
        )
    day, month = ("3", "1") if late["3"].any() else ("1", "3")
    hour = numbers["5"].fill_null(0)
    afternoon = parts["8"].str.to_lowercase()
    hour = hour.zip_with(afternoon.is_null(), hour % 12 + 12 * (afternoon == "p").fill_null(value=False).cast(pl.Int64))
    written = parts.select(
        pl.concat_str(
            *("4", pl.lit("-"), month, pl.lit("-"), day, pl.lit(" "), hour.cast(pl.String), pl.lit(":")),
            *(pl.col("6").fill_null("00"), pl.lit(":"), pl.col("7").fill_null("00")),
        )
    ).to_series()
    dates = written.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_zone="UTC", time_unit="us")
    return dates, f"month{mark}day{mark}year" if day == "3" else f"day{mark}month{mark}year"
