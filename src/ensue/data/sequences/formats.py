"""The public layouts with one sequence a line, recognised by their shape and read without a Python object per event.

=================  ============================================
cascades           :mod:`ensue.data.sequences.cascades`
sessions           ``item item item …``, no times
jsonl histories    ``{"values": […], "times": […], "id": "…"}``
=================  ============================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import polars as pl

from ensue.data.clock import Where
from ensue.data.files import Content
from ensue.data.sequences.cascades import CASCADES, is_cyan, recognise_cascades
from ensue.data.sequences.events import Events, categorical, events_of, filled_lines, refuse
from ensue.data.table import read_object, read_objects
from ensue.errors import DataError
from ensue.lines import plural
from ensue.records import History

_HISTORY = {"values": pl.List(pl.String), "times": pl.List(pl.Float64), "id": pl.String()}
_YOOCHOOSE = re.compile(r"[^,\s]+,\d{4}-\d\d-\d\d[T ][\d:.]+Z?,[^,\s]+,[^,]*")
_IDS = re.compile(r"[\w \ufffd-]+")  # what is not UTF-8 is refused by line, later


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
    if (cascades := recognise_cascades(head)) is not None:
        return cascades
    if _YOOCHOOSE.fullmatch(head[0]):
        return "yoochoose"
    if _is_sessions(head):
        return "sessions"
    return "cyan-rnn" if is_cyan(head) else None


def read_sessions(content: Content) -> Events:
    """``item item item …`` a line.

    Raises:
        DataError: a line with the separators of another layout.
    """
    lines, numbers, notes = filled_lines(content)
    refuse(lines, lines.str.contains(r"[,;|\t]"), content, numbers, "expected ids with spaces between them")
    values = split_ids(lines)
    lengths = values.list.len()
    width = lengths[0]
    if len(lengths) > 2 and width > 1 and bool((lengths == width).all()):
        notes = (*notes, f"every line has {width} ids and is read as a session; if they are columns, add a header")
    return events_of(content, values, None, numbers, notes)


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
            f"{where(int(rows[unequal[0]]))}: {plural(values, 'value')} but {plural(times, 'time')}; give one time a "
            "value, in every line or in none"
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


def _is_sessions(head: list[str]) -> bool:
    """Whether most lines are words of letters and digits, each with a digit; ``just some words`` are no ids."""
    fields = [line.split() if _IDS.fullmatch(line) else [""] for line in head]
    fitting = [all(any(map(str.isdigit, word)) for word in words) for words in fields]
    return fitting[0] and sum(fitting) > len(fitting) / 2 and max(map(len, fields)) > 1


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
    "jsonl histories": read_histories,
}
