"""The clock of a log that is read in pieces: a summary of all times so far, and what it comes to in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from ensue.data.clock import TimeFormat, TimeOptions, format_of, parse_times
from ensue.data.dates import has_year_last, telling_date
from ensue.data.histories import Times
from ensue.data.time_summary import TimeSummary, Where
from ensue.errors import DataError

Search = Callable[[Callable[[pl.Series], str | None]], str | None]
"""Looks through the times of the whole log, piece by piece, until a function of some of them says something."""


@dataclass
class RunningClock:
    """A summary of the times so far, and how they were written; JSON in between runs."""

    name: str = ""
    words: str | None = None
    """How dates were read, empty of numbers; ``None`` before there was a time."""
    day_first: bool | None = None
    """The order of day and month in dates whose year comes last."""
    begin: str = ""
    """The place of the first time."""
    witness: str | None = None
    """A date of the log that tells which number is the day, where the first needs one."""
    summary: TimeSummary = field(default_factory=TimeSummary)

    @classmethod
    def from_dict(cls, fields: dict[str, object]) -> RunningClock:
        """Rebuild from ``dataclasses.asdict``."""
        return cls(**{**fields, "summary": TimeSummary.from_dict(**fields["summary"])})  # type: ignore

    def add(self, column: pl.Series, where: Where, options: TimeOptions, search: Search) -> Times:
        """Return the times of a piece, numbers as they stand or seconds of dates.

        Raises:
            DataError: a time that is empty, no number and no date, or written otherwise than those before.
        """
        dated = column.dtype == pl.String and bool(len(column)) and column[0] is not None
        if self.words is None and dated and options.day_first is None and has_year_last(column[0].strip()):
            self.witness = search(telling_date)
        if self.witness is None:
            parsed = parse_times(column, where, options)
        else:  # stands above the piece, so that it is read as the whole log is
            above = pl.concat([pl.Series(column.name, [self.witness]), column])
            parsed = parse_times(above, partial(_one_down, where), options)
            parsed = replace(parsed, numbers=parsed.numbers[1:])
        if self.words is None:
            self.name, self.words, self.day_first, self.begin = column.name, parsed.words, parsed.day_first, where(0)
        _require_same(parsed.words, self.words, where(0), self.begin)
        self.summary.add(TimeSummary.of(parsed, column, where))
        return parsed.numbers

    def then(self, other: RunningClock) -> RunningClock:
        """Take in what another has seen of the log that goes on, and return the whole.

        Raises:
            DataError: times are written otherwise there.
        """
        _require_same(other.words, self.words, other.begin, self.begin)
        self.summary.add(other.summary)
        return self

    def end(self, layout: str, options: TimeOptions) -> TimeFormat:
        """What the whole log comes to.

        Raises:
            DataError: the times are in two units, or in one that they cannot be in.
        """
        return format_of(self.summary, self.words or "", self.name, layout, options, self.day_first)


def _require_same(words: str | None, first: str | None, place: str, begin: str) -> None:
    if words != first:
        ways = [way or "numbers" for way in (words, first)]
        raise DataError(f"{place}: times are {ways[0]} here, but {ways[1]} at {begin}; write all times in the same way")


def _one_down(where: Where, row: int) -> str:
    return where(max(row - 1, 0))
