"""The public layouts with one sequence a line, recognised by their shape and read without a Python object per event.

=================  ============================================
cascades           :mod:`ensue.data.sequences.cascades`
sessions           ``item item item …``, no times
user histories     ``user item item item …``, no times (:mod:`ensue.data.sequences.id_lines`)
user items         ``user item``, no times
jsonl histories    ``{"values": […], "times": […], "id": "…"}``
jsonl events       an event a line
jsonl sessions     ``{"session": …, "events": [{"aid": …, "ts": …}, …]}`` (OTTO)
mind behaviors     MIND's ``behaviors.tsv``
=================  ============================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from ensue.data.clock import TimeOptions, read_clock
from ensue.data.delimited import Delimited
from ensue.data.files import Content
from ensue.data.sequences.cascades import CASCADES, is_cyan, recognise_cascades
from ensue.data.sequences.columns import find_columns
from ensue.data.sequences.events import Events, categorical, events_of, filled_lines, flat_events, refuse
from ensue.data.sequences.id_lines import SESSION_LINES, USER_LINES, is_id_lines, layout_of_lines, stated_layout
from ensue.data.table import names_of, read_object, read_objects, sample_objects
from ensue.data.takeout import ACCOUNT, is_activity, read_activities
from ensue.data.time_summary import Where
from ensue.errors import DataError
from ensue.lines import plural, quoted
from ensue.records import History

_EVENTS = ("events", "actions", "interactions", "clicks", "history")
_HISTORY = {"values": pl.List(pl.String), "times": pl.List(pl.Float64), "id": pl.String()}
_MOST_LINES = 100_000


def recognise(content: Content, stated: Mapping[str, str] | None = None) -> str | None:
    """Return the layout with one sequence a line, or ``None`` for a table (columns and one event a row).

    JSON Lines of events are ``"jsonl events"``, Parquet is ``"parquet"``.

    Args:
        content: the file.
        stated: role -> column, where columns are stated.

    Raises:
        DataError: lines of ids that may begin with a user or with an item.
    """
    if content.parquet:
        return "parquet"
    if content.header:
        return content.published if content.published in READERS else None
    head = content.head()
    if head[0].lstrip().startswith("{"):
        number, _ = next(content.filled())
        first = read_object(head[0], f"{content.path}, line {number}")
        if isinstance(first.get("values"), list):
            return "jsonl histories"
        if is_activity(first):
            return "takeout"
        return "jsonl events" if listed_events(first) is None else "jsonl sessions"
    if (cascades := recognise_cascades(head)) is not None:
        return cascades
    if is_id_lines(head):
        return stated_layout(stated or {}) or layout_of_lines(content.path, content.head(_MOST_LINES))
    return "cyan-rnn" if is_cyan(head) else None


def read_sessions(content: Content) -> Events:
    """``item item item …`` a line.

    Raises:
        DataError: a line with the separators of another layout.
    """
    lines, numbers, notes = filled_lines(content)
    refuse(lines, lines.str.contains(r"[,;|\t]"), content, numbers, "expected ids separated by spaces")
    values = split_ids(lines)
    lengths = values.list.len()
    width = lengths[0]
    if len(lengths) > 2 and width > 1 and bool((lengths == width).all()):
        notes = (*notes, f"every line has {width} ids and is read as a session; if they are columns, add a header")
    return replace(events_of(content, values, None, numbers, notes), columns=SESSION_LINES)


def read_user_lines(content: Content) -> Events:
    """Read lines of a user and items; what several lines hold of a user is one sequence, in the file's order.

    Raises:
        DataError: a line with the separators of another layout, or no line with an item.
    """
    lines, numbers, notes = filled_lines(content)
    refuse(lines, lines.str.contains(r"[,;|\t]"), content, numbers, "expected ids separated by spaces")
    words = split_ids(lines)
    frame = pl.DataFrame({"user": words.list.first(), "items": words.list.slice(1), "line": numbers})
    rows = frame.filter(pl.col("items").list.len() > 0).explode("items")
    if not len(rows):
        raise DataError(f"{content.path}: no line has an item after its user")
    if without := frame["user"].n_unique() - rows["user"].n_unique():
        notes = (*notes, f"{plural(without, 'user')} without items left out")
    users = rows.group_by("user", maintain_order=True).agg("items", "line")
    at = users["line"].explode().to_numpy()
    lengths = users["items"].list.len().to_numpy()
    note = "the first id of a line is its user, the others are items; --columns item=1- reads all ids as items"
    events = flat_events(content, users["items"].explode(), None, lengths, at, (*notes, note), users["user"])
    return replace(events, columns=USER_LINES)


def listed_events(first: Mapping[str, object]) -> str | None:
    """Return the field that holds a list of events, each an object; ``None`` where there is none."""
    return next((name for name in _EVENTS if _are_objects(first.get(name))), None)


def read_listed_events(content: Content) -> Events:
    """Read JSON Lines of sessions with a list of their events, such as OTTO's.

    Raises:
        DataError: no column for the session or the item, or a line without events.
    """
    samples = sample_objects(content)
    listed = listed_events(samples[0]) or ""
    outer = [name for name in names_of(samples) if not isinstance(samples[0].get(name), list | dict)]
    inner = names_of(event for sample in samples for event in _objects(sample.get(listed)))
    columns, notes = find_columns(content.path, [*outer, *(name for name in inner if name not in outer)], {})
    if columns["session"] not in outer or not {columns["item"], columns.get("time", inner[0])} <= {*inner}:
        raise DataError(
            f"{content.path}: the events in {quoted(listed)} are read as items of the object's session; give an object "
            "a session, with an item and a time in each event"
        )
    fields = {columns["item"]: pl.String, **({columns["time"]: pl.String} if "time" in columns else {})}
    schema = {columns["session"]: pl.String(), listed: pl.List(pl.Struct(fields))}
    frame = read_objects(content, schema, read_object)
    element = pl.element().struct
    lists = frame.select(
        values=pl.col(listed).list.eval(element.field(columns["item"])),
        id=pl.col(columns["session"]),
        **({"times": pl.col(listed).list.eval(element.field(columns["time"]))} if "time" in columns else {}),
    )
    events = list_events(content, lists, content.place_of_line, notes)
    if events.times is not None:
        events = replace(events, times=events.times.rename(columns["time"]))
    return replace(events, columns=columns)


def read_takeout(content: Content) -> Events:
    """Read the pages that the one account of a Takeout opened, as one sequence.

    Raises:
        DataError: no activity has an address.
    """
    rows = read_activities(content)
    if not len(rows):
        raise DataError(f"{content.path}: no activity has a titleUrl, so no page was opened")
    lengths, names = np.array([len(rows)]), pl.Series([ACCOUNT])
    events = flat_events(content, rows["url"], rows["time"], lengths, rows["line"].to_numpy(), (), names)
    return replace(events, columns={"session": ACCOUNT, "item": "titleUrl", "time": "time"}, unordered=True)


def read_mind(content: Content) -> Events:
    """Read MIND's impressions: a user is one sequence, the history and then the clicks in order of time.

    The history of a user has no times and is the same in all impressions; the longest is taken.

    Raises:
        DataError: a row that does not fit the layout, a time that is none, or no user with news.
    """
    delimited = Delimited(content, content.separator, quoted=False, strict=False, given=content.header)
    frame = delimited.read(("user_id", "time", "history", "impressions")).with_row_index("row")
    seconds = read_clock(frame["time"], content.published, delimited.where, TimeOptions(day_first=False)).seconds
    clicks = pl.col("impressions").str.extract_all(r"\S+-1\b").list.eval(pl.element().str.strip_suffix("-1"))
    history = pl.col("history").fill_null("").str.extract_all(r"\S+")
    rows = frame.select("row", "user_id", clicks=clicks, history=history).with_columns(time=seconds)
    users = (
        rows.sort("time", maintain_order=True)
        .group_by("user_id", maintain_order=True)
        .agg(pl.col("row").min(), pl.col("history").sort_by(pl.col("history").list.len()).last(), pl.col("clicks"))
        .sort("row")
        .with_columns(values=pl.concat_list("history", pl.col("clicks").list.eval(pl.element().explode())))
    )
    lists, at = users.select("values", id="user_id"), users["row"]
    if not lists["values"].list.len().sum():
        raise DataError(f"{content.path}: no user has a history or a click")
    note = "each user is one session: the history, then the clicks (N…-1) in order of time; histories have no times"
    return list_events(content, lists, lambda row: delimited.where(at[row]), (note,))


def split_ids(lines: pl.Series) -> pl.Series:
    """(lines,) lists of the words between spaces, however many spaces there are."""
    lines = lines.str.strip_chars()
    if lines.str.contains("  ", literal=True).any():
        lines = lines.str.replace_all(" +", " ")
    return lines.str.split(" ")


def read_histories(content: Content) -> Events:
    """One :class:`~ensue.records.History` a line, as its JSON.

    Raises:
        DataError: a line that is no history, or times in some lines only.
    """
    _, numbers, notes = filled_lines(content)
    for number, line in zip(numbers, content.head(), strict=False):
        _require_history(line, f"{content.path}, line {number}")
    frame = read_objects(content, _HISTORY, _require_history)
    return list_events(content, frame, lambda row: f"{content.path}, line {numbers[row]}", notes)


def list_events(content: Content, frame: pl.DataFrame, where: Where, notes: tuple[str, ...] = ()) -> Events:
    """Events of a frame with a list of ``values``, maybe a list of ``times`` and maybe an ``id`` in each row.

    Raises:
        DataError: a history without values, an empty value, or as many times as values in some rows only.
    """
    frame = frame.with_row_index()
    counts = frame.select(
        values=pl.col("values").list.len().fill_null(0).cast(pl.Int64),
        times=(pl.col("times").list.len() if "times" in frame.columns else pl.lit(0)).fill_null(0).cast(pl.Int64),
    )
    filled = counts["values"] > 0
    frame, counts = frame.filter(filled), counts.filter(filled)
    if skipped := len(filled) - len(frame):
        notes = (*notes, f"{skipped} empty histories skipped")
    if not len(frame):
        raise DataError(f"{content.path}: holds no event")
    rows = frame["index"].to_numpy()
    timed = bool((counts["times"] > 0).any())
    unequal = (counts["values"] != counts["times"]).arg_true()
    if timed and len(unequal):
        values, times = counts.row(unequal[0])
        raise DataError(
            f"{where(int(rows[unequal[0]]))}: {plural(values, 'value')} but {plural(times, 'time')}; give one time "
            "per value, in every line or in none"
        )
    at = np.repeat(rows, counts["values"].to_numpy())
    names = frame["id"].fill_null("") if "id" in frame.columns else pl.Series(dtype=pl.String)
    return Events(
        categorical(frame["values"].explode(), lambda event: where(int(at[event]))),
        frame["times"].explode() if timed else None,
        counts["values"].to_numpy(),
        names,
        lambda event: where(int(at[event])),
        notes=notes,
    )


def read_lists_of_parquet(content: Content) -> pl.DataFrame:
    """The lists of ``values``, and ``times`` and an ``id`` if there are any, of Parquet with a sequence a row.

    Raises:
        DataError: lists of anything but texts and numbers.
    """
    schema = content.schema()
    for name in _HISTORY.keys() & schema.keys():
        held = schema[name]
        inner = pl.Series(dtype=held).explode().dtype if isinstance(held, pl.List) else held
        if isinstance(held, pl.List) == (name == "id") or inner.is_nested() or inner in (pl.Binary, pl.Object):
            raise DataError(
                f"{content.path}: column {name!r} holds {schema[name]}; give lists of texts, and of numbers"
            )
    frame = content.table(name for name in _HISTORY if name in schema)
    return frame.with_columns(
        frame[name].cast(kind, strict=name != "times") for name, kind in _HISTORY.items() if name in schema
    )


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _objects(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _require_history(line: str, where: str) -> None:
    """Refuse what is no history; whether its times are in order is not asked here."""
    fields = read_object(line, where)
    times = fields.get("times")
    if isinstance(times, list) and all(isinstance(time, int | float) and math.isfinite(time) for time in times):
        fields["times"] = sorted(times)
    History.from_fields(fields, where)


READERS: dict[str, Callable[[Content], Events]] = {
    **CASCADES,
    "sessions": read_sessions,
    "user histories": read_user_lines,
    "user items": read_user_lines,
    "jsonl sessions": read_listed_events,
    "mind behaviors": read_mind,
    "takeout": read_takeout,
    "jsonl histories": read_histories,
}
