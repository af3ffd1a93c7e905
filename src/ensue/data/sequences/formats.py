"""The public layouts with one sequence a line, recognised by their shape and read without a Python object per event.

=================  ============================================
hidan              ``user,user,…:time,time,…``
forest             ``user,time user,time …``
cyan-rnn           ``id,user,time,user,time,…``
sessions           ``item item item …``, no times
jsonl histories    ``{"values": […], "times": […], "id": "…"}``
=================  ============================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ensue.data.clock import Where, is_number
from ensue.data.files import Content
from ensue.data.histories import Index
from ensue.data.table import read_object, read_objects
from ensue.errors import DataError
from ensue.lines import quoted
from ensue.records import History

_HISTORY = {"values": pl.List(pl.String), "times": pl.List(pl.Float64), "id": pl.String()}
_NUMBER = r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?"
_HIDAN = re.compile(rf"[^:]+:\s*{_NUMBER}(,\s*{_NUMBER})*\s*")
_FOREST = re.compile(rf"([^,\s]+,{_NUMBER}\s+)+([^,\s]+,{_NUMBER})?\s*")
_YOOCHOOSE = re.compile(r"[^,\s]+,\d{4}-\d\d-\d\d[T ][\d:.]+Z?,[^,\s]+,[^,]*")
_IDS = re.compile(r"[\w \ufffd-]+")  # what is not UTF-8 is refused by line, later


@dataclass(frozen=True)
class Events:
    """What a file holds, sequence after sequence, before its clock is understood."""

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
    unordered: bool = False
    """Whether the layout is known to keep events in no order of time."""


def recognise(content: Content) -> str | None:
    """The layout with one sequence a line, or ``None`` for a table (a header and one event a row).

    JSON Lines of events are ``"jsonl events"``, Parquet is ``"parquet"``, a table of Yoochoose clicks, which has no
    header, is ``"yoochoose"``.
    """
    if content.parquet:
        return "parquet"
    head = content.head()
    if head[0].lstrip().startswith("{"):
        number, _ = next(content.filled())
        listed = isinstance(read_object(head[0], f"{content.path}:{number}").get("values"), list)
        return "jsonl histories" if listed else "jsonl events"
    if _HIDAN.fullmatch(head[0]):
        return "hidan"
    if any(_FOREST.fullmatch(line + " ") and " " in line for line in head[:2]):
        return "forest"
    if _YOOCHOOSE.fullmatch(head[0]):
        return "yoochoose"
    if _is_sessions(head):
        return "sessions"
    return "cyan-rnn" if _is_cyan(head) else None


def read_hidan(content: Content) -> Events:
    """``user,user,…:time,time,…`` a line.

    Raises:
        DataError: a line of another shape, or with unequal counts.
    """
    lines, numbers, notes = _lines(content)
    halves = lines.str.extract_groups(r"^(.*):([^:]*)$").struct.unnest()
    _refuse(lines, halves["1"].is_null(), content, numbers, "expected user,user,…:time,time,…")
    values, times = halves["1"].str.split(","), halves["2"].str.split(",")
    counts = pl.DataFrame({"users": values.list.len(), "times": times.list.len()})
    unequal = (counts["users"] != counts["times"]).arg_true()
    if len(unequal):
        place = unequal[0]
        users, others = counts.row(place)
        raise DataError(f"{content.path}:{numbers[place]}: {users} users but {others} times; give one time a user")
    return _events(content, values, times, numbers, notes)


def read_forest(content: Content) -> Events:
    """``user,time user,time …`` a line.

    Raises:
        DataError: a pair of another shape.
    """
    lines, numbers, notes = _lines(content)
    pairs = lines.str.extract_all(r"\S+")
    lengths = pairs.list.len()
    flat = pairs.explode()
    halves = flat.str.extract_groups(r"^(.*),([^,]*)$").struct.unnest()
    at = np.repeat(numbers, lengths.to_numpy())
    _refuse(flat, halves["1"].is_null(), content, at, "expected user,time")
    return _flat_events(content, halves["1"], halves["2"], lengths.to_numpy(), at, notes)


def read_cyan(content: Content) -> Events:
    """``id,user,time,user,time,…`` a line.

    Raises:
        DataError: a line with an even number of fields.
    """
    lines, numbers, notes = _lines(content)
    fields = lines.str.split(",")
    counts = fields.list.len()
    _refuse(lines, (counts % 2 == 0) | (counts < 3), content, numbers, "expected id,user,time,user,time,…")
    frame = pl.DataFrame({"fields": fields})
    values = frame.select(pl.col("fields").list.gather_every(2, 1)).to_series()
    times = frame.select(pl.col("fields").list.gather_every(2, 2)).to_series()
    return _events(content, values, times, numbers, notes, fields.list.first())


def read_sessions(content: Content) -> Events:
    """``item item item …`` a line.

    Raises:
        DataError: a line with the separators of another layout.
    """
    lines, numbers, notes = _lines(content)
    _refuse(lines, lines.str.contains(r"[,;|\t]"), content, numbers, "expected ids with spaces between them")
    values = split_ids(lines)
    lengths = values.list.len()
    width = lengths[0]
    if len(lengths) > 2 and width > 1 and bool((lengths == width).all()):
        notes = (*notes, f"every line has {width} ids and is read as a session; if they are columns, add a header")
    return _events(content, values, None, numbers, notes)


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
    _, numbers, notes = _lines(content)
    for number, line in zip(numbers, content.head(), strict=False):
        _require_history(line, f"{content.path}:{number}")
    frame = read_objects(content, _HISTORY, _require_history)
    return list_events(content, frame, lambda row: f"{content.path}:{numbers[row]}", notes)


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
            f"{where(int(rows[unequal[0]]))}: {values} values but {times} times; give one time a value, in every line "
            "or in none"
        )
    at = np.repeat(rows, counts["values"].to_numpy())
    names = frame["id"].fill_null("") if "id" in frame.columns else pl.Series(dtype=pl.String)
    return Events(
        _categorical(frame["values"].explode(), lambda event: where(int(at[event]))),
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


def _is_cyan(head: list[str]) -> bool:
    fields = [line.strip().split(",") for line in head]
    fitting = [len(row) % 2 == 1 and len(row) > 2 and all(map(is_number, row[2::2])) for row in fields]
    varied = len(set(map(len, fields))) > 1 or (len(fields) == 1 and len(fields[0]) > 3)
    return fitting[0] and sum(fitting) > len(fields) / 2 and varied


def _is_sessions(head: list[str]) -> bool:
    """Whether most lines are words of letters and digits, each with a digit; ``just some words`` are no ids."""
    fields = [line.split() if _IDS.fullmatch(line) else [""] for line in head]
    fitting = [all(any(map(str.isdigit, word)) for word in words) for words in fields]
    return fitting[0] and sum(fitting) > len(fitting) / 2 and max(map(len, fields)) > 1


def _lines(content: Content) -> tuple[pl.Series, Index, tuple[str, ...]]:
    """As :meth:`Content.filled_lines`, without spaces around them."""
    lines, numbers, notes = content.filled_lines()
    return lines.str.strip_chars(), numbers, notes


def _refuse(texts: pl.Series, wrong: pl.Series, content: Content, numbers: Index, expected: str) -> None:
    places = wrong.arg_true()
    if len(places):
        shown = quoted(texts[places[0]], 40)
        raise DataError(f"{content.path}:{numbers[places[0]]}: {shown} does not fit; {expected}")


def _require_history(line: str, where: str) -> None:
    """Refuse what is no history; whether its times are in order is not asked here."""
    fields = read_object(line, where)
    times = fields.get("times")
    if isinstance(times, list) and all(isinstance(time, int | float) and math.isfinite(time) for time in times):
        fields["times"] = sorted(times)
    History.from_fields(fields, where)


def _events(
    content: Content,
    values: pl.Series,
    times: pl.Series | None,
    numbers: Index,
    notes: tuple[str, ...],
    names: pl.Series | None = None,
) -> Events:
    lengths = values.list.len().to_numpy()
    at = np.repeat(numbers, lengths)
    flat_times = None if times is None else times.explode()
    return _flat_events(content, values.explode(), flat_times, lengths, at, notes, names)


def _flat_events(
    content: Content,
    values: pl.Series,
    times: pl.Series | None,
    lengths: Index,
    at: Index,
    notes: tuple[str, ...],
    names: pl.Series | None = None,
) -> Events:
    def where(event: int) -> str:
        return f"{content.path}:{at[event]}"

    named = pl.Series(dtype=pl.String) if names is None else names
    return Events(
        _categorical(values.str.strip_chars(), where), times, lengths.astype(np.int64), named, where, notes=notes
    )


def _categorical(values: pl.Series, where: Where) -> pl.Series:
    empty = (values.is_null() | (values == "")).arg_true()
    if len(empty):
        raise DataError(f"{where(empty[0])}: a value is empty; every event needs one")
    return values.cast(pl.Categorical)


READERS: dict[str, Callable[[Content], Events]] = {
    "hidan": read_hidan,
    "forest": read_forest,
    "cyan-rnn": read_cyan,
    "sessions": read_sessions,
    "jsonl histories": read_histories,
}
