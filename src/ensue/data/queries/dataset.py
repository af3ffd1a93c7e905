"""Query logs in, sessions of queries out: cut at pauses, cleaned by rules, every row left out counted.

Users tell where a session ends and how many people typed a query. No id of theirs is in what comes out, only a number
for each, by which one person counts once; no file holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_path
from ensue.data.file_bytes import Opening
from ensue.data.files import Content, answering
from ensue.data.histories import Histories, Ids, Index, Mask, distinct_numbers, hold_out, offsets_of, ranges
from ensue.data.queries.formats import read_log
from ensue.data.queries.personal import looks_personal
from ensue.data.queries.rows import QueryRows, count_words, first_arrival, order_rows
from ensue.data.queries.rules import QueryRules, sentences
from ensue.data.schema import Clocked, ReadReport
from ensue.data.sequences.sessions import cut
from ensue.data.sequences.sources import files_of
from ensue.data.table import ReadOptions, Table, read_together
from ensue.errors import DataError
from ensue.lines import listed, quoted
from ensue.records import History
from ensue.vocabulary import FIRST, Vocabulary


@dataclass(frozen=True, eq=False)
class Queries:
    """Sessions of queries in columns.

    Attributes:
        histories: the sessions; the values of the vocabulary are the distinct normalised queries.
        users: (values,) how many different users typed each value, anywhere in the file; empty where the log has no
            users.
        words: (words,) the distinct words of the file, see ``rows.RUNS``, those of queries that look personal
            left out; empty where the log has no users.
        word_users: (words,) how many different users typed each.
        people: (sessions,) a number for the user who typed each, which says nothing outside of this object; empty where
            the log has no users.
        parts: (sessions,) the part that the file puts each session in, or empty.
        novel: (sessions,) whether the file marks it as sharing nothing with the other parts, or empty.

    Example:
        >>> from ensue.data.queries import read_queries
        >>> queries, understood = read_queries("searches.tsv")
        >>> len(queries) == len(queries.histories)
        True
    """

    histories: Histories
    users: Index = field(default_factory=lambda: np.empty(0, np.int64))
    words: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.String))
    word_users: Index = field(default_factory=lambda: np.empty(0, np.int64))
    people: Index = field(default_factory=lambda: np.empty(0, np.int64))
    parts: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.String))
    novel: Mask = field(default_factory=lambda: np.empty(0, np.bool_))

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self.histories)

    def records(self) -> Iterator[History]:
        """All sessions as records, one at a time."""
        return self.histories.records()

    def select(self, chosen: npt.NDArray[np.integer] | Mask | slice) -> Queries:
        """The chosen sessions, in the order chosen; the vocabulary and its users stay whole."""
        index = np.arange(len(self))[chosen]
        return replace(
            self,
            histories=self.histories.select(index),
            people=self.people[index] if len(self.people) else self.people,
            parts=self.parts.gather(index) if len(self.parts) else self.parts,
            novel=self.novel[index] if len(self.novel) else self.novel,
        )

    def part(self, name: str, *, novel: bool = False) -> Queries:
        """The sessions of one part, or of them those marked as novel.

        Raises:
            DataError: the file has no such part, or marks nothing as novel.
        """
        if name not in self.parts:
            names = listed(self.parts.unique().sort()) or "none"
            raise DataError(f"there is no part {quoted(name)}; the file has {names}")
        if novel and not len(self.novel):
            raise DataError("the file marks no session as novel; leave novel out")
        in_part: Mask = (self.parts == name).to_numpy()
        return self.select(in_part & self.novel if novel else in_part)


@dataclass(frozen=True, kw_only=True)
class _Cleaned(Clocked):
    rows: int
    rules: QueryRules
    dropped: dict[str, int]
    """Reason -> rows, or sessions; ``rows`` are those kept, those dropped, and those in dropped sessions."""


@dataclass(frozen=True, kw_only=True)
class QueriesReport(ReadReport, _Cleaned):
    """Report of reading a log of queries."""

    @property
    def sentences(self) -> list[str]:
        """Rows and sessions left out, one line per reason."""
        return sentences(self.dropped, self.rules)


def read_queries(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    rules: QueryRules | None = None,
    time_unit: str | None = None,
    session_ids: bool = False,
    without_users: Collection[str] = (),
    **opening: Unpack[Opening],
) -> tuple[Queries, QueriesReport]:
    """Read a log of queries, or ready-made sessions; the layout is found by its shape.

    Args:
        path: a plain or packed file, Parquet or Excel; a folder or a pattern such as ``logs/*.csv`` of such files, read
            as one log. :mod:`ensue.data.queries.formats` lists the layouts.
        columns: ``query``, ``user``, ``session``, ``time`` and ``part`` to column names, where the names do not speak
            for themselves. A session column is trusted; without one users and pauses make the sessions.
        rules: what counts as a query and as a session.
        time_unit: ``s``, ``ms``, ``us``, ``ns``, ``h``, ``days`` (Excel's, since 1899-12-30) or ``iso``; found out
            unless stated.
        session_ids: whether to return the ids of the sessions, to match lists of other programs. They may name
            persons. [default: sessions have no names]
        without_users: users whose rows are left out (sessions, where the log has no users).
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``day_first``, see :class:`Opening`.

    Returns:
        Sessions in order of first appearance of their user, oldest query first, and what was understood.

    Raises:
        DataError: naming the file, the line, the field and what to do; or no session is left.
        SettingError: an unknown role or unit.

    Example:
        >>> from ensue.data.queries import read_queries
        >>> queries, understood = read_queries("searches.tsv")
        >>> queries.histories.vocabulary.values[0]
        'lantern bridge closed'
    """
    options = ReadOptions(columns=columns or {}, time_unit=time_unit, **opening)
    rules = QueryRules() if rules is None else rules
    with answering(path):
        contents = [options.open(file) for file in files_of(require_path(path))]
        log = _read_logs(contents, options)
        rows = order_rows(log, rules, options.times, without_users)
    # Sessions that the file names are not cut; those of users are, at pauses.
    ordered = rows.histories
    sessions = cut(ordered, rules.gap) if "session" not in log.frame.columns and rules.gap else ordered
    cleaned, index, dropped = _apply(sessions, rows.reasons, rules)
    report = QueriesReport(
        path=str(path),
        layout=log.layout,
        columns=log.columns,
        time=rows.clock.sentence if rows.clock else "none: no usable time column",
        unit=rows.clock.unit if rows.clock else None,
        absolute=rows.clock is not None and rows.clock.absolute,
        day_first=rows.clock.day_first if rows.clock else None,
        rows=len(log.frame),
        rules=rules,
        dropped=rows.dropped | dropped,
        notes=log.notes + rows.notes,
        byte_order_mark=contents[0].byte_order_mark,
        warnings=(*log.warnings, *(rows.clock.warnings if rows.clock else ())),
    )
    if not len(cleaned):
        reasons = "; ".join(report.sentences)
        raise DataError(f"{path}: no session of {rules.min_queries} or more queries is left after cleaning: {reasons}")
    # The first query of each session that stays tells its user, part and name.
    begins = sessions.offsets[index]
    first = rows.file_rows[begins]
    queries = _collect(log, rows, cleaned, begins)
    if session_ids:
        queries = replace(queries, histories=replace(queries.histories, names=_session_names(log, first)))
    return queries, report


def _read_logs(contents: Sequence[Content], options: ReadOptions) -> Table:
    """Read files as one log, one below the other; a user or session may be in several files."""
    num_sessions = 0

    def read(content: Content) -> Table:
        nonlocal num_sessions
        log = read_log(content, options.columns, options.missing_ids)
        if "session" in log.frame.columns and log.frame["session"].dtype.is_integer():
            # Of two files with 3 and 2 lists of queries, the lists of the second are numbered from 3 on.
            log = replace(log, frame=log.frame.with_columns(pl.col("session") + num_sessions))
            num_sessions = int(log.frame["session"].max() or 0) + 1  # type: ignore[arg-type]
        return log

    return read_together(contents, read, "log")


def hold_out_queries(queries: Queries, share: float = 0.1, *, absolute: bool = True) -> tuple[Queries, Queries, str]:
    """Split off the sessions that begin last.

    Args:
        queries: at least two sessions.
        share: fraction to hold out, between 0 and 1.
        absolute: ``QueriesReport.absolute``; without a clock, sessions are taken in the order of the file.

    Returns:
        The sessions to train on, those held out, and the rule for the protocol card.

    Raises:
        DataError: fewer than two sessions.
        SettingError: a share outside (0, 1).
    """
    # The name of a session is its number, by which the sessions come back after the split.
    numbered = replace(queries.histories, names=pl.Series(np.arange(len(queries))))
    train, held_out, rule = hold_out(numbered, share, by_time=absolute)
    return queries.select(train.names.to_numpy()), queries.select(held_out.names.to_numpy()), rule


def prefixes(sessions: Histories, latest: int = 64) -> tuple[Histories, Ids]:
    """Every query but the first of a session as a target: what stood before it, and its id.

    Args:
        sessions: any; one of n queries gives n - 1 targets, in order.
        latest: how many queries before each target are kept at most, so that a long session does not grow squarely.

    Returns:
        (targets) histories without names, and (targets,) ids in the same vocabulary: of a session a b c, the targets
        are b and c, and the histories a and a b.
    """
    # The place of each query within its session: of sessions a b c | d e, 0 1 2 0 1.
    position = np.arange(len(sessions.ids)) - np.repeat(sessions.offsets[:-1], sessions.lengths)
    targets = np.flatnonzero(position > 0)
    lengths = np.minimum(position[targets], latest)
    # The queries before each target, the latest ones where there are many.
    events = ranges(targets - lengths, lengths)
    offsets = offsets_of(lengths)
    times = sessions.times[events] if sessions.timed else sessions.times
    return Histories(sessions.ids[events], offsets, sessions.vocabulary, times), sessions.ids[targets]


def _apply(sessions: Histories, reasons: pl.Series, rules: QueryRules) -> tuple[Histories, Index, dict[str, int]]:
    """Return the sessions that the rules leave, which sessions these are, and counts of what is dropped by reason."""
    # The reason of a value is that of every query with this value.
    query_reasons = reasons.to_numpy()[sessions.ids]
    dropped = {reason: int((query_reasons == reason).sum()) for reason in ("words", "characters")}
    clean = sessions.keep(reasons.is_null().to_numpy()[sessions.ids])
    repeats = np.zeros(len(clean.ids), np.bool_)
    if not rules.repeats:
        # A query repeats the one before it only within one session.
        repeats[1:] = (clean.ids[1:] == clean.ids[:-1]) & clean.is_followed()
    clean = clean.keep(~repeats)
    lengths = clean.lengths
    is_short = lengths < rules.min_queries
    is_long = lengths > (rules.max_queries or np.inf)
    dropped["repeats"] = int(repeats.sum())
    for name, mask in (("short_sessions", is_short), ("long_sessions", is_long)):
        dropped |= {name: int(mask.sum()), f"in_{name}": int(lengths[mask].sum())}
    index = np.flatnonzero(~is_short & ~is_long)
    return clean.select(index), index, dropped


def _session_names(log: Table, first: Index) -> pl.Series:
    """Return the (sessions,) ids of the file; none where it has none or where two sessions share one.

    Args:
        log: the file.
        first: (sessions,) the row that each session begins with.
    """
    role = "name" if "name" in log.frame.columns else "session" if "session" in log.columns else None
    if role is None:
        return pl.Series(dtype=pl.String)
    names = log.frame[role].gather(first).cast(pl.String).fill_null("")
    return names.rename("") if names.is_unique().all() else pl.Series(dtype=pl.String)


def _collect(log: Table, rows: QueryRows, sessions: Histories, begins: Index) -> Queries:
    """The sessions with a vocabulary of what is left in them, and how many users typed it.

    Args:
        log: the file.
        rows: in order.
        sessions: by the rules, not empty.
        begins: (sessions,) which of the rows in order each begins with.
    """
    first = rows.file_rows[begins]
    values_left, codes = first_arrival(sessions.ids)
    # Values that the rules dropped leave no gap in the ids.
    histories = replace(sessions, ids=codes + np.int32(FIRST), vocabulary=Vocabulary(rows.values.gather(values_left)))
    queries = Queries(replace(histories, names=pl.Series(dtype=pl.String)))
    if rows.users is not None:
        typed = rows.reasons.is_null().to_numpy()[rows.histories.ids]
        ids = rows.histories.ids[typed].astype(np.int64)
        users = rows.users[typed]
        # Each pair of a user and a value once, then the value of each pair: one user counts once per value.
        pairs = distinct_numbers(users * len(rows.values) + ids) % len(rows.values)
        # Words of queries that look personal must not become known by being counted.
        is_personal = looks_personal(rows.values)[ids]
        words, word_users = count_words(rows.values, ids[~is_personal], users[~is_personal])
        counts = np.bincount(pairs, minlength=len(rows.values))[values_left]
        queries = replace(queries, users=counts, words=words, word_users=word_users, people=rows.users[begins])
    if "part" in log.frame.columns:
        queries = replace(queries, parts=log.frame["part"].gather(first).fill_null("").rename("part"))
    if "novel" in log.frame.columns:
        queries = replace(queries, novel=log.frame["novel"].gather(first).fill_null(False).to_numpy())
    return queries


def require_pairs(data: Queries, where: str) -> None:
    """Refuse sessions in which nothing follows anything.

    Raises:
        DataError: none has two queries.
    """
    if not len(data) or int(data.histories.lengths.max()) < 2:
        raise DataError(f"{where}: no session has two queries, so there is no target; give whole sessions")
