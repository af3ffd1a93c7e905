"""Events of a file with a sequence in each row, as a table with one event per row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from ensue.data.dates import Where
from ensue.data.files import Content
from ensue.data.histories import Index
from ensue.data.table import Table
from ensue.errors import DataError
from ensue.lines import plural, quoted

_NAMELESS = pl.Series(dtype=pl.String)


def session_table(
    items: pl.Series,
    lengths: Index,
    where: Where,
    *,
    times: pl.Series | None = None,
    names: pl.Series | None = None,
    notes: tuple[str, ...] = (),
    columns: Mapping[str, str] | None = None,
) -> Table:
    """Return the events of whole sequences as a table.

    Args:
        items: (events,) texts.
        lengths: (sequences,) number of events of each, none of them 0.
        where: place of an event in the file.
        times: (events,) numbers, dates or texts of either.
        names: (sequences,) texts.
        notes: for the report.
        columns: role -> column, for the report.

    Raises:
        DataError: an item is empty.
    """
    for event in (items.is_null() | (items.cast(pl.String) == "")).arg_true()[:1]:
        raise DataError(f"{where(event)}: a value is empty; every event needs one")
    # Sequences of 2 and 3 events have the numbers 0 0 1 1 1.
    frame = pl.DataFrame({"session": np.repeat(np.arange(len(lengths)), lengths), "item": items})
    if times is not None:
        frame = frame.with_columns(times.alias("time"))
    return Table("", frame, where, dict(columns or {}), notes, names=_NAMELESS if names is None else names)


def list_table(content: Content, frame: pl.DataFrame, where: Where, notes: tuple[str, ...] = ()) -> Table:
    """Return the events of a frame with a list of ``values`` and maybe an ``id`` in each row.

    Args:
        content: the file, for messages.
        frame: (rows) the lists; every further column is a list with an entry per value, such as ``times``.
        where: place of a row in the file.
        notes: for the report.

    Raises:
        DataError: no row has values, a value is empty, or a further list has as many entries as values in some rows
            only.
    """
    # Rows keep their place in the file when those without values go.
    frame = frame.with_row_index().with_columns(pl.col("^id$").cast(pl.String))
    lists = [name for name in frame.columns if name not in ("index", "id")]
    counts = frame.select(pl.col(lists).list.len().fill_null(0).cast(pl.Int64))
    is_filled = counts["values"] > 0
    frame = frame.filter(is_filled)
    counts = counts.filter(is_filled)
    if skipped := len(is_filled) - len(frame):
        notes = (*notes, f"{plural(skipped, 'empty history', 'empty histories')} skipped")
        # Answers are joined to the file by these numbers: a history that has no id keeps its own.
        ids = pl.col("id").replace("", None) if "id" in frame.columns else pl.lit(None, pl.String)
        frame = frame.with_columns(id=ids.fill_null((pl.col("index") + 1).cast(pl.String)))
    if not len(frame):
        raise DataError(f"{content.path}: holds no event")
    rows = frame["index"].to_numpy()
    columns = {}
    for name in (name for name in counts.columns[1:] if counts[name].max()):  # where no row has times there are none
        for row in (counts["values"] != counts[name]).arg_true()[:1]:
            values, entries = (plural(counts[key][row], key.removesuffix("s")) for key in ("values", name))
            raise DataError(
                f"{where(int(rows[row]))}: {values} but {entries}; give one {name.removesuffix('s')} per value, in "
                "every line or in none"
            )
        columns["time" if name == "times" else name] = frame[name].explode()
    # (events,) the row of each event, for messages: lists of 2 and 3 values have the rows 0 0 1 1 1.
    event_rows = np.repeat(rows, counts["values"].to_numpy())
    table = session_table(
        frame["values"].explode(),
        counts["values"].to_numpy(),
        lambda event: where(int(event_rows[event])),
        names=frame["id"].fill_null("") if "id" in frame.columns else None,
        notes=notes,
    )
    return replace(table, frame=table.frame.with_columns(**columns))


def filled_lines(content: Content) -> tuple[pl.Series, Index, tuple[str, ...]]:
    """Return :meth:`Content.filled_lines` without spaces around the lines."""
    lines, numbers, notes = content.filled_lines()
    return lines.str.strip_chars(), numbers, notes


def refuse(texts: pl.Series, is_wrong: pl.Series, content: Content, numbers: Index, expected: str) -> None:
    """Raise at the first text that is wrong; ``numbers`` are the lines of the texts.

    Raises:
        DataError: one of them is.
    """
    for row in is_wrong.arg_true()[:1]:
        raise DataError(f"{content.path}, line {numbers[row]}: {quoted(texts[row], 40)} does not fit; {expected}")


def split_ids(lines: pl.Series) -> pl.Series:
    """(lines,) lists of the words between spaces, however many spaces there are."""
    lines = lines.str.strip_chars()
    if lines.str.contains("  ", literal=True).any():  # most files have none, and splitting is then much faster
        lines = lines.str.replace_all(" +", " ")
    return lines.str.split(" ")
