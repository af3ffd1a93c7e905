"""Events of a file before their times are parsed, and constructors for readers of lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from ensue.data.dates import Where
from ensue.data.file_bytes import KEEP
from ensue.data.files import Content
from ensue.data.histories import Index
from ensue.data.ids import IdColumns
from ensue.data.table import Table
from ensue.errors import DataError
from ensue.lines import quoted


@dataclass(frozen=True)
class Events:
    """Events of a file, session after session, before their times are parsed."""

    values: pl.Series
    """(events,) categorical."""
    times: pl.Series | None
    """(events,) numbers, dates or texts of either."""
    lengths: Index
    """(sequences,) number of events of each."""
    names: pl.Series
    """(sequences,) texts, or empty."""
    where: Where
    """The place of an event in the file."""
    columns: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unordered: bool = False
    """True if the layout is known to keep events in no order of time."""


def filled_lines(content: Content) -> tuple[pl.Series, Index, tuple[str, ...]]:
    """Return :meth:`Content.filled_lines` without spaces around the lines."""
    lines, numbers, notes = content.filled_lines()
    return lines.str.strip_chars(), numbers, notes


def refuse(texts: pl.Series, wrong: pl.Series, content: Content, numbers: Index, expected: str) -> None:
    """Raise at the first text that is wrong.

    Args:
        texts: the texts.
        wrong: which of them are.
        content: their file.
        numbers: the line of each.
        expected: what to do.

    Raises:
        DataError: one of them is.
    """
    rows = wrong.arg_true()
    if len(rows):
        text = quoted(texts[rows[0]], 40)
        raise DataError(f"{content.path}, line {numbers[rows[0]]}: {text} does not fit; {expected}")


def events_of(
    content: Content,
    values: pl.Series,
    times: pl.Series | None,
    numbers: Index,
    notes: tuple[str, ...],
    names: pl.Series | None = None,
) -> Events:
    """Events of a list of values, and maybe one of times, a line; see :func:`flat_events`."""
    lengths = values.list.len().to_numpy()
    at = np.repeat(numbers, lengths)
    flat_times = None if times is None else times.explode()
    return flat_events(content, values.explode(), flat_times, lengths, at, notes, names)


def flat_events(
    content: Content,
    values: pl.Series,
    times: pl.Series | None,
    lengths: Index,
    at: Index,
    notes: tuple[str, ...],
    names: pl.Series | None = None,
) -> Events:
    """Events of a file of lines.

    Args:
        content: the file.
        values: (events,) texts.
        times: (events,) or ``None``.
        lengths: (sequences,) number of events of each.
        at: (events,) the line of each.
        notes: for the report.
        names: (sequences,) or ``None``.

    Raises:
        DataError: an empty value.
    """

    def where(event: int) -> str:
        return f"{content.path}, line {at[event]}"

    session_names = pl.Series(dtype=pl.String) if names is None else names
    return Events(
        categorical(values.str.strip_chars(), where), times, lengths.astype(np.int64), session_names, where, notes=notes
    )


def categorical(values: pl.Series, where: Where) -> pl.Series:
    """Values as categories.

    Raises:
        DataError: one is empty.
    """
    empty = (values.is_null() | (values == "")).arg_true()
    if len(empty):
        raise DataError(f"{where(empty[0])}: a value is empty; every event needs one")
    return values.cast(pl.Categorical)


def with_ids(events: Events, ids: IdColumns) -> Events:
    """Return events with their values and the names of their sequences in normal form.

    Events without a value are left out, and sequences of which none is left.

    Raises:
        DataError: a value was rounded, or none is left.
    """
    row = pl.int_range(len(events.values), eager=True)
    table = ids.normalise(Table("", pl.DataFrame({"item": events.values, "row": row}), events.where, {}, ()))
    names = events.names
    if len(names):
        name_table = Table("", pl.DataFrame({"session": names}), events.where, {}, ())
        names = replace(ids, missing=KEEP, tallies={}, whole={}).normalise(name_table).frame["session"]
    rows = table.frame["row"].to_numpy()
    lengths, times, where = events.lengths, events.times, events.where
    if len(rows) < len(events.values):
        owners = np.repeat(np.arange(len(lengths)), lengths)[rows]
        lengths = np.bincount(owners, minlength=len(lengths)).astype(np.int64)
        filled = lengths > 0
        lengths, names = lengths[filled], names.filter(filled) if len(names) else names
        times = None if times is None else times.gather(rows)
    return replace(
        events,
        values=table.frame["item"],
        times=times,
        lengths=lengths,
        names=names,
        where=lambda event: where(int(rows[event])),
        notes=(*events.notes, *ids.notes),
        warnings=ids.warnings,
    )
