"""The public layouts with one sequence a line, recognised by their shape and read without a Python object per event.

=================  ===================================================================================
sessions           ``item item item …``, no times
user histories     ``user item item item …``, no times, one user per line (S3-Rec, LightGCN)
user items         ``user item``, no times, one event per line, a user's events together (SASRec)
jsonl histories    ``{"values": […], "times": […], "id": "…"}``
jsonl events       an event a line
mind behaviors     MIND's ``behaviors.tsv``
hidan              ``user,user,…:time,time,…``
forest             ``user,time user,time …``; ``root user,time …`` or ``root,user,time user,time …``
ms-hgat            ``user time,user time,…``; ``root user time,user time,…``
topo-lstm          ``root user time user time …``
deephawkes         ``id TAB root TAB time TAB number TAB root:0 root/user:seconds …``; so do CasFlow, CCGL
cyan-rnn           ``id,user,time,user,time,…``
=================  ===================================================================================

Every reader returns a table with one event per row, whose column ``session`` counts the sequences of the file. In
cascades, a root that is named before the first pair has no time of its own: it is the first event, at the time of that
pair, unless it is the user of that pair.
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

from ensue.data import layouts
from ensue.data.clock import SINCE_1970, TimeOptions, is_number, read_clock
from ensue.data.delimited import Delimited
from ensue.data.files import Content
from ensue.data.histories import Index
from ensue.data.layouts import Layout
from ensue.data.posts.platforms import ACCOUNT, is_activity, read_activities
from ensue.data.sequences.events import filled_lines, list_table, refuse, session_table, split_ids
from ensue.data.table import Table, read_object, read_objects
from ensue.errors import DataError
from ensue.lines import plural
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
    # Of different widths, lines are no table; a first id that comes twice is no user, who has one line.
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
        # n numbers are in order by chance in one of n! cases; 20! is far beyond the threshold.
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
_MIN_ORDERED = 6
"""Neighbours among the numbers of ``root user time user time …`` that must be in order: ids are by chance 1 in 64."""
_ROOT = r"(?:(?P<root>[^,\s]+)[,\s]+)?"


@dataclass(frozen=True)
class CascadeLayout:
    """A published layout of cascades: pairs of a user and a time on each line."""

    name: str
    line: str
    """Pattern of a line. Its groups are ``pairs`` and, where the layout has them, ``id``, ``root`` and ``start``."""
    pairs: str
    """Pattern that finds the pairs one by one."""
    pair: str
    """Pattern of a pair, with the groups ``user`` and ``time``."""
    expected: str
    """Shape of a line for messages."""
    expected_pair: str = ""
    """Shape of a pair for messages, where another than that of the line."""


CASCADES: tuple[CascadeLayout, ...] = (
    CascadeLayout(
        "deephawkes",
        r"^(?P<id>[^\t]*)\t[^\t]*\t(?P<start>[^\t]*)\t[^\t]*\t(?P<pairs>.*)$",
        r"\S+",
        rf"^(?:.*/)?(?P<user>[^/]*):(?P<time>{_NUMBER})$",
        "id TAB root TAB time TAB number TAB user:seconds …",
        "user/user:seconds",
    ),
    CascadeLayout(
        "forest",
        rf"^{_ROOT}(?P<pairs>[^,\s]+,[^,\s]*,?(?:\s.*)?)$",
        r"\S+",
        r"^(?P<user>[^,]+),(?P<time>[^,]*),?$",
        "user,time",
    ),
    CascadeLayout(
        "ms-hgat",
        rf"^{_ROOT}(?P<pairs>[^,\s]+ +[^,\s]*(?:[,\s].*)?)$",
        r"[^,\s][^,]*",
        r"^(?P<user>\S+)\s+(?P<time>\S+)\s*$",
        "user time",
    ),
    CascadeLayout(
        "topo-lstm",
        r"^(?P<root>\S+)(?P<pairs>(?: +\S+ +\S+)+)$",
        r"\S+ +\S+",
        r"^(?P<user>\S+) +(?P<time>\S+)$",
        "root user time user time …",
    ),
    CascadeLayout(
        "cyan-rnn",
        r"^(?P<id>[^,]*)(?P<pairs>(?:,[^,]*,[^,]*)+)$",
        ",[^,]*,[^,]*",
        r"^,\s*(?P<user>[^,]*?)\s*,(?P<time>[^,]*)$",
        "id,user,time,user,time,…",
    ),
)


def read_cascades(content: Content, layout: CascadeLayout) -> Table:
    """Return the events of a file of cascades.

    Raises:
        DataError: a line or a pair of another shape.
    """
    lines, numbers, notes = filled_lines(content)
    parts = lines.str.extract_groups(layout.line).struct.unnest()
    refuse(lines, parts["pairs"].is_null(), content, numbers, f"expected {layout.expected}")
    pairs = parts["pairs"].str.extract_all(layout.pairs)
    # One row per pair: "a,1 b,2" above "c,3" gives a,1 b,2 c,3, which are of the lines 0 0 1.
    owners = np.repeat(np.arange(len(lines)), pairs.list.len())
    flat = pairs.explode()
    words = flat.str.extract_groups(layout.pair).struct.unnest()
    has_root = "root" in parts.columns and parts["root"].null_count() < len(parts)
    expected = layout.expected_pair or layout.expected + ", after one root at most" * has_root
    refuse(flat, words["user"].is_null(), content, numbers[owners], f"expected {expected}")
    events = words.with_columns(line=owners)
    if has_root:
        # The first pair of a line becomes two events where its root is another user: "r a,1" gives r,1 a,1.
        is_first = pl.col("line") != pl.col("line").shift(1, fill_value=-1)
        roots = parts["root"].gather(owners)
        other_root = pl.when(is_first & (roots != pl.col("user"))).then(roots)
        events = events.with_columns(user=pl.concat_list(other_root, "user").list.drop_nulls()).explode("user")
        num_roots = len(parts) - parts["root"].null_count()
        which = "each line" if num_roots == len(lines) else f"{plural(num_roots, 'line')} of {len(lines):,}"
        notes = (*notes, f"the root before the first pair of {which} is the first event, at the time of that pair")
    times = events["time"]
    if "start" in parts.columns:
        seconds = times.cast(pl.Float64, strict=False)
        starts = parts["start"].cast(pl.Float64, strict=False)
        times, note = seconds, "times are seconds after publication, whose own time is not a Unix time"
        if bool((starts >= SINCE_1970).fill_null(False).all()):
            times = starts.gather(owners) + seconds
            note = "times are the publication time plus the seconds of each path"
        notes = (*notes, note, "the last user of each path is the event")
    event_lines = events["line"].to_numpy()
    return session_table(
        events["user"],
        np.bincount(event_lines, minlength=len(lines)),
        lambda event: f"{content.path}, line {numbers[event_lines[event]]}",
        times=times,
        names=parts["id"] if "id" in parts.columns else None,
        notes=notes,
    )


def read_hidan(content: Content) -> Table:
    """Read ``user,user,…:time,time,…`` on each line.

    Raises:
        DataError: a line of another shape, or with unequal counts.
    """
    lines, numbers, notes = filled_lines(content)
    if lines.str.contains(" ", literal=True).any():
        lines = lines.str.replace_all(r"\s*([,:])\s*", "$1")
    halves = lines.str.extract_groups(r"^(.*):([^:]*)$").struct.unnest()
    refuse(lines, halves["1"].is_null(), content, numbers, "expected user,user,…:time,time,…")
    lists = halves.select(values=pl.col("1").str.split(","), times=pl.col("2").str.split(","))
    counts = lists.select(pl.all().list.len())
    for row in (counts["values"] != counts["times"]).arg_true()[:1]:
        users, num_times = counts.row(row)
        raise DataError(f"{content.path}, line {numbers[row]}: {users} users but {num_times} times; give one per user")
    return list_table(content, lists, lambda row: f"{content.path}, line {numbers[row]}", notes)


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
    # An id, and then pairs: an odd number of fields, of which every second one from the third on is a time.
    fitting = [len(row) % 2 == 1 and len(row) > 2 and all(map(is_number, row[2::2])) for row in fields]
    varied = len(set(map(len, fields))) > 1 or (len(fields) == 1 and len(fields[0]) > 3)
    return fitting[0] and sum(fitting) > len(fields) / 2 and varied


def _is_topo_lstm(head: Sequence[str]) -> bool:
    """Return whether every second word is a time that never goes back, and the users between them are in no order."""
    if not all(_TOPO_LSTM.fullmatch(line) for line in head):
        return False
    words = [line.split() for line in head]
    # Of "root user time user time" the users are the words 1 and 3, the times 2 and 4.
    users_rise, times_rise = (all(_is_ascending(row[low::2]) for row in words) for low in (1, 2))
    return sum(len(row) // 2 - 1 for row in words) >= _MIN_ORDERED and times_rise and not users_rise


def _is_ascending(words: Sequence[str]) -> bool:
    return all(map(is_number, words)) and [*words] == sorted(words, key=float)


_HISTORY = {"values": pl.List(pl.String), "times": pl.List(pl.Float64), "id": pl.String()}
_MAX_LINES = 100_000
"""Lines that are looked at where ids may be users or items."""


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
        return "takeout" if is_activity(first) else "jsonl events"
    cascades = layouts.recognise(LAYOUTS, head)
    layout = None if cascades is None else cascades.name
    # Ids between commas are as well lines of ids: only the layouts before are sure.
    if layout in (None, "cyan-rnn") and is_id_lines(head):
        return stated_layout(stated or {}) or layout_of_lines(content.path, content.head(_MAX_LINES))
    return layout


def _id_lines(content: Content) -> tuple[pl.Series, Index, tuple[str, ...]]:
    """Return (lines,) lists of ids between spaces, the number of each line, and notes.

    Raises:
        DataError: a line with the separators of another layout.
    """
    lines, numbers, notes = filled_lines(content)
    refuse(lines, lines.str.contains(r"[,;|\t]"), content, numbers, "expected ids separated by spaces")
    return split_ids(lines), numbers, notes


def read_sessions(content: Content) -> Table:
    """Read ``item item item …`` on each line.

    Raises:
        DataError: a line with the separators of another layout.
    """
    values, numbers, notes = _id_lines(content)
    lengths = values.list.len()
    # Lines of one width may be the rows of a table without a header: a note says how they were read.
    width = lengths[0]
    if len(lengths) > 2 and width > 1 and bool((lengths == width).all()):
        notes = (*notes, f"every line has {width} ids and is read as a session; if they are columns, add a header")
    lists = pl.DataFrame({"values": values})
    table = list_table(content, lists, lambda row: f"{content.path}, line {numbers[row]}", notes)
    return replace(table, columns=SESSION_LINES)


def read_user_lines(content: Content) -> Table:
    """Read lines of a user and items; what several lines hold of a user is one sequence, in the file's order.

    Raises:
        DataError: a line with the separators of another layout, or no line with an item.
    """
    words, numbers, notes = _id_lines(content)
    frame = pl.DataFrame({"user": words.list.first(), "items": words.list.slice(1), "line": numbers})
    # One row per item: "u a b" gives u a and u b, both with the number of the line.
    rows = frame.filter(pl.col("items").list.len() > 0).explode("items")
    if not len(rows):
        raise DataError(f"{content.path}: no line has an item after its user")
    if num_empty := frame["user"].n_unique() - rows["user"].n_unique():
        notes = (*notes, f"{plural(num_empty, 'user')} without items left out")
    users = rows.group_by("user", maintain_order=True).agg("items", "line")
    event_lines = users["line"].explode()
    return session_table(
        users["items"].explode(),
        users["items"].list.len().to_numpy(),
        lambda event: f"{content.path}, line {event_lines[event]}",
        names=users["user"],
        notes=(
            *notes,
            "the first id of a line is its user, the others are items; --columns item=1- reads all ids as items",
        ),
        columns=USER_LINES,
    )


def read_takeout(content: Content) -> Table:
    """Read the pages that the one account of a Takeout opened, as one sequence.

    Raises:
        DataError: no activity has an address.
    """
    rows = read_activities(content)
    if not len(rows):
        raise DataError(f"{content.path}: no activity has a titleUrl, so no page was opened")
    return session_table(
        rows["url"],
        np.array([len(rows)]),
        lambda event: f"{content.path}, line {rows['line'][event]}",
        times=rows["time"],
        names=pl.Series([ACCOUNT]),
        columns={"session": ACCOUNT, "item": "titleUrl", "time": "time"},
    )


def read_mind(content: Content) -> Table:
    """Read MIND's impressions: a user is one sequence, the history and then the clicks in order of time.

    The history of a user has no times and is the same in all impressions; the longest is taken.

    Raises:
        DataError: a row that does not fit the layout, a time that is none, or no user with news.
    """
    delimited = Delimited(content, content.separator, quoted=False, strict=False, header=content.header)
    frame = delimited.read(("user_id", "time", "history", "impressions")).with_row_index("row")
    seconds = read_clock(frame["time"], content.published, delimited.where, TimeOptions(day_first=False)).seconds
    # Of "N1-0 N2-1 N3-1" the clicks are N2 and N3.
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
    if not users["values"].list.len().sum():
        raise DataError(f"{content.path}: no user has a history or a click")
    lists = users.select("values", id="user_id")
    note = "each user is one session: the history, then the clicks (N…-1) in order of time; histories have no times"
    return list_table(content, lists, lambda row: delimited.where(users["row"][row]), (note,))


def read_histories(content: Content) -> Table:
    """Read one :class:`~ensue.records.History` per line, as its JSON.

    Raises:
        DataError: a line that is no history, or times in some lines only.
    """
    _, numbers, notes = content.filled_lines()
    # The first lines are checked one by one, so that a wrong field is named; polars checks the types of all.
    for number, line in zip(numbers, content.head(), strict=False):
        _require_history(line, f"{content.path}, line {number}")
    frame = read_objects(content, _HISTORY, _require_history)
    return list_table(content, frame, lambda row: f"{content.path}, line {numbers[row]}", notes)


def _require_history(line: str, where: str) -> None:
    """Refuse what is no history; whether its times are in order is not asked here."""
    fields = read_object(line, where)
    times = fields.get("times")
    if isinstance(times, list) and all(isinstance(time, int | float) and math.isfinite(time) for time in times):
        fields["times"] = sorted(times)
    History.from_fields(fields, where)


_CASCADES = {layout.name: partial(read_cascades, layout=layout) for layout in CASCADES}
LAYOUTS: tuple[Layout[Sequence[str], Callable[[Content], Table]], ...] = (
    Layout("deephawkes", partial(_most, _DEEPHAWKES), _CASCADES["deephawkes"]),
    Layout("hidan", lambda head: _HIDAN.fullmatch(head[0]) is not None, read_hidan),
    Layout("forest", _is_forest, _CASCADES["forest"]),
    Layout("ms-hgat", partial(_most, _MS_HGAT, contained=","), _CASCADES["ms-hgat"]),
    Layout("topo-lstm", _is_topo_lstm, _CASCADES["topo-lstm"]),
    Layout("cyan-rnn", _is_cyan, _CASCADES["cyan-rnn"]),
)
"""Layouts of cascades, by the first lines of a file; lines of one may have the shape of a later one, too."""
READERS: dict[str, Callable[[Content], Table]] = {
    **{layout.name: layout.read for layout in LAYOUTS},
    "sessions": read_sessions,
    "user histories": read_user_lines,
    "user items": read_user_lines,
    "mind behaviors": read_mind,
    "takeout": read_takeout,
    "jsonl histories": read_histories,
}
