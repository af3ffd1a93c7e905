"""Sessions out of logs that keep them otherwise: as pauses, as lists with a target, as days with an offset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from ensue.data.dates import Where, join_days
from ensue.data.delimited import Delimited
from ensue.data.files import Content
from ensue.data.histories import Histories, is_prefix, ranges
from ensue.data.lists import lists_in
from ensue.data.sequences.columns import CLOCK, PARTS, ROLES, TURN, entry_name, find_columns, is_offset
from ensue.data.sequences.events import list_table, split_ids
from ensue.data.table import (
    ReadOptions,
    Table,
    flat,
    names_of,
    read_delimited,
    read_fields,
    sample_rows,
    skipped,
)
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
    codes = histories.names.rank("dense").to_numpy()
    # In order of name, then of length, each history is compared with the next: of a, a b and a b c the first two go.
    order = np.lexsort((histories.lengths, codes))
    is_same = codes[order[:-1]] == codes[order[1:]]
    short = order[:-1][is_same]
    is_kept = np.ones(len(histories), np.bool_)
    is_kept[short] = ~is_prefix(histories, short, order[1:][is_same])
    return histories.select(is_kept)


def with_clock(table: Table) -> Table:
    """Return a table with each day and its time of day in one column.

    Raises:
        DataError: a day or an offset of Diginetica's that is none.
    """
    if CLOCK not in table.frame.columns:
        return table
    day, clock = (table.frame[role].rename(table.columns[role]) for role in ("time", CLOCK))
    for part in (table.frame[role] for role in PARTS if role in table.columns):  # the hour 7 and the minute 5 are 7:05
        clock, part = (column.cast(pl.String).str.strip_chars().str.strip_suffix(".0") for column in (clock, part))
        clock += ":" + part.str.zfill(2)
    times = _add_offsets(day, clock, table.where) if is_offset(table.columns) else join_days(day, clock)
    return replace(table, frame=table.frame.drop(CLOCK, *PARTS, strict=False).with_columns(time=times))


def _add_offsets(day: pl.Series, offset: pl.Series, where: Where) -> pl.Series:
    """Days moved on by the milliseconds beside them, so that a session's clicks have their order.

    Raises:
        DataError: a day that is no date, or an offset that is no number.
    """
    texts = day.cast(pl.String).str.strip_chars().str.head(10)
    dates = texts.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    milliseconds = offset.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    _refuse(day, dates.is_null(), "a date such as 2016-05-09", where)
    _refuse(offset, ~milliseconds.is_finite().fill_null(value=False), "a number of milliseconds", where)
    return (dates + (milliseconds * 1000).round().cast(pl.Int64).cast(pl.Duration("us"))).rename(day.name)


def in_turn(table: Table) -> Table:
    """Return events without times in the order of a column that numbers those of each session, if there is one."""
    if TURN not in table.frame.columns:
        return table
    columns = {role: name for role, name in table.columns.items() if role != TURN}
    unsorted = replace(table, frame=table.frame.drop(TURN), columns=columns)
    numbers = table.frame[TURN].cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False).fill_null(math.nan)
    events = pl.DataFrame({"session": table.frame["session"], "number": numbers}).with_row_index()
    # A rank within a page, or a count of all events, is no order of a session.
    number = pl.col("number")
    is_next = number.sort().diff().drop_nulls().eq(1).all()
    if not events.group_by("session").agg(is_next)["number"].all():
        return unsorted
    order = events.select(pl.arg_sort_by(pl.col("index").min().over("session"), "number")).to_series()
    if order.is_sorted():
        return unsorted
    note = f"events have no times and are in order of {quoted(table.columns[TURN])}"
    return replace(unsorted, notes=(*table.notes, note)).take(order)


def with_listed_items(table: Table) -> Table:
    """Return a table with an item per row, where each cell held the text of a list of items, or also of their times.

    Raises:
        DataError: a row with more items than times, or fewer.
    """
    texts = {role: table.frame[role] for role in ("item", "time") if table.frame.schema.get(role) == pl.String}
    # The first cells tell, for whole columns of lists are rare.
    lists = {role: found for role, column in texts.items() if lists_in(column.head(9)) and (found := lists_in(column))}
    if "item" not in lists:
        return table
    frame = table.frame.with_columns(texts[role].replace_strict(found, default=None) for role, found in lists.items())
    lengths = [frame[role].list.len().fill_null(1) for role in lists]
    for row in (lengths[0] != lengths[-1]).arg_true()[:1]:
        items, times = plural(lengths[0][row], "item"), plural(lengths[-1][row], "time")
        raise DataError(f"{table.where(row)}: {items} and {times}; give one time per item")
    rows = np.repeat(np.arange(len(table.frame)), lengths[0].to_numpy())
    note = f"cells of {' and '.join(quoted(table.columns[role]) for role in lists)} are lists; each member is an event"
    return replace(
        table, frame=frame.filter(lengths[0] > 0).explode(*lists), where=lambda row: table.where(int(rows[row])),
        notes=(*table.notes, note),
    )  # fmt: skip


def find_lists(header: Sequence[str]) -> dict[str, list[str]] | None:
    """Return role -> columns of a RecBole file with a whole session in a row, ``None`` for other files.

    Items and times have a column of lists, ``item_id_list:token_seq`` and the like, and maybe one of the last of them.
    """
    plain = {name.split(":")[0]: name for name in header}
    items = next((name for name in header if name.endswith("_list:token_seq")), None)
    if items is None:
        return None
    target = plain.get(items.removesuffix("_list:token_seq"))
    lists = {"item": [items, *filter(None, [target])]}
    session = plain.get("session_id", plain.get("user_id"))
    if session is not None:
        lists["session"] = [session]
    times = next((name for name in header if name.endswith("_list:float_seq") and "time" in name), None)
    if times is not None:
        last = plain.get(times.removesuffix("_list:float_seq")) if target else None
        lists["time"] = [times, *filter(None, [last])]
    return lists


def read_lists(content: Content, delimited: Delimited, lists: Mapping[str, list[str]]) -> Table:
    """Read each row's list with its target at the end: one whole session.

    Raises:
        DataError: a row without a target, a row without a name, or not one time a value.
    """
    names = [name for columns in lists.values() for name in columns]
    rows, num_empty = read_delimited(delimited, {name: name for name in names}, ()).without_empty()
    frame = rows.frame
    for column in (*lists["item"][1:], *lists.get("session", ()), *lists.get("time", ())[1:]):
        for row in (frame[column].fill_null("") == "").arg_true()[:1]:
            raise DataError(f"{rows.where(row)}: column {quoted(column)} is empty; every row needs a session")
    joined = {"values": _joined(frame, lists["item"])}
    if "time" in lists:
        joined["times"] = _joined(frame, lists["time"])
    if "session" in lists:
        joined["id"] = frame[lists["session"][0]]
    notes = (skipped(num_empty),) if num_empty else ()
    table = list_table(content, pl.DataFrame(joined), rows.where, notes)
    return replace(table, columns={role: " + ".join(columns) for role, columns in lists.items()})


def _joined(frame: pl.DataFrame, columns: list[str]) -> pl.Series:
    """(rows,) lists, the last element from a column of its own; ``None`` where there is none at all."""
    lines = frame.select(pl.concat_str(columns, separator=" ", ignore_nulls=True)).to_series().str.strip_chars()
    return pl.select(pl.when(lines != "").then(split_ids(lines))).to_series()


_EVENTS = ("events", "actions", "actionDetails", "interactions", "clicks", "history", "items")
"""Fields that may hold a list of events, each an object."""
HISTORY = {"session": "id", "item": "values", "time": "times"}
"""Role -> column of a stored history."""


def find_nested(content: Content, options: ReadOptions) -> Callable[[Content], Table] | None:
    """Return the reader of a table whose rows hold whole sessions; ``None`` where a row holds an event.

    Args:
        content: the file.
        options: how it is read.

    Raises:
        DataError: listed events without an item, or without a session that they belong to.
    """
    if not content.json and not (content.parquet and any(kind.is_nested() for kind in content.schema().values())):
        return None
    rows = [*map(flat, sample_rows(content))]
    nested = dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, list | dict))
    single = [name for name in names_of(rows) if name not in nested]
    field = next((name for name in _EVENTS if any(isinstance(entry, dict) for entry in _entries(rows, name))), "")
    with suppress(DataError):  # what is wrong with a table of events is said by its reader
        session = find_columns(content.path, single, options.columns, content.trained, options.events)[0]["session"]
        # Lists beside an item are features, and so are listed events where a session has several rows.
        if not field or len({str(row.get(session)) for row in rows}) < len(rows):
            return None
    events = [entry for entry in _entries(rows, field) if isinstance(entry, dict)]
    # A list may be named after one of its entries or after all: item, items and item_ids are looked for as the item.
    lists = {} if field else {name: members for name in nested if (members := _entries(rows, name))}
    plain = [name for name in lists if not any(isinstance(member, list | dict) for member in lists[name])]
    inner = {entry_name(name): name for name in plain} or {name: name for name in names_of(events)}
    outer = {"session_id" if name == "id" and plain else name: name for name in single}
    columns = {**inner, **outer}
    entries = {name: entry for entry, name in columns.items()}
    stated, trained = (
        {role: entries.get(name, name) for role, name in roles.items()}
        for roles in (options.columns, content.trained.columns)
    )
    schema = replace(content.trained, columns=trained)
    needed = ROLES[not field : 2]
    try:
        found, notes = find_columns(content.path, [*columns], stated, schema, options.events, events, needed)
    except DataError:
        if field:
            raise
        return None
    roles = {role: columns[entry] for role, entry in found.items()}
    unread = [role for role, name in roles.items() if role != "session" and name not in inner.values()]
    if "item" in unread or found.get("session", "") not in ("", *outer):
        return None
    shared = {role: roles.pop(role) for role in unread if field}
    notes += tuple(_unread((role, roles.pop(role))) for role in unread if not field)
    return partial(read_nested, columns=roles, notes=notes, events=field, shared=shared)


def _entries(rows: Iterable[Mapping[str, object]], name: str) -> list[object]:
    """Return the entries of all lists in a column."""
    lists = (row.get(name) for row in rows)
    return [entry for value in lists if isinstance(value, list) for entry in value]


def read_nested(
    content: Content,
    columns: dict[str, str],
    notes: tuple[str, ...] = (),
    events: str = "",
    shared: Mapping[str, str] | None = None,
) -> Table:
    """Return the events of rows that hold whole sessions, or several events each.

    Args:
        content: the file.
        columns: role -> column of lists, or field of the events; of the session a column with one name per row.
        notes: for the report.
        events: the column with a list of events, each an object; empty where each role has a column of lists.
        shared: role -> column with one entry for all events of a row, read where a session has several rows.

    Raises:
        DataError: a column that holds no lists of texts and numbers, or lists of different lengths in one row.
    """
    shared = shared or {}
    session = [*([columns["session"]] if "session" in columns else []), *shared.values()]
    lists = {name: role for role, name in columns.items() if role != "session"}
    where = content.place if content.parquet else content.place_of_line
    if content.parquet:
        frame = content.table([*session, *([events] if events else lists)])
    else:
        texts = {name: pl.String() for name in lists}
        kinds = {events: pl.Struct(texts)} if events else texts
        schema = dict.fromkeys(session, pl.String()) | {name: pl.List(kind) for name, kind in kinds.items()}
        frame = read_fields(content, schema)
    if events:
        # A list of objects becomes a list per field: [{aid: 1, ts: 5}, {aid: 2, ts: 6}] gives [1, 2] and [5, 6].
        field = pl.element().struct.field
        frame = frame.with_columns(pl.col(events).list.eval(field(name)).alias(name) for name in lists)
    for name in (*session, *lists):
        kind = frame.schema[name]
        inner = getattr(kind, "inner", kind)
        if (name in lists) != isinstance(kind, pl.List) or inner.is_nested() or inner in (pl.Binary, pl.Object):
            raise DataError(f"{content.path}: column {name!r} holds {kind}; give lists of texts, and of numbers")
    names = {role: HISTORY.get(role, role) for role in columns}
    frame = frame.select(pl.col(name).alias(names[role]) for role, name in columns.items()).with_columns(
        frame[name].repeat_by(frame[next(iter(lists))].list.len()).alias(role) for role, name in shared.items()
    )
    table = replace(list_table(content, frame, where, notes), columns=columns)
    if not shared or table.names is None or table.names.n_unique() == len(table.names):
        return replace(
            table, frame=table.frame.drop(shared, strict=False), notes=(*table.notes, *map(_unread, shared.items()))
        )
    # A session has several rows: each is an event with a list of items, such as a view of a page of products.
    merged = table.frame.with_columns(session=table.names.gather(table.frame["session"]))
    return replace(table, frame=merged, names=None, columns={**columns, **shared})


def _unread(column: tuple[str, str]) -> str:
    return f"{column[0]} {quoted(column[1])} is not in the lists and is not read"


def _refuse(column: pl.Series, wrong: pl.Series, expected: str, where: Where) -> None:
    for row in (wrong & column.is_not_null()).arg_true()[:1]:
        raise DataError(f"{where(row)}: {column.name} {quoted(column[row])} is not {expected}")
