"""The clock of a log that is read in pieces: what is known of all times so far, and what it comes to in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from ensue.data.clock import (
    MILLISECONDS,
    Clock,
    Where,
    dates_clock,
    parse_times,
    read_clock,
    without_commas,
)
from ensue.data.day_order import has_year_last, telling_date
from ensue.data.histories import Times
from ensue.errors import DataError

Search = Callable[[Callable[[pl.Series], str | None]], str | None]
"""Looks through the times of the whole log, piece by piece, until a function of some of them says something."""


@dataclass
class RunningClock:
    """The least, the first and the greatest of the times so far, and how they were written; JSON in between runs."""

    name: str = ""
    how: str | None = None
    """How dates were read, empty of numbers; ``None`` before there was a time."""
    first: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    begin: str = ""
    """The place of the first time."""
    odd: str = ""
    """The place of a time whose unit looks like another than that of the first."""
    large: str = ""
    """The place of a time that may be too great for any unit."""
    witness: str | None = None
    """A date of the log that tells which number is the day, where the first needs one."""

    def add(self, column: pl.Series, where: Where, stated: str | None, search: Search) -> Times:
        """The times of a piece, numbers as they stand or seconds of dates.

        Raises:
            DataError: a time that is empty, no number and no date, or written otherwise than those before.
        """
        column = without_commas(column, where)
        if self.how is None and column.dtype == pl.String and has_year_last(column[0].strip()):
            self.witness = search(telling_date)
        if self.witness is not None:  # stands above the piece, so that it is read as the whole log is
            column = pl.concat([pl.Series(column.name, [self.witness]), column])
            where = partial(_one_down, where)
        times, how = parse_times(column, where, stated)
        if self.witness is not None:
            times, where = times[1:], partial(_one_up, where)
        if self.how is None:
            self.name, self.how, self.first, self.begin = column.name, how, float(times[0]), where(0)
        _require_same(how, self.how, where(0), self.begin)
        self._note(times, where)
        return times

    def then(self, other: RunningClock) -> RunningClock:
        """The clock of a log that goes on with what another has seen.

        Raises:
            DataError: times are written otherwise there.
        """
        _require_same(other.how, self.how, other.begin, self.begin)
        odd = other.begin if (other.first < MILLISECONDS) != (self.first < MILLISECONDS) else other.odd
        return replace(
            self,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            odd=self.odd or ("" if self.how else odd),
            large=self.large or other.large,
        )

    def _note(self, times: Times, where: Where) -> None:
        self.low, self.high = min(self.low, float(times.min())), max(self.high, float(times.max()))
        if self.how or self.high < MILLISECONDS:
            return
        if not self.large:
            self.large = where(int(times.argmax()))
        other = (times < MILLISECONDS) != (self.first < MILLISECONDS)
        if not self.odd and other.any():
            self.odd = where(int(other.argmax()))

    def end(self, layout: str, stated: str | None) -> Clock:
        """What the whole log comes to; its ``seconds`` are those of the first, the least and the greatest time.

        Raises:
            DataError: the times are in two units, or in one that they cannot be in.
        """
        few = pl.Series(self.name, [self.first, self.low, self.high])
        if self.how:
            return dates_clock(few, few.to_numpy(), self.how)
        return read_clock(few, layout, lambda _: self.odd or self.large or self.begin, stated)


def _require_same(how: str | None, first: str | None, place: str, begin: str) -> None:
    if how != first:
        ways = [found or "numbers" for found in (how, first)]
        raise DataError(f"{place}: times are {ways[0]} here, but {ways[1]} at {begin}; write all times in one way")


def _one_down(where: Where, row: int) -> str:
    return where(max(row - 1, 0))


def _one_up(where: Where, row: int) -> str:
    return where(row + 1)
