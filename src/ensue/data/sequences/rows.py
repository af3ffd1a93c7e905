"""Tables with one event a row, as they stand in a file: their columns by role, nothing grouped yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from ensue.data.clock import is_number, is_plain_number
from ensue.data.delimited import Delimited
from ensue.data.file_bytes import KEEP
from ensue.data.files import Content
from ensue.data.ids import IdColumns
from ensue.data.posts.formats import FIELDS as EXPORT_FIELDS
from ensue.data.posts.formats import export_of
from ensue.data.schema import FoundColumns
from ensue.data.sequences.columns import (
    ADVICE,
    CLOCK,
    KIND,
    WHOLE_USERS,
    find_columns,
    is_offset,
    is_ratings,
    is_retailrocket,
    is_typed,
    is_user_log,
)
from ensue.data.sequences.formats import READERS, recognise, stated_layout
from ensue.data.sequences.sessions import find_lists, find_nested, read_lists, with_clock, with_listed_items
from ensue.data.sequences.weights import read_numbers
from ensue.data.table import (
    ReadOptions,
    Table,
    flat,
    names_of,
    read_delimited,
    read_json,
    read_parquet,
    sample_objects,
    sample_rows,
)
from ensue.errors import DataError, SettingError
from ensue.lines import quoted

TEXT = "a table of text"
"""The layout of a delimited file with one event per row."""
_SEPARATORS = ("\t", ",", ";", "|")


@dataclass(frozen=True)
class LogLayout:
    """Layout of the events of a file."""

    name: str
    shape: str = "events"
    """The content of a row: ``events`` (one each), ``sessions`` (one each) or ``posts`` (of an export)."""
    read: Callable[[Content], Table] | None = None
    """Reads a file with one session per row."""

    @property
    def description(self) -> str:
        """The name for messages."""
        return f"export of {self.name}" if self.shape == "posts" else self.name


UNORDERED = ("diginetica", "retailrocket", "deephawkes", "takeout", *WHOLE_USERS)
"""Layouts known to keep events in no order of time."""


def is_unordered(layout: str, columns: Mapping[str, str]) -> bool:
    """Return whether a layout is known to keep events in no order of time."""
    return is_offset(columns) or layout in UNORDERED


def remarks_on(layout: str, columns: Mapping[str, str]) -> tuple[str, ...]:
    """Return notes on a layout."""
    is_whole = layout == "retailrocket" and KIND not in columns
    return ("rows of all event types are read: views, carts and transactions",) if is_whole else ()


def times_of(table: Table) -> pl.Series | None:
    """(rows,) numbers, dates or texts of either, named as in the file; ``None`` where there are none."""
    times = table.frame.get_column("time", default=None)
    return None if times is None else times.rename(table.columns.get("time", ""))


def normalise_ids(table: Table, ids: IdColumns) -> Table:
    """Return events with their ids in normal form, and notes and warnings on them."""
    if table.frame["item"].dtype == pl.String:  # of categories each text is looked at once
        table = replace(table, frame=table.frame.with_columns(pl.col("item").cast(pl.Categorical)))
    if table.names is not None and len(table.names):
        # A sequence is kept whatever its name says: it may have none.
        names = Table("", pl.DataFrame({"session": table.names}), table.where, {}, ())
        names = replace(ids, missing=KEEP, tallies={}, whole={}).normalise(names)
        table = replace(table, names=names.frame["session"].fill_null(""))
    table = ids.normalise(table)
    return replace(table, notes=(*table.notes, *ids.notes), warnings=ids.warnings)


def select_event_types(table: Table, types: Sequence[str]) -> Table:
    """Return the events of some types, each type as its position; all where the table has no column of them."""
    if KIND not in table.frame.columns:
        return table
    column = table.frame[KIND].cast(pl.String).str.strip_chars().fill_null("")
    counts = dict(column.value_counts(sort=True).iter_rows())
    kinds = column.replace_strict([*types], range(len(types)), default=None, return_dtype=pl.Int16)
    selected = replace(table, frame=table.frame.with_columns(kinds.alias(KIND))).select(kinds.is_not_null())
    note = f"only events of type {', '.join(types)} are read ({quoted(table.columns[KIND])})"
    return replace(selected, notes=(*table.notes, note), event_types=counts)


def require_filled(table: Table) -> None:
    """Refuse an event without a session or an item.

    Raises:
        DataError: at the first.
    """
    for role in ("session", "item"):
        column = table.frame[role]
        is_empty = column.is_null()
        if not (column.dtype.is_numeric() or column.dtype.is_temporal()):
            is_empty |= (column if column.dtype == pl.Categorical else column.cast(pl.String)).eq_missing("")
        for row in is_empty.arg_true()[:1]:
            name = quoted(table.columns.get(role, role))
            raise DataError(
                f"{table.where(row)}: column {name} is empty; every event needs the {role}: leave such rows out "
                "with --missing drop"
            )


def require_event_types(path: Path, types: Mapping[str, int], options: ReadOptions) -> tuple[str, ...]:
    """Refuse stated event types that no row of a log has; return a note on those that are not read.

    Args:
        path: of the log.
        types: event type -> rows.
        options: how the log is read.

    Raises:
        DataError: with the types that there are.
    """
    present = ", ".join(f"{quoted(kind, 40)} {count:,}" for kind, count in islice(types.items(), 10))
    for name in options.event_types if options.events else ():
        if name not in types:
            raise DataError(f"{path}: --events {name}: no row has this event type; there are {present or 'none'}")
    if types and not types.keys() & {*options.event_types}:
        raise DataError(
            f"{path}: no row has an event type of the training data ({', '.join(options.event_types)}); there are "
            f"{present}; choose some with --events"
        )
    others = [f"{quoted(kind, 40)} {count:,}" for kind, count in types.items() if kind not in options.event_types]
    more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
    return (f"event types that are not read: {', '.join(others[:5])}{more}",) if others else ()


def id_columns(options: ReadOptions) -> IdColumns:
    """The columns of ids that a log of events has."""
    return IdColumns({"session": "session", "item": "item"}, missing=options.missing_ids)


def recognise_layout(content: Content, options: ReadOptions) -> LogLayout:
    """Return the layout of a file, by its first lines.

    Raises:
        DataError: what should be a header is none, or lines of ids that may begin with a user or with an item.
        SettingError: columns are stated for a layout that has none.
    """
    if (export := export_of(content)) is not None and set(options.columns.values()) <= {*EXPORT_FIELDS}:
        return LogLayout(export, "posts")
    name = recognise(content, options.columns or content.trained.columns)
    if name in READERS:
        if options.columns and name != stated_layout(options.columns):
            raise SettingError(f"{content.path}: the layout {name} has no named columns; remove --columns")
        return LogLayout(name, "sessions", READERS[name])
    if (read := find_nested(content, options)) is not None:
        return LogLayout("jsonl sessions" if content.json else content.layout, "sessions", read)
    if name is None:
        delimited = _delimited(content)
        typed = is_typed(delimited.names, f"{content.path}, line {delimited.number}")
        lists = find_lists(delimited.names) if typed and not options.columns else None
        if lists is not None:
            return LogLayout("recbole lists", "sessions", partial(read_lists, delimited=delimited, lists=lists))
    return LogLayout(name or TEXT)


def find_roles(content: Content, options: ReadOptions, layout: str) -> FoundColumns:
    """The columns that :func:`read_rows` will read, by role, by their names and the first rows.

    Raises:
        DataError: a role without a column.
    """
    delimited = None if layout in ("parquet", "jsonl events") else _delimited(content)
    names = delimited.names if delimited else _names(content)
    # Times of a stated unit are numbers, and no times of day.
    samples = () if options.time_unit not in (None, "iso") else [*map(flat, sample_rows(content, delimited))]
    return find_columns(content.path, names, options.columns, content.trained, options.events, samples)


def _names(content: Content) -> list[str]:
    """Return the columns of Parquet, or the fields of JSON Lines."""
    return content.names() if content.parquet else names_of(map(flat, sample_objects(content)))


def read_rows(content: Content, options: ReadOptions, layout: str, roles: FoundColumns | None = None) -> Table:
    """The events of a table: columns ``session``, ``item`` and maybe ``time``, in the file's order.

    Args:
        content: the file, or a part of it under its header.
        options: how it is read.
        layout: the name of its layout, one with one event per row.
        roles: as :func:`find_roles` returns them for the whole file.

    Raises:
        DataError: the first row that does not fit.
    """
    roles = roles or find_roles(content, options, layout)
    if layout == "parquet":
        table = read_parquet(content, lambda names: roles, ADVICE)
    elif layout == "jsonl events":
        table = replace(read_json(content, lambda names: roles, ADVICE), layout=layout)
    else:
        table = _read_delimited(content, options, *roles)
    if layout in ("parquet", "jsonl events") and is_user_log(table.columns) and is_ratings(_names(content)):
        table = replace(table, layout="ratings")
    return read_roles(table, options)


def read_roles(table: Table, options: ReadOptions) -> Table:
    """Return a table with one time per row, weights as numbers, and the event types that are read.

    Raises:
        DataError: the first row that does not fit.
    """
    return select_event_types(read_numbers(with_clock(with_listed_items(table))), options.event_types)


def _read_delimited(content: Content, options: ReadOptions, columns: dict[str, str], notes: tuple[str, ...]) -> Table:
    delimited = _delimited(content)
    names = delimited.names
    typed = is_typed(names, f"{content.path}, line {delimited.number}")
    if content.path.suffix == ".inter" and not typed:
        notes = (*notes, "the header has no RecBole types such as item_id:token; columns are found by their names")
    types: dict[str, type[pl.DataType]] = {}
    if "time" in columns and CLOCK not in columns and options.time_unit != "iso":
        # Numbers are parsed by polars itself, which is faster; dates and odd numbers stay texts.
        rows = sample_rows(content, delimited)
        samples = [str(row[columns["time"]]) for row in rows if row.get(columns["time"])]
        if samples and all(map(is_plain_number, samples)):
            types[columns["time"]] = pl.Float64
    table = read_delimited(delimited, columns, notes, types)
    # The first that is true names the layout.
    layouts = {
        content.published: bool(content.published),
        "retailrocket": is_retailrocket(names),
        "ratings": not typed and is_user_log(columns) and is_ratings(names),
        "recbole": typed,
        "diginetica": is_offset(columns),
    }
    return replace(table, layout=next((layout for layout, fits in layouts.items() if fits), table.layout))


def _delimited(content: Content) -> Delimited:
    """A table of events: what would be its first line of data, or one column alone, is no header."""
    if content.header:
        quoted_fields = content.separator != "\t"
        return Delimited(content, content.separator, quoted=quoted_fields, strict=False, header=content.header)
    line = content.head(1)[0]
    delimited = Delimited(content, max(_SEPARATORS, key=line.count), strict=False)
    header = content.names(delimited.separator)
    where = f"{content.path}, line {delimited.number}"
    if len(header) < 2 and "::" not in line:
        raise DataError(
            f"{where}: {quoted(line, 40)} is neither a header nor a known layout; give one, such as "
            "session,item,time; for texts, queries or posts name the task: classify, suggest, link"
        )
    # Ratings with :: between them, dates and numbers are data.
    names = header[not header[0].strip() :]  # a table may begin with a column of row numbers that has no name
    if "::" in line or any(not name.strip() or is_number(name) or re.match(r"\d{4}-\d\d-\d\d", name) for name in names):
        raise DataError(
            f"{where}: a header was expected, but {quoted(line, 40)} looks like data; number the columns, such as "
            "--columns session=1,item=2,time=3, or add a line of column names"
        )
    return delimited
