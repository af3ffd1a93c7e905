"""Baselines of suggestions: the last query again, and the queries that followed it most often.

``MostFrequentNext`` answers, in this order, with

1. the queries that followed the last one, the most frequent first, ties as they came in the log;
2. the queries typed most often.

Where typed queries may be suggested and nothing ever followed the last one, it stands between the two: so the baseline
of the papers.

Queries below the k-anonymity threshold are neither counted nor stored, and what followed it did not follow what came
before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Ids, Index, ranges
from ensue.data.queries.rows import first_arrival
from ensue.metrics import Floats
from ensue.nn.validation import require_ids, require_offsets, require_totals
from ensue.tasks.suggest.baselines.table import Crowd
from ensue.vocabulary import FIRST, Vocabulary

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Lists of queries, best first.

    Attributes:
        texts: (suggestions,) list after list.
        scores: (suggestions,) falling or equal within a list; what they mean is the model's own.
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
        low, high = self.offsets[index], self.offsets[index + 1]
        return list(zip(self.texts[low:high], self.scores[low:high].tolist(), strict=True))

    @property
    def first(self) -> pl.Series:
        """(sessions,) the best of each list; empty text where there is none."""
        filled = np.diff(self.offsets) > 0
        best = pl.Series(self.texts.name, [""] * len(self), dtype=pl.String)
        return best.scatter(np.flatnonzero(filled), self.texts.gather(self.offsets[:-1][filled]))


class RepeatLast:
    """The session's own queries, the latest first: at the top, the last query once more."""

    def suggest(self, sessions: Histories, k: int = 10) -> Suggestions:
        """Up to ``k`` distinct queries a session; the score is 1 / (1 + how many queries ago)."""
        ages = np.repeat(sessions.offsets[1:], sessions.lengths) - np.arange(len(sessions.ids))
        texts, codes = _typed(sessions)
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
        ids = sessions.ids.astype(np.int64) - FIRST
        shown = np.ones(len(ids), np.bool_) if allowed is None else allowed[ids]
        kept, codes = first_arrival(ids[shown])
        places = np.full(len(ids), -1, np.int64)
        places[shown] = codes
        owners = sessions.sequence_index()
        beside = shown[1:] & shown[:-1] & (owners[1:] == owners[:-1])
        people = np.arange(len(ids)) if crowd is None else crowd.people[owners]
        columns = {"before": places[:-1][beside], "after": places[1:][beside], "person": people[1:][beside]}
        pairs = pl.DataFrame(columns).with_row_index("first")
        counted = pairs.group_by("before", "after").agg(
            pl.col("person").n_unique().alias("count"), pl.col("first").min()
        )
        counted = counted.filter(pl.col("count") >= (1 if crowd is None else crowd.min_users))
        typed = pl.DataFrame({"query": codes, "person": people[shown]}).unique()["query"].to_numpy()
        counted = counted.sort("before", "count", "first", descending=[False, True, False])
        return cls(
            values.gather(kept),
            np.bincount(typed, minlength=len(kept)).astype(np.int64),
            np.searchsorted(counted["before"].to_numpy(), np.arange(len(kept) + 1)).astype(np.int64),
            counted["after"].to_numpy().astype(np.int32),
            counted["count"].to_numpy().astype(np.int64),
        )

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
        found: Floats = self.totals / (self.totals.sum() + 1)
        return found

    def suggest(self, sessions: Histories, k: int = 10, *, typed: bool = False) -> Suggestions:
        """Up to ``k`` queries a session.

        The score is how often a query followed the last one; 1 where the last query stands for itself; and below 1,
        its share of all queries, where neither is known.

        Args:
            sessions: what was typed so far; an empty one gets the most frequent queries.
            k: length of the lists.
            typed: whether a query that the session already holds may be suggested.
        """
        places, texts = self.places(sessions)
        last = last_places(sessions, places)
        owners, followers, counts = self.follow(last, k + sessions.lengths)  # so many that typed ones may go
        parts = [pl.DataFrame({"session": owners, "id": followers, "score": counts.astype(np.float64)})]
        if typed:
            unseen = np.flatnonzero((sessions.lengths > 0) & ~np.isin(np.arange(len(sessions)), owners))
            parts.append(pl.DataFrame({"session": unseen, "id": last[unseen], "score": np.ones(len(unseen))}))
        every, top = self.popular(k + sessions.lengths)
        parts.append(pl.DataFrame({"session": every, "id": top, "score": self.shares[top]}))
        frame = pl.concat([part.cast({"session": pl.Int64, "id": pl.Int64}) for part in parts])
        return best(frame.sort("session", maintain_order=True), sessions, places, k, texts, typed=typed)

    def popular(self, sizes: Index) -> tuple[Index, Index]:
        """So many of the queries typed most for each of some sessions: whose, and which."""
        sizes = np.minimum(sizes, len(self.queries))
        return np.repeat(np.arange(len(sizes)), sizes), self.by_frequency[ranges(np.zeros_like(sizes), sizes)]

    def follow(self, last: Index, most: Index) -> tuple[Index, Index, Index]:
        """Followers of some queries: whose, which, and how often, the most frequent first.

        Args:
            last: (rows,) places of queries; those that are not known have none.
            most: (rows,) how many at most.
        """
        rows = np.flatnonzero((last >= 0) & (last < len(self.queries)))
        starts = self.rows[last[rows]]
        lengths = np.minimum(self.rows[last[rows] + 1] - starts, most[rows])
        entries = ranges(starts, lengths)
        return np.repeat(rows, lengths), self.followers[entries].astype(np.int64), self.counts[entries]

    def places(self, sessions: Histories) -> tuple[Index, pl.Series]:
        """(events,) places of the typed queries, and the texts behind them: unknown ones come after the known."""
        values, codes = _typed(sessions)
        table = self.vocabulary.ids(values).astype(np.int64) - FIRST
        unknown = np.flatnonzero(table < 0)
        table[unknown] = len(self.queries) + np.arange(len(unknown))
        texts = pl.concat([self.queries.rename("query"), values.gather(unknown)])
        return table[codes], texts


def added(old: MostFrequentNext, new: MostFrequentNext) -> MostFrequentNext:
    """The counts of two logs together; ties go to what came first, the older log before the newer."""
    queries = pl.concat([old.queries, new.queries]).unique(maintain_order=True)
    numbers = pl.DataFrame({"query": queries}).with_row_index("id")
    frames, totals = [], np.zeros(len(queries), np.int64)
    for model in (old, new):
        places: Index = (
            pl.DataFrame({"query": model.queries})
            .join(numbers, on="query", how="left", maintain_order="left")["id"]
            .to_numpy()
            .astype(np.int64)
        )
        totals[places] += model.totals
        before = np.repeat(np.arange(len(model.queries)), np.diff(model.rows))
        pairs = {"before": places[before], "after": places[model.followers], "count": model.counts}
        frames.append(pl.DataFrame(pairs))
    every = pl.concat(frames).with_row_index("first")
    counted = every.group_by("before", "after").agg(pl.col("count").sum(), pl.col("first").min())
    counted = counted.sort("before", "count", "first", descending=[False, True, False])
    rows = np.searchsorted(counted["before"].to_numpy(), np.arange(len(queries) + 1)).astype(np.int64)
    followers, counts = counted["after"].to_numpy().astype(np.int32), counted["count"].to_numpy().astype(np.int64)
    return MostFrequentNext(queries, totals, rows, followers, counts)


def _typed(sessions: Histories) -> tuple[pl.Series, Index]:
    """The distinct queries that occur in some sessions, and (events,) which of them each is.

    The vocabulary may be far larger than what a question holds.
    """
    used, codes = np.unique(sessions.ids, return_inverse=True)
    values = sessions.vocabulary.values
    texts = [values[id - FIRST] if id >= FIRST else "" for id in used.tolist()]
    return pl.Series("query", texts, dtype=pl.String), codes.astype(np.int64)


def last_places(sessions: Histories, places: Index) -> Index:
    """(sessions,) the place of the last query of each, -1 where there is none."""
    last = np.full(len(sessions), -1, np.int64)
    filled = sessions.lengths > 0
    last[filled] = places[sessions.offsets[1:][filled] - 1]
    return last


def best(
    frame: pl.DataFrame, sessions: Histories, places: Index, k: int, texts: pl.Series, *, typed: bool
) -> Suggestions:
    """The first ``k`` of each session's rows that it does not hold itself.

    Args:
        frame: columns ``session``, ``id`` and ``score``, best first in each session.
        sessions: what was typed so far.
        places: (events,) the id of each query of theirs.
        k: length of the lists.
        texts: what ids are places in.
        typed: whether a query that the session holds may be suggested all the same.
    """
    if not typed:
        held = pl.DataFrame({"session": sessions.sequence_index(), "id": places})
        frame = frame.join(held, on=["session", "id"], how="anti", maintain_order="left")
    return _lists(frame, sessions, k, texts)


def _lists(frame: pl.DataFrame, sessions: Histories, k: int, texts: pl.Series) -> Suggestions:
    """The first ``k`` distinct of each session's rows, which stand best first."""
    once = frame.unique(["session", "id"], keep="first", maintain_order=True)
    kept = once.filter(pl.int_range(pl.len()).over("session") < k)
    lengths = np.bincount(kept["session"].to_numpy().astype(np.int64), minlength=len(sessions))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Suggestions(texts.gather(kept["id"].to_numpy()), kept["score"].to_numpy(), offsets)
