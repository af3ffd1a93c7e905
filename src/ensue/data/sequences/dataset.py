"""Tables and cascades in, :class:`~ensue.data.histories.Histories` out: CSV, TSV, JSON Lines, Parquet, one call.

Everything stays columnar: rows are put in order by runs of equal sequences, values get ids by their categories, and
Python objects exist per distinct value only. Line numbers are computed when an error needs one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl

from ensue.data.clock import Clock, Where, is_number, read_clock
from ensue.data.delimited import Delimited
from ensue.data.files import Content, answering
from ensue.data.histories import Histories, Ids, Index, offsets_of
from ensue.data.packed import Opening
from ensue.data.report import Clocked, ReadReport
from ensue.data.roles import Found
from ensue.data.sequences.columns import WITHIN, find_columns, is_retailrocket, is_typed, is_user_log
from ensue.data.sequences.events import Events
from ensue.data.sequences.formats import READERS, list_events, read_lists_of_parquet, recognise
from ensue.data.sequences.sessions import GAP, add_offsets, check_gap, cut, drop_prefixes, find_lists, read_lists
from ensue.data.table import ReadOptions, Table, read_delimited, read_json, read_parquet
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted
from ensue.vocabulary import FIRST, Vocabulary

_SEPARATORS = ("\t", ",", ";", "|")
UNORDERED = ("diginetica", "retailrocket", "recbole", "deephawkes")
"""Layouts known to keep events in no order of time."""
_YOOCHOOSE = ("session", "time", "item", "category")


@dataclass(frozen=True, kw_only=True)
class SequencesReport(ReadReport, Clocked):
    """What the reader understood of a file of sequences."""

    @property
    def details(self) -> str:
        """How its times were read."""
        return f"time: {self.time}"


def read(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    sort: bool = True,
    gap: float | None = None,
    **opening: Unpack[Opening],
) -> tuple[Histories, SequencesReport]:
    """Read a file of events or of sequences; its layout is found by its shape.

    Args:
        path: a plain or packed file, Parquet or Excel.
        columns: ``sequence``, ``value`` and ``time`` to column names, where the names do not speak for themselves.
        time_unit: ``s``, ``ms``, ``h`` or ``iso``; found out unless stated.
        sort: whether to put the events of a sequence in order of time, or to refuse those that are not; ties keep the
            file's order. Layouts known to be in no order (Diginetica, RetailRocket's events, RecBole) are sorted
            anyway.
        gap: minutes: a sequence is cut wherever the next event comes later than that, ``u`` into ``u#1``, ``u#2``, ….
            0 never cuts. Unless stated, 30 for a click log that knows users, items and times since 1970 but no
            sessions, and otherwise 0.
        opening: ``encoding``, ``sheet`` and ``max_unpacked``, see :class:`~ensue.data.packed.Opening`.

    Returns:
        Histories in order of first appearance, times in seconds, and what was understood.

    Raises:
        DataError: naming the file, the line, the field and what to do.
        SettingError: an unknown role or unit, a gap that is no pause, or one for a file without times.
    """
    options = ReadOptions(columns=columns or {}, time_unit=time_unit, **opening)
    check_gap(gap)
    with answering(path):
        content = options.open(path)
        layout, events = _read_events(content, options)
        clock = None if events.times is None else read_clock(events.times, layout, events.where, time_unit)
        if gap and clock is None:
            raise SettingError(f"{path}: has no times to cut by; leave --gap out")
        histories, notes = _histories(events, clock, sort)
    users = is_user_log(events.columns) and "sequence" not in (columns or {})
    histories, cut_notes = _cut(histories, gap, layout, users and clock is not None and clock.absolute)
    report = SequencesReport(
        path=str(path),
        layout=layout,
        columns=events.columns,
        time=clock.sentence if clock else "none: no usable clock",
        unit=clock.unit if clock else None,
        absolute=clock is not None and clock.absolute,
        notes=content.notes + events.notes + notes + cut_notes,
        byte_order_mark=content.byte_order_mark,
    )
    return histories, report


def _histories(events: Events, clock: Clock | None, sort: bool) -> tuple[Histories, tuple[str, ...]]:
    ids, distinct = _first_arrival(events.values)
    offsets = offsets_of(events.lengths)
    histories = Histories(ids + np.int32(FIRST), offsets, Vocabulary(distinct), names=events.names)
    return (histories, ()) if clock is None else _in_order(histories, clock, events.where, sort or events.unordered)


def _cut(histories: Histories, gap: float | None, layout: str, users: bool) -> tuple[Histories, tuple[str, ...]]:
    """Sequences cut by pauses where that is wanted, and rows left out that begin a longer row."""
    if layout == "recbole lists":
        whole = drop_prefixes(histories)
        left = len(histories) - len(whole)
        note = (
            f"{left:,} of {plural(len(histories), 'row')} left out: a longer row of the same session begins with them"
        )
        histories, notes = whole, (note,) if left else ()
    elif gap is None and users and layout == "recbole":
        return histories, (f"a user is one sequence, as in RecBole; cut it into sessions with --gap {GAP:g}",)
    else:
        notes = ()
    minutes = GAP if gap is None and users else gap
    if not minutes:
        return histories, notes
    parts = cut(histories, minutes)
    keep = "; --gap 0 keeps users whole" if gap is None else ""
    before = plural(len(histories), "user" if users else "sequence")
    note = f"{plural(len(parts), 'session')} cut from {before} at pauses over {minutes:g} minutes{keep}"
    return parts, (*notes, note)


def _read_events(content: Content, options: ReadOptions) -> tuple[str, Events]:
    layout = recognise(content)
    if options.columns and (layout in READERS or layout == "yoochoose"):
        raise SettingError(f"{content.path}: the layout {layout} has no columns; leave --columns out")
    if layout in READERS:
        return layout, READERS[layout](content)
    find = partial(find_columns, content.path, stated=options.columns)
    if layout == "yoochoose":
        delimited = Delimited(content, ",", strict=False, given=_YOOCHOOSE)
        table = read_delimited(delimited, find(_YOOCHOOSE)[0], (), {"item": pl.Categorical})
        return layout, replace(_group(content, table), columns={})
    if layout == "parquet":
        if isinstance(content.schema().get("values"), pl.List) and not options.columns:
            return content.layout, list_events(content, read_lists_of_parquet(content), content.place)
        table = read_parquet(content, find)
        texts = table.frame.cast(dict.fromkeys(("sequence", "value"), pl.String))
        return content.layout, _group(content, replace(table, frame=texts))
    if layout == "jsonl events":
        return layout, _group(content, read_json(content, find, refused=(list, dict, bool)))
    return _read_delimited(content, options, find)


def _read_delimited(
    content: Content, options: ReadOptions, find: Callable[[Sequence[str]], Found]
) -> tuple[str, Events]:
    delimited = _delimited(content)
    names = delimited.names
    typed = is_typed(names, f"{content.path}:{delimited.number}")
    lists = find_lists(names) if typed and not options.columns else None
    if lists is not None:
        return "recbole lists", read_lists(content, delimited.read(lists.used), lists, delimited.where)
    columns, notes = find(names)
    if content.path.suffix == ".inter" and not typed:
        notes = (*notes, "the header has no RecBole types such as item_id:token; columns are found by their names")
    types: dict[str, type[pl.DataType]] = {columns["value"]: pl.Categorical}
    if "time" in columns and options.time_unit != "iso":
        at = names.index(columns["time"])
        rows = islice(delimited.rows(), 1, 100)
        if is_number(next((row[at] for _, row in rows if len(row) > at and row[at]), "")):
            types[columns["time"]] = pl.Float64
    table = read_delimited(delimited, columns, notes, types)
    events = _group(content, table)
    if is_retailrocket(names):
        kinds = "rows of every kind of event are kept, views, carts and transactions"
        return "retailrocket", replace(events, unordered=True, notes=(*events.notes, kinds))
    if typed:
        return "recbole", replace(events, unordered=True)
    return "diginetica" if WITHIN in columns else table.layout, events


def _delimited(content: Content) -> Delimited:
    """A table of events: what would be its first line of data, or one column alone, is no header."""
    line = content.head(1)[0]
    delimited = Delimited(content, max(_SEPARATORS, key=line.count), strict=False)
    header = content.names(delimited.separator)
    where = f"{content.path}:{delimited.number}"
    if len(header) < 2:
        raise DataError(
            f"{where}: {quoted(line, 40)} is neither a header nor a layout known here; give one, such as "
            "session,item,time, or of texts, queries and posts name the task: classify, suggest, link"
        )
    named = header[not header[0].strip() :]  # a table may begin with a column of row numbers that has no name
    if any(not name.strip() or is_number(name) or re.match(r"\d{4}-\d\d-\d\d", name) for name in named):
        raise DataError(
            f"{where}: a header was expected, but {quoted(line, 40)} looks like data; add a line of column names"
        )
    return delimited


def _group(content: Content, table: Table) -> Events:
    """Events of a table with one event a row, sequence after sequence, the file's order within each."""
    table = table.filled(content.path, "event")
    columns = table.columns
    for role in ("sequence", "value"):
        column = table.frame[role]
        empty = column.is_null().arg_true() if column.null_count() else (column == "").arg_true()
        if len(empty):
            place = table.where(empty[0])
            raise DataError(f"{place}: column {quoted(columns[role])} is empty; every event needs a {role}")
    times = table.frame["time"].rename(columns["time"]) if "time" in columns else None
    if times is not None and WITHIN in columns:
        times = add_offsets(times, table.frame[WITHIN].rename(columns[WITHIN]), table.where)
    order, lengths, names = _runs(table.frame["sequence"])
    values = table.frame["value"]
    if order is not None:
        values, times = values[order], None if times is None else times[order]
    return Events(
        values.cast(pl.Categorical),
        times,
        lengths,
        names,
        lambda event: table.where(event if order is None else int(order[event])),
        columns,
        table.notes,
        unordered=WITHIN in columns,
    )


def _runs(sequences: pl.Series) -> tuple[Index | None, Index, pl.Series]:
    """The order that brings equal sequences together (``None``: they are already), their lengths and names.

    Of rows a a b a the runs are a b a with the lengths 2 1 1, the order is 0 1 3 2, and a has 3 rows, b has 1.
    """
    runs = sequences.rle().struct.unnest()
    lengths, names = runs["len"].to_numpy().astype(np.int64), runs["value"]
    if names.n_unique() == len(names):
        return None, lengths, names
    codes, distinct = _first_arrival(names.cast(pl.Categorical))
    owners = np.repeat(codes, lengths).astype(np.int64)
    # Owner and place in one number: sorting it is a stable order, ten times faster than argsort.
    order = np.sort(owners << 32 | np.arange(len(owners))) & 0xFFFFFFFF
    return order, np.bincount(owners).astype(np.int64), distinct


def _first_arrival(values: pl.Series) -> tuple[Ids, pl.Series]:
    """Codes from 0 in order of first arrival, and the texts behind them."""
    distinct = values.unique(maintain_order=True)
    physical = values.to_physical().to_numpy()
    # Categories may be numbered by an earlier file: of the physical codes 7 4 7 the table says 4 -> 1 and 7 -> 0.
    table = np.zeros(int(physical.max()) + 1, np.int32)
    table[distinct.to_physical().to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    return table[physical], distinct.cast(pl.String)


def _in_order(histories: Histories, clock: Clock, where: Where, sort: bool) -> tuple[Histories, tuple[str, ...]]:
    """The histories with their times, sorted where that is wanted and needed."""
    times = clock.seconds
    back = times[1:] < times[:-1]
    back[histories.offsets[1:-1] - 1] = False  # a sequence may begin before the one above it ends
    timed = replace(histories, times=times)
    if not back.any():
        return timed, ()
    first = int(np.argmax(back)) + 1
    if not sort:
        raise DataError(
            f"{where(first)}: time {quoted(clock.given[first])} comes after {quoted(clock.given[first - 1])} in the "
            "same sequence; times must not decrease: leave --no-sort out"
        )
    owners = histories.sequence_index()
    by_time = pl.arg_sort_by("owner", "time", maintain_order=True)
    order = pl.DataFrame({"owner": owners, "time": times}).select(by_time).to_series().to_numpy()
    num_sorted = len(np.unique(owners[1:][back]))
    note = f"{num_sorted:,} of {plural(len(histories), 'sequence')} sorted by time"
    return replace(timed, ids=histories.ids[order], times=times[order]), (note,)
