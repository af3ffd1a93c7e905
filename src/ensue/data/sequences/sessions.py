"""Sessions out of logs that keep them otherwise: as pauses, as lists with a target, as days with an offset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ensue.data.dates import Where
from ensue.data.delimited import Delimited
from ensue.data.files import Content
from ensue.data.histories import Histories, ranges
from ensue.data.sequences.events import Events
from ensue.data.sequences.formats import list_events, split_ids
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted

GAP = 30.0
"""Minutes without a click that end a session, the convention of web analytics."""
# Less than a microsecond, more than the rounding of seconds since 1970 in 64 bits.
_SLACK = 5e-7


def check_gap(gap: float | None) -> None:
    """Refuse what cannot be a pause.

    Raises:
        SettingError: negative or not finite.
    """
    if gap is not None and not (math.isfinite(gap) and gap >= 0):
        raise SettingError(f"gap: {gap} is not a pause; give minutes, such as 30, or 0 to keep sessions whole")


def cut(histories: Histories, gap: float) -> Histories:
    """Begin a new history wherever an event comes more than ``gap`` minutes after the one before.

    The parts of ``u`` are called ``u#1``, ``u#2``, …, and stand where ``u`` stood. A pause of exactly ``gap`` does not
    cut.

    Args:
        histories: with times, none of them empty.
        gap: minutes.
    """
    # Of u with 4 events and v with 2, and a pause after the second: starts 0 2 4, owners 0 0 1, parts 2 1, and names
    # u#1 u#2 v#1.
    begins = np.ones(len(histories.ids), np.bool_)
    begins[1:] = np.diff(histories.times) > 60 * gap + _SLACK
    begins[histories.offsets[:-1]] = True
    starts = np.flatnonzero(begins)
    owners = np.searchsorted(histories.offsets, starts, side="right") - 1
    num_parts = np.bincount(owners, minlength=len(histories))
    names = histories.names
    if len(names):
        numbers = pl.Series(ranges(np.ones_like(num_parts), num_parts)).cast(pl.String)
        names = names.gather(owners) + "#" + numbers
    return replace(histories, offsets=np.append(starts, len(histories.ids)).astype(np.int64), names=names)


def drop_prefixes(histories: Histories) -> Histories:
    """Leave out every history that begins a longer, or repeats an equal, history of the same name.

    Files made for training on prefixes hold each session once a target; the longest has all the targets.
    """
    if not len(histories.names) or histories.names.n_unique() == len(histories):
        return histories
    codes, lengths = histories.names.rank("dense").to_numpy(), histories.lengths
    # In order of name, then of length, each history is compared with the next: of a, a b and a b c the first two go.
    order = np.lexsort((lengths, codes))
    short, long = order[:-1], order[1:]
    together = codes[short] == codes[long]
    short, long = short[together], long[together]
    low, shared = histories.offsets, lengths[short]
    equal = histories.ids[ranges(low[short], shared)] == histories.ids[ranges(low[long], shared)]
    begins = np.logical_and.reduceat(equal, np.cumsum(shared) - shared)
    is_kept = np.ones(len(histories), np.bool_)
    is_kept[short[begins]] = False
    return histories.select(is_kept)


def add_offsets(day: pl.Series, offset: pl.Series, where: Where) -> pl.Series:
    """Days moved on by the milliseconds beside them, so that a session's clicks have their order.

    Raises:
        DataError: a day that is no date, or an offset that is no number.
    """
    if day.dtype == pl.String:
        dates = day.str.strip_chars().str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    else:
        dates = day.cast(pl.Datetime("us"))
    passed = offset.str.strip_chars() if offset.dtype == pl.String else offset
    milliseconds = passed.cast(pl.Float64, strict=False)
    _refuse(day, dates.is_null(), "a date such as 2016-05-09", where)
    _refuse(offset, milliseconds.is_null() | ~milliseconds.is_finite(), "a number of milliseconds", where)
    return (dates + (milliseconds * 1000).round().cast(pl.Int64).cast(pl.Duration("us"))).rename(day.name)


@dataclass(frozen=True)
class Lists:
    """The columns of a RecBole file with a whole session in a row."""

    values: str
    target: str | None
    times: str | None
    target_time: str | None
    name: str | None

    @property
    def used(self) -> list[str]:
        """The columns there are."""
        names = (self.values, self.target, self.times, self.target_time, self.name)
        return [name for name in names if name is not None]


def find_lists(header: Sequence[str]) -> Lists | None:
    """The list columns in a typed header, ``item_id_list:token_seq`` and those that go with it, or ``None``."""
    plain = {name.split(":")[0]: name for name in header}
    values = next((name for name in header if name.endswith("_list:token_seq")), None)
    if values is None:
        return None
    target = plain.get(values.removesuffix("_list:token_seq"))
    times = next((name for name in header if name.endswith("_list:float_seq") and "time" in name), None)
    target_time = plain.get(times.removesuffix("_list:float_seq")) if times else None
    name = plain.get("session_id", plain.get("user_id"))
    return Lists(values, target, times, target_time if target else None, name)


def read_lists(content: Content, delimited: Delimited, lists: Lists) -> Events:
    """Each row's list with its target at the end: one whole session.

    Raises:
        DataError: a row without a target, a row without a name, or not one time a value.
    """
    frame = delimited.read(lists.used)
    filled = ~pl.all_horizontal(pl.col(name).is_null() for name in lists.used)
    is_filled = frame.select(filled).to_series()
    rows, frame = is_filled.arg_true().to_numpy(), frame.filter(is_filled)
    notes = (f"{plural(len(is_filled) - len(frame), 'empty row')} skipped",) if len(frame) < len(is_filled) else ()

    def place(row: int) -> str:
        return delimited.where(int(rows[row]))

    for column in (lists.target, lists.name, lists.target_time):
        empty = pl.Series() if column is None else (frame[column].fill_null("") == "").arg_true()
        if len(empty):
            raise DataError(f"{place(empty[0])}: column {quoted(column)} is empty; every row needs a session")
    columns_joined = {"values": _joined(frame, lists.values, lists.target)}
    if lists.times is not None:
        columns_joined["times"] = _joined(frame, lists.times, lists.target_time)
    if lists.name is not None:
        columns_joined["id"] = frame[lists.name]
    events = list_events(content, pl.DataFrame(columns_joined), place, notes)
    columns = {"item": " + ".join(filter(None, [lists.values, lists.target]))}
    if lists.name is not None:
        columns["session"] = lists.name
    if lists.times is not None:
        columns["time"] = " + ".join(filter(None, [lists.times, lists.target_time]))
    return replace(events, columns=columns)


def _joined(frame: pl.DataFrame, listed: str, last: str | None) -> pl.Series:
    """(rows,) lists, the last element from a column of its own; ``None`` where there is none at all."""
    lines = (frame[listed].fill_null("") + " " + (frame[last] if last else "")).str.strip_chars()
    return pl.select(pl.when(lines != "").then(split_ids(lines))).to_series()


def _refuse(column: pl.Series, wrong: pl.Series, expected: str, where: Where) -> None:
    rows = wrong.arg_true()
    if len(rows):
        text = column[rows[0]]
        if text is None:
            raise DataError(f"{where(rows[0])}: {column.name} is empty; give every event a time")
        raise DataError(f"{where(rows[0])}: {column.name} {quoted(text)} is not {expected}")
