"""The rows of a log put in order, user after user, before they are cut into sessions; and how texts get numbers."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.clock import TimeFormat, TimeOptions, read_clock
from ensue.data.histories import Histories, Ids, Index, distinct_numbers, distinct_texts, offsets_of, ranges
from ensue.data.markup import strip_markup
from ensue.data.queries.rules import QueryRules, normalise, refused
from ensue.data.scripts import CHARACTER, UNSPACED
from ensue.data.table import Table
from ensue.lines import plural
from ensue.vocabulary import Vocabulary

WORDS = rf"{CHARACTER}|[\p{{L}}\p{{M}}\p{{N}}'’--{UNSPACED}]+|[^\s\p{{L}}\p{{M}}\p{{N}}'’]+"
"""Pattern of the words that match queries: runs of letters, digits and apostrophes, and runs of other marks. Where no
space separates words, each character is one."""
RUNS = r"[\p{L}\p{M}\p{N}'’]+|[^\s\p{L}\p{M}\p{N}'’]+"
"""Pattern of the words by which people are counted: whole runs of any script, for frequent characters may spell a rare
name."""
_ASCII_WORDS = re.compile(r"[a-z0-9']+|[^\sa-z0-9']+", re.IGNORECASE | re.ASCII)


def words_of(text: str) -> list[str]:
    """Return the ``WORDS`` of one normalised text, in order."""
    return _matches(text, WORDS)


def runs_of(text: str) -> list[str]:
    """Return the ``RUNS`` of one normalised text, in order."""
    return _matches(text, RUNS)


def _matches(text: str, pattern: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORDS.findall(text)
    return pl.Series([text]).str.extract_all(pattern)[0].to_list()


@dataclass(frozen=True)
class QueryRows:
    """The rows with a query and a user, put in order."""

    histories: Histories
    """One a user, or one a session where the file knows them; ids are places in ``values``."""
    file_rows: Index
    """(rows,) the row of the file that each is."""
    users: Index | None
    """(rows,) a number for each user."""
    values: pl.Series
    """(values,) distinct normalised queries."""
    reasons: pl.Series
    """(values,) why each is no query after all, or null."""
    clock: TimeFormat | None
    dropped: dict[str, int]
    notes: tuple[str, ...]


def order_rows(log: Table, rules: QueryRules, options: TimeOptions, without: Collection[str] = ()) -> QueryRows:
    """Owner after owner in order of appearance, each in order of time.

    Args:
        log: all rows.
        rules: what counts as a query.
        options: how times are read.
        without: users whose rows are left out; sessions, where the log has no users.
    """
    frame = log.frame
    log_users, log_sessions, log_times = (frame.get_column(name, default=None) for name in ("user", "session", "time"))
    # Each distinct text is cleaned once; table[codes] leads from a row to its normalised value.
    texts, codes = distinct_texts(frame["query"].fill_null(""))
    texts, num_changed = strip_markup(texts)
    values, table = distinct_texts(normalise(texts, rules.normalisation))
    ids = table[codes]
    reasons = refused(values, rules)
    typed = (reasons != "no_query").fill_null(True).to_numpy()[ids]
    has_owner = np.ones(len(ids), np.bool_)
    for column in (log_users, log_sessions):
        if column is not None and column.dtype == pl.String:
            has_owner &= (column.fill_null("") != "").to_numpy()
    owner_names = log_sessions if log_users is None else log_users
    wanted_rows = np.ones(len(ids), np.bool_)
    if without and owner_names is not None:
        wanted_rows = ~owner_names.cast(pl.String).is_in([*without]).fill_null(False).to_numpy()
    rows = np.flatnonzero(typed & has_owner & wanted_rows)
    dropped = {"no_query": int((~typed).sum()), "no_user": int((typed & ~has_owner).sum())}
    users = None if log_users is None else distinct_texts(log_users.gather(rows))[1]
    owners = users
    if log_sessions is not None:
        owners = distinct_texts(log_sessions.gather(rows).cast(pl.String))[1]
        if users is not None and len(users):
            # A session of two users is two sessions: one number for each pair.
            owners = first_arrival(owners * (users.max() + 1) + users)[1].astype(np.int64)
    assert owners is not None
    clock: TimeFormat | None = None
    times = np.empty(0, np.float64)
    notes: tuple[str, ...] = ()
    if num_changed:
        notes = (f"HTML tags and entities removed from {plural(num_changed, 'distinct query', 'distinct queries')}",)
    if log_times is not None and len(rows):
        times_given = log_times.gather(rows).rename(log.columns.get("time", "time"))
        read = read_clock(times_given, log.layout, lambda row: log.where(int(rows[row])), options)
        clock = read.format
        times = read.seconds
    columns = {"owner": owners, **({"time": times} if clock else {})}
    # Owner after owner, each in order of time; equal times stay in the file's order.
    order = pl.DataFrame(columns).select(pl.arg_sort_by(*columns, maintain_order=True)).to_series().to_numpy()
    lengths = np.bincount(owners).astype(np.int64)
    offsets = offsets_of(lengths)
    if clock and (late := _unsorted(owners, times)):
        owner = "users" if log_sessions is None else "sessions"
        notes = (*notes, f"{late:,} of {len(lengths):,} {owner} had decreasing times: sorted by time")
    ids = ids[rows][order].astype(np.int32)
    histories = Histories(ids, offsets, Vocabulary(), times[order] if clock else times)
    return QueryRows(
        histories, rows[order], users if users is None else users[order], values, reasons, clock, dropped, notes
    )


def _unsorted(owners: Index, times: npt.NDArray[np.float64]) -> int:
    """Return how many owners have a row that is earlier than their row before."""
    # Rows of one owner next to each other, still in the file's order.
    order = np.argsort(owners, kind="stable")
    owners, times = owners[order], times[order]
    return len(np.unique(owners[1:][(owners[1:] == owners[:-1]) & (times[1:] < times[:-1])]))


def count_words(values: pl.Series, ids: Index, owners: Index) -> tuple[pl.Series, Index]:
    """The distinct words of some queries, and how many different owners typed each.

    Args:
        values: (values,) distinct queries.
        ids: (rows,) which of them was typed, from 0.
        owners: (rows,) by whom, or in which session.
    """
    lists = values.str.extract_all(RUNS)
    lengths = lists.list.len().to_numpy().astype(np.int64)
    words, codes = distinct_texts(lists.explode(empty_as_null=False))
    # A pair is one number, owner * values + query: of 10 queries, owner 2 and query 7 are 27, apart again by // and %.
    pairs = distinct_numbers(owners.astype(np.int64) * max(len(values), 1) + ids)
    owners, ids = pairs // max(len(values), 1), pairs % max(len(values), 1)
    typed = codes[ranges((np.cumsum(lengths) - lengths)[ids], lengths[ids])]
    # The same with words: each pair of an owner and a word counts once.
    keys = distinct_numbers(np.repeat(owners, lengths[ids]) * max(len(words), 1) + typed)
    counts = np.bincount(keys % max(len(words), 1), minlength=len(words))[: len(words)]
    return words.filter(counts > 0), counts[counts > 0]  # values that no row is left of have no say


def first_arrival(numbers: npt.NDArray[np.integer]) -> tuple[Index, Ids]:
    """The distinct numbers in order of first arrival, and the place of each number among them.

    Of 5 3 5 9 the distinct ones are 5 3 9, and the places 0 1 0 2.
    """
    distinct, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    positions = np.empty(len(order), np.int32)
    positions[order] = np.arange(len(order), dtype=np.int32)
    return distinct[order].astype(np.int64), positions[codes]
