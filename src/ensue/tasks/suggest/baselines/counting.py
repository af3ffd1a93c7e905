"""Baselines of suggestions: the last query again, and the queries that followed it most often.

``MostFrequentNext`` answers, in this order, with

1. the queries that followed the last one, the most frequent first, ties as they came in the log;
2. the queries typed most often.

Where typed queries may be suggested and nothing ever followed the last one, it is suggested between the two, as the
baseline of the papers does.

Queries below the k-anonymity threshold are neither counted nor stored; the query after one does not count as a follower
of the query before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Ids, Index, Mask, offsets_of, ranges
from ensue.data.queries.rows import first_arrival
from ensue.metrics import Floats
from ensue.nn.validation import require_ids, require_offsets, require_totals
from ensue.tasks.suggest.baselines.table import Crowd
from ensue.vocabulary import FIRST, Vocabulary


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Lists of queries, each with its best first.

    Attributes:
        texts: (suggestions,) list after list.
        scores: (suggestions,) falling or equal within a list; each model has its own unit.
        offsets: (sessions + 1,) list ``i`` is ``texts[offsets[i]:offsets[i + 1]]``.
    """

    texts: pl.Series
    scores: Floats
    offsets: Index

    def __len__(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    def of(self, index: int) -> list[tuple[str, float]]:
        """One list, as texts with their scores."""
        rows = slice(self.offsets[index], self.offsets[index + 1])
        return list(zip(self.texts[rows], self.scores[rows].tolist(), strict=True))

    @property
    def first(self) -> pl.Series:
        """(sessions,) the best of each list; empty text where there is none."""
        filled = np.flatnonzero(np.diff(self.offsets))
        leading = pl.Series(self.texts.name, [""] * len(self), dtype=pl.String)
        return leading.scatter(filled, self.texts.gather(self.offsets[:-1][filled]))


class RepeatLast:
    """The session's own queries, the latest first: at the top, the last query once more."""

    def suggest(self, sessions: Histories, k: int = 10) -> Suggestions:
        """Return up to ``k`` distinct queries per session; the score is 1 / (1 + number of queries since)."""
        ages = np.repeat(sessions.offsets[1:], sessions.lengths) - np.arange(len(sessions.ids))
        texts, codes = _typed_queries(sessions)
        frame = pl.DataFrame({"session": sessions.sequence_index(), "id": codes, "score": 1 / ages})
        return _lists(frame.sort("session", "score", descending=[False, True]), sessions, k, texts)


@dataclass(eq=False)
class MostFrequentNext:
    """Most frequent next queries; see the module. Made by :meth:`fit`.

    Attributes:
        queries: (queries,) the distinct queries that may be shown, in order of arrival.
        totals: (queries,) how often each was typed, or by how many people.
        rows: (queries + 1,) the followers of query ``q`` are ``followers[rows[q]:rows[q + 1]]``.
        followers: (pairs,) places in ``queries``, the most frequent first.
        counts: (pairs,) how often each followed.
    """

    queries: pl.Series
    totals: Index
    rows: Index
    followers: Ids
    counts: Index

    def __post_init__(self) -> None:
        """Check that the columns belong together.

        Raises:
            ValueError: they do not.
        """
        self.queries = self.queries.rename("query")
        if len(self.vocabulary) - FIRST < len(self.queries):
            raise ValueError("queries: a text appears twice")
        require_offsets("rows", self.rows, len(self.followers), len(self.queries))
        require_ids("followers", self.followers, len(self.queries))
        require_totals("totals", self.totals, len(self.queries), 1)
        require_totals("counts", self.counts, len(self.followers), 1)

    @classmethod
    def fit(cls, sessions: Histories, allowed: Mask | None = None, crowd: Crowd | None = None) -> MostFrequentNext:
        """Count the sessions of a log.

        Args:
            sessions: to learn from.
            allowed: (values,) which values of their vocabulary pass the k-anonymity threshold. [default: all]
            crowd: who typed the sessions: people are counted, and a step that fewer than its ``min_users`` made is
                left out; ``None``: every query and every step counts each time.
        """
        values = pl.Series("query", sessions.vocabulary.values, dtype=pl.String)
        value_ids = sessions.ids.astype(np.int64) - FIRST
        in_log = np.ones(len(value_ids), np.bool_) if allowed is None else allowed[value_ids]
        stored, codes = first_arrival(value_ids[in_log])
        query_ids = np.full(len(value_ids), -1, np.int64)
        query_ids[in_log] = codes
        owners = sessions.sequence_index()
        # Adjacent events of one session are a step, if both queries are stored.
        is_step = in_log[1:] & in_log[:-1] & (owners[1:] == owners[:-1])
        people = np.arange(len(value_ids)) if crowd is None else crowd.people[owners]
        columns = {"before": query_ids[:-1][is_step], "after": query_ids[1:][is_step], "person": people[1:][is_step]}
        pairs = pl.DataFrame(columns).with_row_index("first").group_by("before", "after")
        counts = pairs.agg(pl.col("person").n_unique().alias("count"), pl.col("first").min())
        counts = counts.filter(pl.col("count") >= (1 if crowd is None else crowd.min_users))
        typed = pl.DataFrame({"query": codes, "person": people[in_log]}).unique()["query"].to_numpy()
        totals = np.bincount(typed, minlength=len(stored)).astype(np.int64)
        return cls.of(values.gather(stored), totals, counts)

    @classmethod
    def of(cls, queries: pl.Series, totals: Index, pairs: pl.DataFrame) -> MostFrequentNext:
        """Return the counts with the followers of each query in order.

        Args:
            queries: (queries,) distinct.
            totals: (queries,) counts.
            pairs: distinct pairs of queries ``before`` and ``after``, their ``count``, and when each came ``first``.
        """
        pairs = pairs.sort("before", "count", "first", descending=[False, True, False])
        rows = np.searchsorted(pairs["before"].to_numpy(), np.arange(len(queries) + 1)).astype(np.int64)
        followers = pairs["after"].to_numpy().astype(np.int32)
        return cls(queries, totals, rows, followers, pairs["count"].to_numpy().astype(np.int64))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The queries with their ids."""
        return Vocabulary(self.queries)

    @cached_property
    def by_frequency(self) -> Index:
        """(queries,) the most frequent first, ties in order of arrival."""
        return np.argsort(-self.totals, kind="stable").astype(np.int64)

    @cached_property
    def shares(self) -> Floats:
        """(queries,) the share of each of all that were typed, and of one more."""
        return self.totals / (self.totals.sum() + 1)

    def suggest(self, sessions: Histories, k: int = 10, *, typed: bool = False) -> Suggestions:
        """Return up to ``k`` queries per session.

        The score is how often a query followed the last one; 1 where the last query is repeated; and below 1, its share
        of all queries, where neither is known.

        Args:
            sessions: what was typed so far; an empty one gets the most frequent queries.
            k: length of the lists.
            typed: whether a query that the session already holds may be suggested.
        """
        query_ids, texts = self.query_ids(sessions)
        last = last_of_each(sessions, query_ids)
        # Lists are longer by the session's own queries, which may be removed.
        owners, followers, counts = self.follow(last, k + sessions.lengths)
        frames = [pl.DataFrame({"session": owners, "id": followers, "score": counts.astype(np.float64)})]
        if typed:
            unseen = np.flatnonzero((sessions.lengths > 0) & ~np.isin(np.arange(len(sessions)), owners))
            frames.append(pl.DataFrame({"session": unseen, "id": last[unseen], "score": np.ones(len(unseen))}))
        owners, popular_ids = self.popular(k + sessions.lengths)
        frames.append(pl.DataFrame({"session": owners, "id": popular_ids, "score": self.shares[popular_ids]}))
        frame = pl.concat([frame.cast({"session": pl.Int64, "id": pl.Int64}) for frame in frames])
        return best(frame.sort("session", maintain_order=True), sessions, query_ids, k, texts, typed=typed)

    def popular(self, sizes: Index) -> tuple[Index, Index]:
        """Return the most frequent queries for some sessions: the session and the id of each.

        Args:
            sizes: (sessions,) number of queries for each.
        """
        sizes = np.minimum(sizes, len(self.queries))
        return np.repeat(np.arange(len(sizes)), sizes), self.by_frequency[ranges(np.zeros_like(sizes), sizes)]

    def follow(self, last: Index, sizes: Index) -> tuple[Index, Index, Index]:
        """Return the followers of some queries: the row, the id and the count of each, the most frequent first.

        Args:
            last: (rows,) ids of queries; those that are not in the log have none.
            sizes: (rows,) maximum number of followers.
        """
        rows = np.flatnonzero((last >= 0) & (last < len(self.queries)))
        starts = self.rows[last[rows]]
        lengths = np.minimum(self.rows[last[rows] + 1] - starts, sizes[rows])
        entries = ranges(starts, lengths)
        return np.repeat(rows, lengths), self.followers[entries].astype(np.int64), self.counts[entries]

    def query_ids(self, sessions: Histories) -> tuple[Index, pl.Series]:
        """Return the (events,) ids of the typed queries and the texts by id; those not in the log come last."""
        values, codes = _typed_queries(sessions)
        table = self.vocabulary.ids(values).astype(np.int64) - FIRST
        unknown = np.flatnonzero(table < 0)
        table[unknown] = len(self.queries) + np.arange(len(unknown))
        texts = pl.concat([self.queries.rename("query"), values.gather(unknown)])
        return table[codes], texts


def added(old: MostFrequentNext, new: MostFrequentNext) -> MostFrequentNext:
    """Return the counts of two logs together; ties go to what came first, the older log before the newer."""
    queries = pl.concat([old.queries, new.queries]).unique(maintain_order=True)
    vocabulary = Vocabulary(queries)
    totals = np.zeros(len(queries), np.int64)
    frames = []
    for model in (old, new):
        query_ids = vocabulary.ids(model.queries).astype(np.int64) - FIRST
        totals[query_ids] += model.totals
        first_ids = np.repeat(query_ids, np.diff(model.rows))
        frames.append(pl.DataFrame({"before": first_ids, "after": query_ids[model.followers], "count": model.counts}))
    pairs = pl.concat(frames).with_row_index("first").group_by("before", "after")
    return MostFrequentNext.of(queries, totals, pairs.agg(pl.col("count").sum(), pl.col("first").min()))


def _typed_queries(sessions: Histories) -> tuple[pl.Series, Index]:
    """Return the distinct queries of some sessions, and (events,) the number of each event's query among them.

    The vocabulary may be far larger than the few queries of a request.
    """
    used, codes = np.unique(sessions.ids, return_inverse=True)
    values = sessions.vocabulary.values
    texts = [values[id - FIRST] if id >= FIRST else "" for id in used.tolist()]
    return pl.Series("query", texts, dtype=pl.String), codes.astype(np.int64)


def last_of_each(sessions: Histories, query_ids: Index) -> Index:
    """(sessions,) the id of the last query of each, -1 where there is none."""
    last = np.full(len(sessions), -1, np.int64)
    filled = sessions.lengths > 0
    last[filled] = query_ids[sessions.offsets[1:][filled] - 1]
    return last


def best(
    frame: pl.DataFrame, sessions: Histories, query_ids: Index, k: int, texts: pl.Series, *, typed: bool
) -> Suggestions:
    """Return the first ``k`` rows of each session whose query is not one of its own.

    Args:
        frame: columns ``session``, ``id`` and ``score``, best first in each session.
        sessions: what was typed so far.
        query_ids: (events,) the id of each of their queries.
        k: length of the lists.
        texts: by id.
        typed: whether a query that the session holds may be suggested all the same.
    """
    if not typed:
        own_queries = pl.DataFrame({"session": sessions.sequence_index(), "id": query_ids})
        frame = frame.join(own_queries, on=["session", "id"], how="anti", maintain_order="left")
    return _lists(frame, sessions, k, texts)


def _lists(frame: pl.DataFrame, sessions: Histories, k: int, texts: pl.Series) -> Suggestions:
    """Return the first ``k`` distinct rows of each session, which come best first."""
    distinct = frame.unique(["session", "id"], keep="first", maintain_order=True)
    leading = distinct.filter(pl.int_range(pl.len()).over("session") < k)
    lengths = np.bincount(leading["session"].to_numpy().astype(np.int64), minlength=len(sessions))
    offsets = offsets_of(lengths)
    return Suggestions(texts.gather(leading["id"].to_numpy()), leading["score"].to_numpy(), offsets)
