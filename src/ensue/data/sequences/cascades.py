"""The public layouts of cascades, one a line: who passed it on, and when.

=============  ===================================================================================
hidan          ``user,user,…:time,time,…``
forest         ``user,time user,time …``; ``root user,time …`` or ``root,user,time user,time …``
ms-hgat        ``user time,user time,…``; ``root user time,user time,…``
topo-lstm      ``root user time user time …``
deephawkes     ``id TAB root TAB time TAB number TAB root:0 root/user:seconds …``; so do CasFlow, CCGL
cyan-rnn       ``id,user,time,user,time,…``
=============  ===================================================================================

A root that is named before the first pair has no time of its own: it is the first event, at the time of that pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from ensue.data.clock import is_number
from ensue.data.files import Content
from ensue.data.sequences.events import Events, events_of, filled_lines, flat_events, refuse
from ensue.data.time_summary import SINCE_1970
from ensue.errors import DataError
from ensue.lines import plural

_NUMBER = r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?"
_HIDAN = re.compile(rf"[^:]+:\s*{_NUMBER}(,\s*{_NUMBER})*\s*")
_FOREST = re.compile(rf"([^,\s]+,{_NUMBER}\s+)+([^,\s]+,{_NUMBER})?\s*")
_ROOTED = re.compile(rf"[^,\s]+[,\s]\s*[^,\s]+,{_NUMBER}(\s+[^,\s]+,{_NUMBER})*\s*")
_MS_HGAT = re.compile(rf"([^,\s]+ +)?[^,\s]+ +{_NUMBER}(, *[^,\s]+ +{_NUMBER})*,?\s*")
_TOPO_LSTM = re.compile(rf"[^,\s]+( +[^,\s]+ +{_NUMBER})+\s*")
_DEEPHAWKES = re.compile(rf"[^\t]+\t[^\t]+\t[^\t]*\t\d+\t *[^\t ]+:{_NUMBER}( +[^\t ]+:{_NUMBER})*\s*")
_LEAST_ORDERED = 6
"""Neighbours among the numbers of ``root user time user time …`` that must be in order: ids are by chance 1 in 64."""


def recognise_cascades(head: Sequence[str]) -> str | None:
    """The layout of cascades that the first lines have, ``cyan-rnn`` aside, or ``None``."""
    if _most(_DEEPHAWKES, head):
        return "deephawkes"
    if _HIDAN.fullmatch(head[0]):
        return "hidan"
    if any(_FOREST.fullmatch(line + " ") and " " in line for line in head[:2]):
        return "forest"
    if _most(_ROOTED, head, " "):
        return "forest"
    if _most(_MS_HGAT, head, ","):
        return "ms-hgat"
    return "topo-lstm" if _is_topo_lstm(head) else None


def is_cyan(head: Sequence[str]) -> bool:
    """Whether most of the first lines are ``id,user,time,user,time,…``, and not all are of one width."""
    fields = [line.strip().split(",") for line in head]
    fitting = [len(row) % 2 == 1 and len(row) > 2 and all(map(is_number, row[2::2])) for row in fields]
    varied = len(set(map(len, fields))) > 1 or (len(fields) == 1 and len(fields[0]) > 3)
    return fitting[0] and sum(fitting) > len(fields) / 2 and varied


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
        place = unequal[0]
        users, others = counts.row(place)
        raise DataError(f"{content.path}, line {numbers[place]}: {users} users but {others} times; give one per user")
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
    parts = flat.str.extract_groups(rf"^(?:([^{within}]+)[{within}]+)?(.+?)[{within}]+([^{within}]*)$").struct.unnest()
    frame = parts.rename({"1": "root", "2": "user", "3": "time"}).with_columns(line=owners)
    first = pl.col("line") != pl.col("line").shift(1, fill_value=-1)
    alone = first & pl.col("user").is_null() & (pl.col("line") == pl.col("line").shift(-1, fill_value=-1))
    # Of "r a,1 b,2" the pairs are r, a 1 and b 2: the root goes to the pair after it, and its own row goes.
    held = pl.when(alone.shift(1, fill_value=False)).then(pl.lit(flat).shift(1)).otherwise(pl.col("root"))
    frame = frame.with_columns(alone=alone, root=held, late=pl.col("root").is_not_null() & ~first)
    wrong = (~frame["alone"] & frame["user"].is_null()) | frame["late"]
    shape = "user,time" if within == "," else "user time"
    more = ", after one root at most" if frame["late"].any() else ""
    refuse(flat, wrong, content, numbers[owners], f"expected {shape}{more}")
    kept = frame.filter(~pl.col("alone"))
    roots = int(kept["root"].is_not_null().sum())
    root = pl.when(pl.col("root") != pl.col("user")).then(pl.col("root"))
    whole = kept.select("line", "time", user=pl.concat_list(root, "user").list.drop_nulls()).explode("user")
    counts = np.bincount(whole["line"].to_numpy(), minlength=len(lines)).astype(np.int64)
    if roots:
        notes = (*notes, _of_roots(roots, len(lines)))
    return flat_events(content, whole["user"], whole["time"], counts, np.repeat(numbers, counts), notes)


def read_topo_lstm(content: Content) -> Events:
    """``root user time user time …`` a line.

    Raises:
        DataError: a line with an even number of words.
    """
    lines, numbers, notes = filled_lines(content)
    words = lines.str.extract_all(r"\S+")
    counts = words.list.len()
    refuse(lines, (counts % 2 == 0) | (counts < 3), content, numbers, "expected root user time user time …")
    frame = pl.DataFrame({"words": words})
    users = pl.concat_list(pl.col("words").list.first(), pl.col("words").list.gather_every(2, 1))
    times = pl.concat_list(pl.col("words").list.get(2), pl.col("words").list.gather_every(2, 2))
    found = frame.select(users=users, times=times)
    return events_of(content, found["users"], found["times"], numbers, (*notes, _of_roots(len(lines), len(lines))))


def read_deephawkes(content: Content) -> Events:
    """``id TAB root TAB time TAB number TAB root:0 root/user:seconds …`` a line, in no order of time.

    Raises:
        DataError: a line of another shape.
    """
    lines, numbers, notes = filled_lines(content)
    parts = lines.str.extract_groups(r"^([^\t]*)\t[^\t]*\t([^\t]*)\t[^\t]*\t(.*)$").struct.unnest()
    refuse(lines, parts["1"].is_null(), content, numbers, "expected id TAB root TAB time TAB number TAB user:seconds …")
    paths = parts["3"].str.extract_all(r"\S+")
    lengths = paths.list.len().to_numpy().astype(np.int64)
    refuse(lines, paths.list.len() == 0, content, numbers, "expected root:0 root/user:seconds … at its end")
    flat, owners = paths.explode(), np.repeat(np.arange(len(lines)), lengths)
    found = flat.str.extract_groups(r"^(?:.*/)?([^/]*):([^:]*)$").struct.unnest()
    passed, begun = found["2"].cast(pl.Float64, strict=False), parts["2"].cast(pl.Float64, strict=False)
    refuse(flat, passed.is_null(), content, numbers[owners], "expected user/user:seconds")
    if bool((begun >= SINCE_1970).fill_null(False).all()):
        times, note = begun.gather(owners) + passed, "times are the publication time plus the seconds of each path"
    else:
        times, note = passed, "times are seconds after publication, whose own time is not a Unix time"
    path = "the last user of each path is the event"
    events = flat_events(content, found["1"], times, lengths, numbers[owners], (*notes, note, path), parts["1"])
    return replace(events, unordered=True)


def read_cyan(content: Content) -> Events:
    """``id,user,time,user,time,…`` a line.

    Raises:
        DataError: a line with an even number of fields.
    """
    lines, numbers, notes = filled_lines(content)
    fields = lines.str.split(",")
    counts = fields.list.len()
    refuse(lines, (counts % 2 == 0) | (counts < 3), content, numbers, "expected id,user,time,user,time,…")
    frame = pl.DataFrame({"fields": fields})
    values = frame.select(pl.col("fields").list.gather_every(2, 1)).to_series()
    times = frame.select(pl.col("fields").list.gather_every(2, 2)).to_series()
    return events_of(content, values, times, numbers, notes, fields.list.first())


def _most(shape: re.Pattern[str], head: Sequence[str], held: str = "") -> bool:
    """Whether the first line and most others have a shape, and at least one of these holds a text too."""
    fitting = [line for line in head if shape.fullmatch(line)]
    return head[0] in fitting and len(fitting) > len(head) / 2 and any(held in line.strip() for line in fitting)


def _is_topo_lstm(head: Sequence[str]) -> bool:
    """Whether every second word is a time that never goes back, and the users between them are in no order."""
    if not all(_TOPO_LSTM.fullmatch(line) for line in head):
        return False
    words = [line.split() for line in head]
    users, times = (all(_ascending(row[low::2]) for row in words) for low in (1, 2))
    return sum(len(row) // 2 - 1 for row in words) >= _LEAST_ORDERED and times and not users


def _ascending(words: Sequence[str]) -> bool:
    return all(map(is_number, words)) and [*words] == sorted(words, key=float)


def _of_roots(roots: int, lines: int) -> str:
    named = "each line" if roots == lines else f"{plural(roots, 'line')} of {lines:,}"
    return f"the root before the first pair of {named} is the first event, at the time of that pair"


CASCADES: dict[str, Callable[[Content], Events]] = {
    "hidan": read_hidan,
    "forest": partial(read_pairs, between=r"\s", within=","),
    "ms-hgat": partial(read_pairs, between=",", within=" "),
    "topo-lstm": read_topo_lstm,
    "deephawkes": read_deephawkes,
    "cyan-rnn": read_cyan,
}
