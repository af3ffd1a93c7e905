"""The public layouts with one sequence a line, recognised by their shape and read without a Python object per event.

=================  ===================================================================================
sessions           ``item item item …``, no times
user histories     ``user item item item …``, no times, one user per line (S3-Rec, LightGCN)
user items         ``user item``, no times, one event per line, a user's events together (SASRec)
jsonl histories    ``{"values": […], "times": […], "id": "…"}``
jsonl events       an event a line
jsonl sessions     ``{"session": …, "events": [{"aid": …, "ts": …}, …]}`` (OTTO)
mind behaviors     MIND's ``behaviors.tsv``
hidan              ``user,user,…:time,time,…``
forest             ``user,time user,time …``; ``root user,time …`` or ``root,user,time user,time …``
ms-hgat            ``user time,user time,…``; ``root user time,user time,…``
topo-lstm          ``root user time user time …``
deephawkes         ``id TAB root TAB time TAB number TAB root:0 root/user:seconds …``; so do CasFlow, CCGL
cyan-rnn           ``id,user,time,user,time,…``
=================  ===================================================================================

In cascades, a root that is named before the first pair has no time of its own: it is the first event, at the time of
that pair.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.clock import TimeOptions, is_number, read_clock
from ensue.data.dates import SINCE_1970, Where
from ensue.data.delimited import Delimited
from ensue.data.files import Content
from ensue.data.posts.platforms import ACCOUNT, is_activity, read_activities
from ensue.data.sequences.columns import find_columns
from ensue.data.sequences.events import Events, categorical, events_of, filled_lines, flat_events, refuse
from ensue.data.table import names_of, read_object, read_objects, sample_objects
from ensue.errors import DataError
from ensue.lines import plural, quoted
from ensue.records import History

_IDS = re.compile(r"[\w \ufffd-]+")  # what is not UTF-8 is refused by line, later
SESSION_LINES = {"item": "1-"}
"""Role -> column of lines that hold items alone."""
_MIN_LINES = 20
"""Lines from which on a layout that cannot be decided is asked for; fewer are read as sessions, and that is noted."""
_CHANCE = 1e-4
"""A layout is decided where the lines would look as they do with less than this probability otherwise."""
USER_LINES = {"session": "1", "item": "2-"}
"""Role -> column of lines that begin with a user; ``2-`` is all from the second on, as in ``cut``."""
ASK = "--columns session=1,item=2- if a line begins with its user, --columns item=1- if all its ids are items"


def is_id_lines(head: Sequence[str]) -> bool:
    """Return whether most lines are words of letters and digits, each with a digit; ``just some words`` are no ids."""
    fields = [line.split() if _IDS.fullmatch(line) else [""] for line in head]
    matching = [all(any(map(str.isdigit, word)) for word in words) for words in fields]
    return matching[0] and sum(matching) > len(matching) / 2 and max(map(len, fields)) > 1


def stated_layout(stated: Mapping[str, str]) -> str | None:
    """Return the layout that stated columns mean, ``None`` where they are those of a table."""
    return "user histories" if stated == USER_LINES else "sessions" if stated == SESSION_LINES else None


def layout_of_lines(path: Path, lines: Sequence[str]) -> str:
    """Return the layout of lines of ids.

    Args:
        path: the file, for messages.
        lines: as many of its first lines as are at hand.

    Raises:
        DataError: the lines may begin with a user or with an item, and nothing decides.
    """
    rows = [words for line in lines if (words := line.split())]
    firsts = [row[0] for row in rows]
    widths = {len(row) for row in rows}
    if widths == {2} and _is_grouped(firsts):
        return "user items"
    if widths != {1} and _are_users(firsts, [word for row in rows for word in row[1:]]):
        return "user histories"
    if len(rows) < _MIN_LINES or (len(widths) > 1 and len(set(firsts)) < len(firsts)):
        return "sessions"
    if len(widths) == 1:
        raise DataError(
            f"{path}: every line has {widths.pop()} ids, which may be a session or columns of a table; give {ASK}, or "
            "add a header"
        )
    raise DataError(f"{path}: every line begins with a different id, which may be a user or an item; give {ASK}")


def _is_grouped(firsts: Sequence[str]) -> bool:
    """Return whether equal ids stand together, as those of users do in a file of events in order of users."""
    num_runs = 1 + sum(previous != following for previous, following in pairwise(firsts))
    repeats = len(firsts) - num_runs
    # By chance, each repeat of an id would stand right behind it with a probability of at most one half.
    return num_runs == len(set(firsts)) > 1 and 0.5**repeats < _CHANCE


def _are_users(firsts: Sequence[str], items: Sequence[str]) -> bool:
    """Return whether the first ids of lines are no items: they rise, or differ where items would have been repeated."""
    if len(set(firsts)) < len(firsts):
        return False
    if all(word.isdecimal() for word in firsts) and len(firsts) > 1:
        numbers = [int(word) for word in firsts]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))) and numbers[0] in (0, 1) and len(numbers) > 2:
            return True
        if numbers == sorted(numbers) and 1 / math.factorial(min(len(numbers), 20)) < _CHANCE:
            return True
    # Two items of different lines are equal with this probability; of n first ids there are n (n - 1) / 2 pairs.
    pairs = len(items) * (len(items) - 1)
    equal = sum(count * (count - 1) for count in Counter(items).values()) / pairs if pairs else 0.0
    return math.exp(-equal * len(firsts) * (len(firsts) - 1) / 2) < _CHANCE


_NUMBER = r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?"
_HIDAN = re.compile(rf"[^:]+:\s*{_NUMBER}(,\s*{_NUMBER})*\s*")
_FOREST = re.compile(rf"([^,\s]+,{_NUMBER}\s+)+([^,\s]+,{_NUMBER})?\s*")
_ROOTED = re.compile(rf"[^,\s]+[,\s]\s*[^,\s]+,{_NUMBER}(\s+[^,\s]+,{_NUMBER})*\s*")
_MS_HGAT = re.compile(rf"([^,\s]+ +)?[^,\s]+ +{_NUMBER}(, *[^,\s]+ +{_NUMBER})*,?\s*")
_TOPO_LSTM = re.compile(rf"[^,\s]+( +[^,\s]+ +{_NUMBER})+\s*")
_DEEPHAWKES = re.compile(rf"[^\t]+\t[^\t]+\t[^\t]*\t\d+\t *[^\t ]+:{_NUMBER}( +[^\t ]+:{_NUMBER})*\s*")
_LEAST_ORDERED = 6
"""Neighbours among the numbers of ``root user time user time …`` that must be in order: ids are by chance 1 in 64."""


def read_hidan(content: Content) -> Events:
    """``user,user,…:time,time,…`` a line.

    Raises:
        DataError: a line of another shape, or with unequal counts.
    """
    lines, numbers, notes = filled_lines(content)
    halves = lines.str.extract_groups(r"^(.*):([^:]*)$").struct.unnest()
    refuse(lines, halves["1"].is_null(), content, numbers, "expected user,user,…:time,time,…")
    values, times = halves["1"].str.split(","), halves["2"].str.split(",")
    counts = pl.DataFrame({"users": values.list.len(), "times": times.list.len()})
    unequal = (counts["users"] != counts["times"]).arg_true()
    if len(unequal):
        row = unequal[0]
        users, num_times = counts.row(row)
        raise DataError(f"{content.path}, line {numbers[row]}: {users} users but {num_times} times; give one per user")
    return events_of(content, values, times, numbers, notes)


def read_pairs(content: Content, between: str, within: str) -> Events:
    """Pairs of a user and a time, with a root before the first pair of each line or of none.

    Args:
        content: the file.
        between: what stands between pairs, a character of a pattern.
        within: what stands within a pair.

    Raises:
        DataError: a pair of another shape.
    """
    lines, numbers, notes = filled_lines(content)
    pairs = lines.str.strip_chars(", ").str.extract_all(rf"[^{between}]+")
    lengths = pairs.list.len().to_numpy().astype(np.int64)
    flat, owners = pairs.explode().str.strip_chars(), np.repeat(np.arange(len(lines)), lengths)
    groups = flat.str.extract_groups(rf"^(?:([^{within}]+)[{within}]+)?(.+?)[{within}]+([^{within}]*)$").struct.unnest()
    frame = groups.rename({"1": "root", "2": "user", "3": "time"}).with_columns(line=owners)
    first = pl.col("line") != pl.col("line").shift(1, fill_value=-1)
    alone = first & pl.col("user").is_null() & (pl.col("line") == pl.col("line").shift(-1, fill_value=-1))
    # Of "r a,1 b,2" the pairs are r, a 1 and b 2: the root goes to the pair after it, and its own row goes.
    root_text = pl.when(alone.shift(1, fill_value=False)).then(pl.lit(flat).shift(1)).otherwise(pl.col("root"))
    frame = frame.with_columns(alone=alone, root=root_text, late=pl.col("root").is_not_null() & ~first)
    wrong = (~frame["alone"] & frame["user"].is_null()) | frame["late"]
    shape = "user,time" if within == "," else "user time"
    root_note = ", after one root at most" if frame["late"].any() else ""
    refuse(flat, wrong, content, numbers[owners], f"expected {shape}{root_note}")
    events = frame.filter(~pl.col("alone"))
    roots = int(events["root"].is_not_null().sum())
    root = pl.when(pl.col("root") != pl.col("user")).then(pl.col("root"))
    rows = events.select("line", "time", user=pl.concat_list(root, "user").list.drop_nulls()).explode("user")
    counts = np.bincount(rows["line"].to_numpy(), minlength=len(lines)).astype(np.int64)
    if roots:
        notes = (*notes, _of_roots(roots, len(lines)))
    return flat_events(content, rows["user"], rows["time"], counts, np.repeat(numbers, counts), notes)


def read_alternating(content: Content, separator: str, shape: str) -> Events:
    """Read lines of one field, and then a user and a time in turn.

    Args:
        content: the file.
        separator: a comma or a space.
        shape: the fields of a line for messages; the first is the id of the cascade, or its root.

    Raises:
        DataError: a line with an even number of fields.
    """
    lines, numbers, notes = filled_lines(content)
    fields = lines.str.split(",") if separator == "," else split_ids(lines)
    counts = fields.list.len()
    refuse(lines, (counts % 2 == 0) | (counts < 3), content, numbers, f"expected {shape}")
    # Of "c a 1 b 2" the users are fields 1 and 3, the times fields 2 and 4.
    users, times = (
        pl.DataFrame({"fields": fields}).select(pl.col("fields").list.gather_every(2, offset)).to_series()
        for offset in (1, 2)
    )
    first = fields.list.first()
    if not shape.startswith("root"):
        return events_of(content, users, times, numbers, notes, first)
    users, times = (
        pl.select(pl.concat_list(*pair)).to_series() for pair in ((first, users), (times.list.first(), times))
    )
    return events_of(content, users, times, numbers, (*notes, _of_roots(len(lines), len(lines))))


def read_deephawkes(content: Content) -> Events:
    """``id TAB root TAB time TAB number TAB root:0 root/user:seconds …`` a line, in no order of time.

    Raises:
        DataError: a line of another shape.
    """
    lines, numbers, notes = filled_lines(content)
    cells = lines.str.extract_groups(r"^([^\t]*)\t[^\t]*\t([^\t]*)\t[^\t]*\t(.*)$").struct.unnest()
    refuse(lines, cells["1"].is_null(), content, numbers, "expected id TAB root TAB time TAB number TAB user:seconds …")
    paths = cells["3"].str.extract_all(r"\S+")
    lengths = paths.list.len().to_numpy().astype(np.int64)
    refuse(lines, paths.list.len() == 0, content, numbers, "expected root:0 root/user:seconds … at its end")
    flat, owners = paths.explode(), np.repeat(np.arange(len(lines)), lengths)
    steps = flat.str.extract_groups(r"^(?:.*/)?([^/]*):([^:]*)$").struct.unnest()
    passed, starts = steps["2"].cast(pl.Float64, strict=False), cells["2"].cast(pl.Float64, strict=False)
    refuse(flat, passed.is_null(), content, numbers[owners], "expected user/user:seconds")
    if bool((starts >= SINCE_1970).fill_null(False).all()):
        times, note = starts.gather(owners) + passed, "times are the publication time plus the seconds of each path"
    else:
        times, note = passed, "times are seconds after publication, whose own time is not a Unix time"
    path = "the last user of each path is the event"
    events = flat_events(content, steps["1"], times, lengths, numbers[owners], (*notes, note, path), cells["1"])
    return replace(events, unordered=True)


def _most(shape: re.Pattern[str], head: Sequence[str], contained: str = "") -> bool:
    """Return whether the first line and most others have a shape, and at least one of these holds a text too."""
    fitting = [line for line in head if shape.fullmatch(line)]
    return head[0] in fitting and len(fitting) > len(head) / 2 and any(contained in line.strip() for line in fitting)


def _is_forest(head: Sequence[str]) -> bool:
    """Return whether a line is ``user,time user,time …``, or most are with a root before."""
    return any(_FOREST.fullmatch(line + " ") and " " in line for line in head[:2]) or _most(_ROOTED, head, " ")


def _is_cyan(head: Sequence[str]) -> bool:
    """Return whether most lines are ``id,user,time,user,time,…``, and not all are of one width."""
    fields = [line.strip().split(",") for line in head]
    fitting = [len(row) % 2 == 1 and len(row) > 2 and all(map(is_number, row[2::2])) for row in fields]
    varied = len(set(map(len, fields))) > 1 or (len(fields) == 1 and len(fields[0]) > 3)
    return fitting[0] and sum(fitting) > len(fields) / 2 and varied


def _is_topo_lstm(head: Sequence[str]) -> bool:
    """Return whether every second word is a time that never goes back, and the users between them are in no order."""
    if not all(_TOPO_LSTM.fullmatch(line) for line in head):
        return False
    words = [line.split() for line in head]
    users, times = (all(_ascending(row[low::2]) for row in words) for low in (1, 2))
    return sum(len(row) // 2 - 1 for row in words) >= _LEAST_ORDERED and times and not users


def _ascending(words: Sequence[str]) -> bool:
    return all(map(is_number, words)) and [*words] == sorted(words, key=float)


def _of_roots(roots: int, lines: int) -> str:
    lines_text = "each line" if roots == lines else f"{plural(roots, 'line')} of {lines:,}"
    return f"the root before the first pair of {lines_text} is the first event, at the time of that pair"


@dataclass(frozen=True)
class LineLayout:
    """A layout of cascades, one per line."""

    name: str
    matches: Callable[[Sequence[str]], bool]
    """Whether the first lines of a file, at least one, have its shape."""
    read: Callable[[Content], Events]


LINE_LAYOUTS: tuple[LineLayout, ...] = (
    LineLayout("deephawkes", lambda head: _most(_DEEPHAWKES, head), read_deephawkes),
    LineLayout("hidan", lambda head: _HIDAN.fullmatch(head[0]) is not None, read_hidan),
    LineLayout("forest", _is_forest, partial(read_pairs, between=r"\s", within=",")),
    LineLayout("ms-hgat", lambda head: _most(_MS_HGAT, head, ","), partial(read_pairs, between=",", within=" ")),
    LineLayout(
        "topo-lstm", _is_topo_lstm, partial(read_alternating, separator=" ", shape="root user time user time …")
    ),
    LineLayout("cyan-rnn", _is_cyan, partial(read_alternating, separator=",", shape="id,user,time,user,time,…")),
)
"""In the order in which they are looked for: lines of one may have the shape of a later one, too."""


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
    layout = next((layout.name for layout in LINE_LAYOUTS if layout.matches(head)), None)
    if layout in (None, "cyan-rnn") and is_id_lines(head):
        return stated_layout(stated or {}) or layout_of_lines(content.path, content.head(_MOST_LINES))
    return layout


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
        column_type = schema[name]
        inner = pl.Series(dtype=column_type).explode().dtype if isinstance(column_type, pl.List) else column_type
        if isinstance(column_type, pl.List) == (name == "id") or inner.is_nested() or inner in (pl.Binary, pl.Object):
            raise DataError(
                f"{content.path}: column {name!r} holds {schema[name]}; give lists of texts, and of numbers"
            )
    frame = content.table(name for name in _HISTORY if name in schema)
    return frame.with_columns(
        frame[name].cast(kind, strict=name != "times") for name, kind in _HISTORY.items() if name in schema
    )


def read_parquet_lists(content: Content) -> Events:
    """Read Parquet or a sheet with a session per row."""
    return list_events(content, read_lists_of_parquet(content), content.place)


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
    **{layout.name: layout.read for layout in LINE_LAYOUTS},
    "sessions": read_sessions,
    "user histories": read_user_lines,
    "user items": read_user_lines,
    "jsonl sessions": read_listed_events,
    "mind behaviors": read_mind,
    "takeout": read_takeout,
    "jsonl histories": read_histories,
}
