"""Warnings about a log: columns that determine the next item, columns of event types, ids that a model hardly knows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl

from ensue.data.delimited import Delimited
from ensue.data.file_bytes import Opening
from ensue.data.files import answering
from ensue.data.histories import Histories
from ensue.data.sequences.columns import CLOCK, KIND, KINDS, NUMBERS, USERS, find_columns, is_person, named
from ensue.data.sequences.formats import READERS, recognise
from ensue.data.sequences.sessions import find_lists
from ensue.data.sequences.sources import files_of
from ensue.data.table import ReadOptions, names_of, read_object, read_objects, sample_objects
from ensue.errors import DataError, SettingError
from ensue.lines import part_of, plural, quoted
from ensue.vocabulary import FIRST, Vocabulary

MIN_DETERMINED = 0.95
"""Share of the rows whose next value a column tells, from which it is named."""
_GAIN = 0.2
"""By so much a column must tell more than the value of the row itself does."""
_MAX_KINDS = 10
"""Different entries of a column that says of which kind an event is."""
_MIN_ROWS = 30
_ROWS = 200_000
_BYTES = 2**25
"""Rows, and bytes of text, that are looked at from the beginning of a log."""
_NEXT = "\0next"
_ADVICE = "it is not read, and must not be used as an item or a feature"


def telling_columns(
    path: str | Path, *, columns: Mapping[str, str] | None = None, events: Collection[str] = (),
    **opening: Unpack[Opening],
) -> list[str]:  # fmt: skip
    """Return a line for each column that tells the next row's value, and for each that holds kinds of events.

    Args:
        path: a table of events, of several files the first; of other layouts there is no column to speak of.
        columns: roles to names, as the reader of sequences has them.
        events: the event types that are read, where they are chosen: nothing is said about them then.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``.

    """
    options = ReadOptions(columns=_without_event(columns), **opening)
    # The reader says what is wrong with a file; a column that it never looks at may hold anything.
    with suppress(DataError), answering(path):
        if (frame := _first_rows(Path(path), options)) is not None:
            samples = frame.head().to_dicts()
            roles = find_columns(Path(path), frame.columns, options.columns, options.schema, samples=samples)[0]
            return [*([] if events else _kinds(frame, roles)), *_shared_sessions(frame, roles), *_told(frame, roles)]
    return []


def require_people(path: str | Path, *, columns: Mapping[str, str] | None = None, **opening: Unpack[Opening]) -> None:
    """Refuse to count sessions as people where the log names users that are not read.

    Args:
        path: a log of events, of several files the first.
        columns: roles to names; a sequence that is stated is what is meant.
        opening: as of :func:`telling_columns`.

    Raises:
        SettingError: naming the columns and what to state.
    """
    options = ReadOptions(columns=_without_event(columns), **opening)
    with suppress(DataError), answering(path):  # the reader says what is wrong with a file
        frame = _first_rows(Path(path), options)
        users = [] if frame is None else named(frame.columns, USERS)
        if frame is None or not users or "session" in options.columns:
            return
        roles = find_columns(Path(path), frame.columns, options.columns)[0]
        unread = [name for name in users if name not in roles.values()]
        if unread and is_person(roles):
            sessions = roles["session"]
            raise SettingError(
                f"{path}: --min-users would count each session ({sessions}) as a person, though {unread[0]} names "
                f"users; give --columns session={unread[0]},item=…,time=… to count users, or session={sessions},… "
                "to count sessions"
            )


def _without_event(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return the stated roles but for the kind, the weight and the propensity, which only choose and weigh rows."""
    return {role: name for role, name in (columns or {}).items() if role not in (KIND, *NUMBERS)}


def _kinds(frame: pl.DataFrame, roles: Mapping[str, str]) -> list[str]:
    """Warn of columns that say of which kind each event is: events of every kind are read alike."""
    lines = []
    for name in named(frame.columns, KINDS):
        # Two to ten types are kinds of events; one says nothing, and more are categories of items.
        kinds = frame[name].drop_nulls().value_counts(sort=True)
        if name in roles.values() or not 2 <= len(kinds) <= _MAX_KINDS:
            continue
        texts = ", ".join(f"{quoted(kind, 40)} {count:,}" for kind, count in kinds.iter_rows())
        lines.append(
            f"column {quoted(name)} holds {len(kinds)} event types, {texts}: all are treated the same; choose the "
            f"types to predict, such as --events {kinds[name][0]}"
        )
    return lines


def _shared_sessions(frame: pl.DataFrame, roles: Mapping[str, str]) -> list[str]:
    """Warn of sessions in which several users are: their ids may start again for each user, and would be merged."""
    users = [name for name in named(frame.columns, USERS) if name not in roles.values()]
    if not users or not is_person(roles):
        return []
    session, user = roles["session"], users[0]
    # (sessions,) number of users of each.
    counts = frame.drop_nulls([session, user]).group_by(session).agg(pl.col(user).n_unique())[user]
    num_shared = int((counts > 1).sum())
    if not num_shared:
        return []
    return [
        f"{part_of(num_shared, len(counts), 'session', 'holds', 'hold')} events of several users ({quoted(user)}): if "
        f"the ids of sessions start again for each user, make one column of {quoted(user)} and {quoted(session)}, or "
        f"give --columns session={user}"
    ]


def _first_rows(path: Path, options: ReadOptions) -> pl.DataFrame | None:
    """Return all columns of the first rows of a log as texts; ``None`` of a log that is no table."""
    content = options.open(files_of(path)[0], in_pieces=True)
    layout = recognise(content)
    if layout in READERS or content.header:
        return None
    if not content.parquet and len(content.data) > _BYTES:
        content = replace(content, data=content.data[: content.data.find(b"\n", _BYTES) + 1])
    if layout == "parquet":
        plain = [name for name, kind in content.schema().items() if not kind.is_nested() and kind != pl.Binary]
        nested = len(plain) < len(content.schema())
        return None if nested else replace(content, part=(0, _ROWS)).table(plain).cast(pl.String)
    if layout == "jsonl events":
        samples = sample_objects(content)
        names = [name for name in names_of(samples) if not isinstance(samples[0].get(name), list | dict)]
        return read_objects(content, dict.fromkeys(names, pl.String), read_object).head(_ROWS)
    delimited = Delimited(content, max(("\t", ",", ";", "|"), key=content.head(1)[0].count), strict=False)
    return None if find_lists(delimited.names) is not None else delimited.whole(num_rows=_ROWS)


def _told(frame: pl.DataFrame, roles: Mapping[str, str]) -> list[str]:
    sequence = roles["session"]
    value = roles["item"]
    if "time" in roles:
        times = frame[roles["time"]].cast(pl.Float64, strict=False)
        texts = [roles[role] for role in ("time", CLOCK) if role in roles]
        frame = frame.sort(texts if times.null_count() or CLOCK in roles else times, maintain_order=True)
    names = [name for name in frame.columns if name not in roles.values()]
    if not names:
        return []
    rows = frame.with_columns(pl.col(value).shift(-1).over(sequence).alias(_NEXT)).drop_nulls(_NEXT)
    if len(rows) < _MIN_ROWS:
        return []
    # What the item itself tells is the measure: an item may be followed by the same one nearly always.
    base = _known(rows, value)
    lines = []
    for name in names:
        equal = float((rows[name] == rows[_NEXT]).mean() or 0.0)  # type: ignore[arg-type]
        if equal >= MIN_DETERMINED:
            lines.append(f"column {quoted(name)} holds the next item in {100 * equal:.1f} % of the rows: {_ADVICE}")
        elif (share := _known(rows, name)) >= max(MIN_DETERMINED, base + _GAIN):
            lines.append(
                f"column {quoted(name)} determines the next item in {100 * share:.1f} % of the rows, the item itself "
                f"in {100 * base:.1f} %: {_ADVICE}"
            )
    return lines


def _known(rows: pl.DataFrame, name: str) -> float:
    """Share of the rows whose next value is the commonest of those with the same entry, and not the only one."""
    # How often the commonest next item of each entry follows it; entries that occur once would tell everything.
    counts = rows.drop_nulls(name).group_by(name, _NEXT).len("count").group_by(name).agg(pl.col("count").max())
    hits = counts.filter(pl.col("count") > 1)["count"].sum()
    return float(hits) / len(rows)


MIN_KNOWN = 0.1
"""Fraction of the events whose item must be known; below it a file is likely to write its ids in another way."""
_MAX_COMPARED = 1000
_SPELLING = re.compile(r"[\s_-]|^0+(?=.)|\.0+$")
"""Characters by which two spellings of one id may differ, besides case."""


def hardly_known(histories: Histories, vocabulary: Vocabulary, owner: str) -> str:
    """Return a warning with an id of each side where hardly any event is known; empty otherwise.

    Args:
        histories: of a file; not empty.
        vocabulary: the items that are known.
        owner: who knows them, such as ``the model``.
    """
    values = histories.vocabulary.values
    # (ids,) in the numbers of this file; neither padding nor an unknown item is known.
    is_known = np.concatenate([np.zeros(FIRST, np.bool_), vocabulary.ids(values) >= FIRST])
    count = int(is_known[histories.ids].sum())
    if not len(vocabulary.values) or count >= MIN_KNOWN * len(histories.ids):
        return ""
    unknown = [value for value, known in zip(values, is_known[FIRST:], strict=True) if not known]
    known_example, unknown_example = examples(vocabulary.values, unknown)
    events = plural(len(histories.ids), "event")
    return (
        f"{owner} knows the item of {count:,} of {events} only: it knows items such as {quoted(known_example)}, and "
        f"this file has items such as {quoted(unknown_example)}; are the ids of both written in the same way?"
    )


def examples(known: Sequence[str], unknown: Iterable[str]) -> tuple[str, str]:
    """Return a known and an unknown id, two spellings of one id where there are such.

    Args:
        known: ids, at least one.
        unknown: ids, at least one.
    """
    spellings = {_SPELLING.sub("", value.lower()): value for value in [*unknown][:_MAX_COMPARED]}
    for value in known:
        if (other := spellings.get(_SPELLING.sub("", value.lower()))) is not None:
            return value, other
    return known[0], next(iter(spellings.values()))
