"""Tables and cascades in, :class:`~ensue.data.histories.Histories` out: CSV, TSV, JSON Lines, Parquet, one call.

Everything stays columnar: rows are put in order by runs of equal sequences, values get ids by their categories, and
Python objects exist per distinct value only. Line numbers are computed when an error needs one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl

from ensue.data.clock import UNITS, Clock, Where, is_number, read_clock
from ensue.data.columns import WITHIN, find_columns, is_retailrocket, is_typed, is_user_log
from ensue.data.files import Content, answering, fits, open_file
from ensue.data.formats import READERS, Events, list_events, read_lists_of_parquet, read_object, recognise
from ensue.data.histories import Histories, Ids, Index
from ensue.data.packed import Opening
from ensue.data.sessions import GAP, add_offsets, check_gap, cut, drop_prefixes, find_lists, read_lists
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted
from ensue.vocabulary import FIRST, Vocabulary

_SEPARATORS = ("\t", ",", ";", "|")
_YOOCHOOSE = ["session", "time", "item", "category"]


@dataclass(frozen=True, kw_only=True)
class Understood:
    """What the reader understood of a file; goes into JSON as it is."""

    path: str
    layout: str
    columns: dict[str, str]
    """Role -> column; empty for layouts without columns."""
    time: str
    """One sentence, always meant to be printed."""
    unit: str | None
    absolute: bool
    """Whether the times are since 1970."""
    notes: tuple[str, ...]
    byte_order_mark: bool = False
    """Whether tables written beside the file should begin with a byte-order mark."""


def read(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    sort: bool = True,
    gap: float | None = None,
    **opening: Unpack[Opening],
) -> tuple[Histories, Understood]:
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
    if time_unit not in (None, *UNITS):
        raise SettingError(f"time_unit: {time_unit!r} is not known; the units are {', '.join(UNITS)}")
    check_gap(gap)
    with answering(path):
        content = open_file(Path(path), **opening)
        layout, events = _read_events(content, dict(columns or {}), time_unit)
        clock = None if events.times is None else read_clock(events.times, layout, events.where, time_unit)
        if gap and clock is None:
            raise SettingError(f"{path}: has no times to cut by; leave --gap out")
        histories, notes = _histories(events, clock, sort)
    users = is_user_log(events.columns) and "sequence" not in (columns or {})
    histories, cut_notes = _cut(histories, gap, layout, users and clock is not None and clock.absolute)
    understood = Understood(
        path=str(path),
        layout=layout,
        columns=events.columns,
        time=clock.sentence if clock else "none: no usable clock",
        unit=clock.unit if clock else None,
        absolute=clock is not None and clock.absolute,
        notes=content.notes + events.notes + notes + cut_notes,
        byte_order_mark=content.byte_order_mark,
    )
    return histories, understood


def _histories(events: Events, clock: Clock | None, sort: bool) -> tuple[Histories, tuple[str, ...]]:
    ids, distinct = _first_arrival(events.values)
    offsets = np.concatenate([[0], np.cumsum(events.lengths)]).astype(np.int64)
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


def _read_events(content: Content, columns: dict[str, str], time_unit: str | None) -> tuple[str, Events]:
    layout = recognise(content)
    if columns and (layout in READERS or layout == "yoochoose"):
        raise SettingError(f"{content.path}: the layout {layout} has no columns; leave --columns out")
    if layout in READERS:
        return layout, READERS[layout](content)
    if layout == "yoochoose":
        roles, _ = find_columns(content.path, _YOOCHOOSE, {})
        frame, where = _read_rows(
            content, ",", _YOOCHOOSE, list(roles.values()), {"item": pl.Categorical}, headed=False
        )
        return layout, replace(_group(content, frame, roles, where, ()), columns={})
    if layout == "parquet":
        return content.layout, _read_parquet(content, columns)
    if layout == "jsonl events":
        return layout, _read_json(content, columns)
    return _read_delimited(content, columns, time_unit)


def _read_delimited(content: Content, stated: dict[str, str], time_unit: str | None) -> tuple[str, Events]:
    separator, header, typed = _header(content, stated)
    lists = find_lists(header) if typed and not stated else None
    if lists is not None:
        frame, where = _read_rows(content, separator, header, lists.used, {})
        return "recbole lists", read_lists(content, frame, lists, where)
    columns, doubts = find_columns(content.path, header, stated)
    if content.path.suffix == ".inter" and not typed:
        doubts = (*doubts, "the header has no RecBole types such as item_id:token; columns are found by their names")
    rows = islice(content.rows(separator), 1, 100)
    at = header.index(columns["time"]) if "time" in columns else 0
    first = next((row[at] for _, row in rows if len(row) > at and row[at]), "")
    types: dict[str, type[pl.DataType]] = {columns["value"]: pl.Categorical}
    if "time" in columns and time_unit != "iso" and is_number(first):
        types[columns["time"]] = pl.Float64
    frame, where = _read_rows(content, separator, header, list(columns.values()), types)
    events = _group(content, frame, columns, where, doubts)
    if is_retailrocket(header):
        kinds = "rows of every kind of event are kept, views, carts and transactions"
        return "retailrocket", replace(events, unordered=True, notes=(*events.notes, kinds))
    if typed:
        return "recbole", replace(events, unordered=True)
    return "diginetica" if WITHIN in columns else "tsv" if separator == "\t" else "csv", events


def _read_rows(
    content: Content,
    separator: str,
    header: list[str],
    columns: list[str],
    types: dict[str, type[pl.DataType]],
    *,
    headed: bool = True,
) -> tuple[pl.DataFrame, Where]:
    """The columns wanted, as texts unless a type is given, and the place of a row in the file."""
    time = next((header.index(name) for name, type_ in types.items() if type_ == pl.Float64), None)
    # The last column tells polars, and us, whether a row is too long or too short.
    wanted = [name for name in header if name in {*columns, header[-1]}]
    read_csv = partial(
        pl.read_csv,
        content.source,
        columns=wanted if headed else None,
        has_header=headed,
        new_columns=None if headed else header,
        separator=separator,
        schema_overrides=types,
        infer_schema=False,
    )
    frame = content.delimited(read_csv, lambda: _refuse_rows(content, separator, header, time, headed))
    if frame[header[-1]].null_count() and _some_rows_short(content, separator, len(header)):
        _refuse_rows(content, separator, header, None, headed)

    def where(row: int) -> str:
        line, _ = next(islice(content.rows(separator), row + headed, None))
        return f"{content.path}:{line}"

    return frame.select(columns), where


def _header(content: Content, stated: dict[str, str]) -> tuple[str, list[str], bool]:
    """The separator, the names of the columns, and whether they carry RecBole's types."""
    line = content.head(1)[0]
    separator = max(_SEPARATORS, key=line.count)
    number = next(number for number, row in content.rows(separator) if row)
    header = content.names(separator)
    where = f"{content.path}:{number}"
    if len(header) < 2:
        raise DataError(
            f"{where}: {quoted(line, 40)} is neither a header nor a layout known here; see ensue check --help"
        )
    named = header[not header[0].strip() :]  # a table may begin with a column of row numbers that has no name
    if any(not name.strip() or is_number(name) or re.match(r"\d{4}-\d\d-\d\d", name) for name in named):
        raise DataError(
            f"{where}: a header was expected, but {quoted(line, 40)} looks like data; add a line of column names"
        )
    double = next((name for name, count in Counter(header).items() if count > 1), None)
    if double is not None:
        raise DataError(f"{where}: column {quoted(double)} appears twice; rename one")
    if number > content.first_line:
        raise DataError(
            f"{content.path}:{content.first_line}: is empty, the header stands in line {number}; delete the lines "
            "before it"
        )
    return separator, header, is_typed(header, where)


def _some_rows_short(content: Content, separator: str, num_fields: int) -> bool:
    """Whether a line has too few separators, or quotes that may hide it: cheap, and looked into only if so."""
    lines = content.column_of_lines()
    short = lines.str.count_matches(separator, literal=True) < num_fields - 1
    return bool(((short | lines.str.contains('"', literal=True)) & (lines != "")).any())


def _refuse_rows(content: Content, separator: str, header: list[str], time: int | None, headed: bool) -> None:
    """Raise at the first row of another width, or whose time (a column index) is no number."""
    for line, row in content.rows(separator):
        where = f"{content.path}:{line}"
        if row and not fits(row, len(header)):
            whole = "header" if headed else "layout"
            raise DataError(
                f"{where}: {plural(len(row), 'field')}, but the {whole} has {len(header)}; is a quote left open?"
            )
        if time is not None and row and line > 1 and row[time] and not is_number(row[time]):
            raise DataError(f"{where}: time {quoted(row[time])} is not a number or an ISO date")


def _read_json(content: Content, stated: dict[str, str]) -> Events:
    samples = [read_object(line, f"{content.path}:{number}") for number, line in islice(_filled(content), 100)]
    names = list(dict.fromkeys(name for sample in samples for name in sample))
    columns, doubts = find_columns(content.path, names, stated)
    nested = {name for sample in samples for name, held in sample.items() if isinstance(held, list | dict | bool)}
    if nested.intersection(columns.values()):
        raise DataError(f"{content.path}: field {quoted(min(nested))} holds more than a text or a number")
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(columns.values(), pl.String)
    try:
        frame = pl.read_ndjson(content.source, schema=schema)
    except pl.exceptions.PolarsError as error:
        for number, line in _filled(content):
            read_object(line, f"{content.path}:{number}")
        content.refuse(error)

    def where(row: int) -> str:
        return f"{content.path}:{next(islice(_filled(content), row, None))[0]}"

    return _group(content, frame, columns, where, doubts)


def _filled(content: Content) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in content.lines() if line.strip())


def _read_parquet(content: Content, stated: dict[str, str]) -> Events:
    schema = content.schema()
    if isinstance(schema.get("values"), pl.List) and not stated:
        return list_events(content, read_lists_of_parquet(content), content.place)
    columns, doubts = find_columns(content.path, list(schema), stated)
    for role, name in columns.items():
        if schema[name].is_nested() or schema[name] in (pl.Binary, pl.Object):
            raise DataError(
                f"{content.path}: column {quoted(name)} ({role}) holds {schema[name]}; give texts or numbers"
            )
    frame = content.table(columns.values())
    return _group(
        content,
        frame.cast({columns[role]: pl.String for role in ("sequence", "value")}),
        columns,
        content.place,
        doubts,
    )


def _group(
    content: Content, frame: pl.DataFrame, columns: dict[str, str], where: Where, notes: tuple[str, ...]
) -> Events:
    """Events of a frame with one event a row, sequence after sequence, the file's order within each."""
    rows = None
    filled = ~pl.all_horizontal(pl.col(column).is_null() for column in columns.values())
    if min(frame.null_count().row(0), default=0):
        kept = frame.select(filled).to_series()
        rows, frame = kept.arg_true().to_numpy(), frame.filter(kept)
        if skipped := len(kept) - len(frame):
            notes = (*notes, f"{plural(skipped, 'empty row')} skipped")
    if not len(frame):
        raise DataError(f"{content.path}: has a header but no event")

    def place(row: int) -> str:
        return where(row if rows is None else int(rows[row]))

    _refuse_empty(frame, columns, place)
    if WITHIN in columns:
        frame = add_offsets(frame, columns, place)
    order, lengths, names = _runs(frame[columns["sequence"]])
    frame = frame.drop(columns["sequence"])
    if order is not None:
        frame = frame[order]
    return Events(
        frame[columns["value"]].cast(pl.Categorical),
        frame[columns["time"]] if "time" in columns else None,
        lengths,
        names,
        lambda event: place(event if order is None else int(order[event])),
        columns,
        notes,
        unordered=WITHIN in columns,
    )


def _refuse_empty(frame: pl.DataFrame, columns: dict[str, str], where: Where) -> None:
    for role in ("sequence", "value"):
        column = frame[columns[role]]
        empty = column.is_null().arg_true() if column.null_count() else (column == "").arg_true()
        if len(empty):
            raise DataError(f"{where(empty[0])}: column {quoted(columns[role])} is empty; every event needs a {role}")


def _runs(sequences: pl.Series) -> tuple[Index | None, Index, pl.Series]:
    """The order that brings equal sequences together (``None``: they are already), their lengths and names."""
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
    table = np.zeros(int(physical.max()) + 1, np.int32)
    table[distinct.to_physical().to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    return table[physical], distinct.cast(pl.String)


def _in_order(histories: Histories, clock: Clock, where: Where, sort: bool) -> tuple[Histories, tuple[str, ...]]:
    """The histories with their times, sorted where that is wanted and needed."""
    times = clock.seconds
    back = times[1:] < times[:-1]
    back[histories.offsets[1:-1] - 1] = False
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
