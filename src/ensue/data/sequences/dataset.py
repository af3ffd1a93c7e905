"""Tables and cascades in, :class:`~ensue.data.histories.Histories` out: CSV, TSV, JSON Lines, Parquet, one call.

Everything stays columnar: rows are put in order by runs of equal sequences, values get ids by their categories, and
Python objects exist per distinct value only. Line numbers are computed when an error needs one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.clock import TimeFormat, read_clock
from ensue.data.dates import Where
from ensue.data.files import Content, answering
from ensue.data.histories import Histories, Index, distinct_numbers, distinct_texts, offsets_of
from ensue.data.posts.formats import FIELDS, read_cascades
from ensue.data.schema import SequencesReport
from ensue.data.sequences.columns import KIND, WHOLE_USERS, is_user_log
from ensue.data.sequences.rows import (
    id_columns,
    is_unordered,
    normalise_ids,
    read_roles,
    read_rows,
    recognise_layout,
    remarks_on,
    require_event_types,
    require_filled,
    times_of,
)
from ensue.data.sequences.sessions import GAP, cut, drop_prefixes, in_turn
from ensue.data.sequences.sources import LogFile, rows_together
from ensue.data.sequences.weights import event_columns, without_negatives
from ensue.data.table import ReadOptions, Table
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted
from ensue.vocabulary import FIRST, Vocabulary


def read_file(path: Path, options: ReadOptions, *, sort: bool, gap: float | None) -> tuple[Histories, SequencesReport]:
    """Read one file into memory; see :func:`ensue.data.sequences.read`."""
    with answering(path):
        content = options.open(path)
        table = read_events(content, options)
        table = replace(table, notes=(*content.notes, *table.notes))
        return histories_of(path, table, options, sort, gap, content.byte_order_mark)


def read_together(
    path: Path, sources: Sequence[LogFile], options: ReadOptions, *, sort: bool, gap: float | None
) -> tuple[Histories, SequencesReport]:
    """Read files with one event a row as if they were one; see :func:`ensue.data.sequences.read`."""
    with answering(path):
        return histories_of(path, rows_together(path, sources, options), options, sort, gap)


def histories_of(
    path: Path, table: Table, options: ReadOptions, sort: bool, gap: float | None, byte_order_mark: bool = False
) -> tuple[Histories, SequencesReport]:
    """Return the events of a table with one event a row as histories, and the report of how they were read.

    Args:
        path: the file, for messages and the report.
        table: its events, the ids in normal form.
        options: how it was read.
        sort: see :func:`ensue.data.sequences.read`.
        gap: see :func:`ensue.data.sequences.read`.
        byte_order_mark: whether the file has one.

    Raises:
        DataError: no event, one without a session or an item, or a time that is none.
        SettingError: a gap for a file without times.
    """
    if not len(table.frame):
        raise DataError(f"{path}: no event is left after cleaning: {'; '.join(table.warnings)}")
    require_filled(table)
    table = in_turn(table)
    items = table.frame["item"]
    times = times_of(table)
    if items.dtype != pl.Categorical:
        items = items.cast(pl.String).cast(pl.Categorical)
    order, lengths, names = _session_order(table)
    if order is not None:
        items = items[order]
        times = None if times is None else times[order]

    def where(event: int) -> str:
        return table.where(event if order is None else int(order[event]))

    layout = table.layout
    columns = table.columns
    clock = None if times is None else read_clock(times, layout, where, options.times)
    require_times(path, gap, timed=clock is not None)
    # Items are numbered in order of first arrival, after the ids for padding and unknown items.
    distinct, index = distinct_texts(items)
    ids = (index + FIRST).astype(np.int32)
    histories = Histories(ids, offsets_of(lengths), Vocabulary(distinct), names=names)
    histories = replace(histories, **event_columns(table, options, order))
    notes = (*table.notes, *remarks_on(layout, columns))
    if clock is not None and times is not None:
        timed = replace(histories, times=clock.seconds)
        histories, count = in_order(timed, times, where, sort or is_unordered(layout, columns))
        notes += sorted_note(count, len(histories))
    if layout == "recbole lists":
        num_rows = len(histories)
        histories = drop_prefixes(histories)
        if num_prefixes := num_rows - len(histories):
            left_out = f"{num_prefixes:,} of {plural(num_rows, 'row')} left out"
            notes += (f"{left_out}: they are prefixes of a longer row of the same session",)
    # A stated session is what is meant, also where it is a column of users.
    users = is_user_log(columns) and "session" not in options.columns and clock is not None and clock.format.absolute
    minutes = pause_of(gap, layout, users=users)
    sessions = cut(histories, minutes) if minutes else histories
    num_sessions = len(sessions)
    if len(sessions.weights) and not options.off_policy:
        sessions, negative_notes = without_negatives(sessions)
        notes += negative_notes
    return sessions, report_of(
        path,
        layout,
        columns,
        None if clock is None else clock.format,
        (*notes, *cut_notes(len(histories), num_sessions, gap, layout, users=users)),
        table.warnings,
        byte_order_mark=byte_order_mark,
        events=(options.events or options.schema.events) if KIND in columns else "",
    )


def report_of(
    path: Path,
    layout: str,
    columns: dict[str, str],
    clock: TimeFormat | None,
    notes: tuple[str, ...],
    warnings: tuple[str, ...] = (),
    *,
    byte_order_mark: bool = False,
    events: str = "",
) -> SequencesReport:
    """Return the report of a log; ``clock`` is ``None`` where it has no times."""
    return SequencesReport(
        path=str(path),
        layout=layout,
        columns=columns,
        time=clock.sentence if clock else "none: no usable time column",
        unit=clock.unit if clock else None,
        absolute=clock is not None and clock.absolute,
        day_first=clock.day_first if clock else None,
        notes=notes,
        byte_order_mark=byte_order_mark,
        warnings=(*warnings, *(clock.warnings if clock else ())),
        events=events,
    )


def require_times(path: Path, gap: float | None, *, timed: bool) -> None:
    """Refuse pauses of a log that has no times.

    Raises:
        SettingError: naming the file.
    """
    if gap and not timed:
        raise SettingError(f"{path}: has no times, so --session-gap cannot cut sessions; remove --session-gap")


def pause_of(gap: float | None, layout: str, *, users: bool) -> float:
    """Return the minutes of pause that end a sequence, 0 for never: unless stated, 30 for click logs of users."""
    return (GAP if users and layout not in WHOLE_USERS else 0.0) if gap is None else gap


def cut_notes(before: int, after: int, gap: float | None, layout: str, *, users: bool) -> tuple[str, ...]:
    """Return a note on cutting ``before`` sequences into ``after``."""
    minutes = pause_of(gap, layout, users=users)
    if not minutes:
        usual = "as in RecBole" if layout == "recbole" else "as is usual for ratings and check-ins"
        user_note = f"each user is one session, {usual}; cut it into sessions with --session-gap {GAP:g}"
        return (user_note,) if gap is None and users and layout in WHOLE_USERS else ()
    keep = "; --session-gap 0 keeps users whole" if gap is None else ""
    sequences = plural(before, "user" if users else "sequence")
    return (f"{plural(after, 'session')} cut from {sequences} at pauses over {minutes:g} minutes{keep}",)


def read_events(content: Content, options: ReadOptions) -> Table:
    """Return the events of a file with their ids in normal form, one event a row.

    Raises:
        DataError: naming the file, the line, the field and what to do.
        SettingError: an unknown role, or columns of a layout that has none.
    """
    layout = recognise_layout(content, options)
    if layout.read is not None:
        table = read_roles(replace(layout.read(content), layout=layout.name), options)
    elif layout.shape == "posts":
        trained = content.trained.columns if set(content.trained.columns.values()) <= {*FIELDS} else {}
        table = read_cascades(content, layout.name, options.columns or trained)
    else:
        table = read_rows(content, options, layout.name)
    if options.events and KIND not in table.columns:
        raise SettingError(
            f"{content.path}: the layout {layout.description} has no column of event types; remove --events"
        )
    table = replace(table, notes=(*table.notes, *require_event_types(content.path, table.event_types, options)))
    # Tables that are replaced free their memory.
    table = table.filled(content.path, "event")
    return normalise_ids(table, id_columns(options))


def _session_order(table: Table) -> tuple[Index | None, Index, pl.Series]:
    """Return the order that brings events of one session together, and the length and the name of each session.

    For events of the sessions a a b a, the order is 0 1 3 2, the lengths are 3 1 and the names a b. The order is
    ``None`` where the events of each session are together already.

    Args:
        table: events, with their sessions in a column ``session``.
    """
    sessions = table.frame["session"]
    names = table.names
    runs = sessions.rle().struct.unnest()
    if names is not None:  # a row of the file is a session: its events are one run
        return None, runs["len"].to_numpy().astype(np.int64), names.gather(runs["value"]) if len(names) else names
    # Neighbouring runs differ, so that runs in order are of as many sessions.
    is_run = 2 * len(runs) < len(sessions) and (runs["value"].is_sorted() or runs["value"].n_unique() == len(runs))
    if is_run:
        return None, runs["len"].to_numpy().astype(np.int64), runs["value"].cast(pl.String)
    # (sessions,) lists of rows, in order of first arrival: a b a gives [0, 2] and [1].
    rows = pl.DataFrame({"session": sessions}).with_row_index("row").group_by("session", maintain_order=True).agg("row")
    order = rows["row"].explode().to_numpy().astype(np.int64)
    is_together = bool((order[1:] > order[:-1]).all())
    lengths = rows["row"].list.len().to_numpy().astype(np.int64)
    return None if is_together else order, lengths, rows["session"].cast(pl.String)


def in_order(histories: Histories, given: pl.Series, where: Where, sort: bool) -> tuple[Histories, int]:
    """The histories sorted by their times where that is wanted and needed, and how many were.

    Args:
        histories: with times in whatever order.
        given: (events,) their times as in the file, for messages.
        where: the place of an event, for messages.
        sort: whether they may be sorted.

    Raises:
        DataError: they may not, and a time comes before the one above it.
    """
    times = histories.times
    late = (times[1:] < times[:-1]) & histories.is_followed()  # late[0] compares the events 0 and 1
    if not late.any():
        return histories, 0
    first = int(np.argmax(late)) + 1
    if not sort:
        raise DataError(
            f"{where(first)}: time {quoted(given[first])} comes after {quoted(given[first - 1])} in the same "
            "session; times must not decrease: remove --no-sort"
        )
    owners = histories.sequence_index()
    by_time = pl.arg_sort_by("owner", "time", maintain_order=True)
    order = pl.DataFrame({"owner": owners, "time": times}).select(by_time).to_series().to_numpy()
    return replace(histories, **histories.columns(order)), len(distinct_numbers(owners[1:][late]))


def sorted_note(count: int, histories: int) -> tuple[str, ...]:
    """A note on sequences whose events were put in order, if any were."""
    return (f"{count:,} of {plural(histories, 'session')} had decreasing times: sorted by time",) if count else ()
