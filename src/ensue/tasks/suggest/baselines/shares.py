"""Next-query probabilities from counts: by popularity, and given parts of the session.

Given one condition ``g`` (the last query, a query near the end, a word, a position) the probability of a query is that
of Witten & Bell (1991), with ``c`` counts of ``n`` in all over ``t`` distinct queries:

    P(q | g) = c(g, q) / (n(g) + t(g)) + t(g) / (n(g) + t(g)) P(q),

``P(q)`` being its share of all that was typed. The probabilities given several conditions are averaged, each weighted
by ``FADE`` to the power of the number of queries since, and a word also by its rarity: ln(1 + N / n(g)), of ``N``
queries typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index, offsets_of
from ensue.data.queries.rows import words_of
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.after import LATEST, TURNS
from ensue.tasks.suggest.baselines.co_occurrence import FADE, REACH
from ensue.tasks.suggest.baselines.counting import Suggestions, best
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.table import QueryTable
from ensue.text.sparse import SparseRows, sparse_rows, stacked
from ensue.vocabulary import FIRST

CONDITIONS = ("last-query", "co-occurrence", "after-words", "turn")
"""Conditions of the probabilities."""
SOURCES = (*CONDITIONS, "popular")
"""All count-based probabilities of a query."""
MAX_QUERIES = 500
"""Maximum number of queries per condition, the most frequent ones; rare words, which say the most, have fewer."""
_GROUP = 256
"""Sessions that are counted at once."""


class _Conditional(NamedTuple):
    """Probabilities given each value of a condition, without the part that all queries share."""

    shares: SparseRows  # (values, queries) the first part of P(q | g)
    counts: Floats  # (values,) n


class Shares:
    """Count-based probabilities of the next query.

    Args:
        retrieval: the counts.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval = retrieval
        self.following = retrieval.following

    @cached_property
    def tables(self) -> dict[str, _Conditional]:
        """Probabilities by the name of their condition."""
        following = self.following
        after_words = self.retrieval.after
        followed = QueryTable(following.rows, following.followers, following.counts.astype(np.float32))
        tables = (followed, self.retrieval.co_occurrence, after_words.by_word, after_words.by_turn)
        num_queries = len(following.queries)
        return {name: _conditional(table, num_queries) for name, table in zip(CONDITIONS, tables, strict=True)}

    @cached_property
    def _all_values(self) -> SparseRows:
        """(values of all conditions, queries) the tables one below the other: one product serves all conditions."""
        return stacked([table.shares for table in self.tables.values()])

    def given(
        self, names: Sequence[str], sessions: Histories, query_ids: Index, *, by_query: bool = False
    ) -> SparseRows:
        """Return the probabilities given each condition, without the part that all queries share.

        Args:
            names: of conditions.
            sessions: what was typed so far.
            query_ids: (events,) of :meth:`.MostFrequentNext.query_ids`.
            by_query: whether each typed query has a row of its own, for its contribution to the session's row.

        Returns:
            (conditions x sessions, queries), or (conditions x events, queries); a row sums to 1 minus that part.
        """
        owners = sessions.sequence_index()
        row_of_event = np.arange(len(query_ids)) if by_query else owners
        num_rows = len(query_ids) if by_query else len(sessions)
        sizes = [len(table.counts) for table in self.tables.values()]
        starts = dict(zip(self.tables, np.cumsum(sizes) - sizes, strict=True))
        rows = []
        columns = []
        shares = []
        for number, name in enumerate(names):
            events, values, weights = self._values(name, sessions, query_ids)
            totals = np.bincount(owners[events], weights, len(sessions))
            has_row = values >= 0
            events = events[has_row]
            rows.append(number * num_rows + row_of_event[events])
            columns.append(starts[name] + values[has_row])
            shares.append(weights[has_row] / totals[owners[events]])
        shape = len(names) * num_rows, self._all_values.shape[0]
        cells = sparse_rows(np.concatenate(rows), np.concatenate(columns), np.concatenate(shares), shape)
        return cells @ self._all_values

    def _values(self, name: str, sessions: Histories, query_ids: Index) -> tuple[Index, Index, Floats]:
        """Return the values of a condition: (values,) the event of each, its row of the table or -1, and its weight.

        Events never fall.
        """
        lengths = sessions.lengths
        if name == "turn":
            filled = np.flatnonzero(lengths)
            return sessions.offsets[1:][filled] - 1, np.minimum(lengths[filled], TURNS) - 1, np.ones(len(filled))
        ages = np.repeat(sessions.offsets[1:], lengths) - np.arange(len(query_ids)) - 1
        events = np.flatnonzero(ages < {"last-query": 1, "co-occurrence": REACH, "after-words": LATEST}[name])
        recency: Floats = FADE ** ages[events].astype(np.float64)
        if name != "after-words":
            in_log = query_ids[events] < len(self.following.queries)
            return events, np.where(in_log, query_ids[events], -1), recency
        words = [[*dict.fromkeys(words_of(sessions.vocabulary.value(id)))] for id in sessions.ids[events].tolist()]
        num_words = [len(query_words) for query_words in words]
        word_ids = self.retrieval.after.words.ids(word for query_words in words for word in query_words)
        word_rows = word_ids.astype(np.int64) - FIRST
        counts = np.append(self.tables[name].counts, 1.0)[word_rows]  # row -1, an unknown word, counts once
        rarity: Floats = np.log1p(self.following.totals.sum() / np.maximum(counts, 1.0))
        weights: Floats = np.repeat(recency, num_words) * rarity
        return np.repeat(events, num_words), word_rows, weights

    def suggest(self, name: str, sessions: Histories, k: int, *, typed: bool = False) -> Suggestions:
        """Return up to ``k`` queries per session by falling probability, ties in order of frequency and arrival.

        Args:
            name: of a condition, or ``popular``.
            sessions: what was typed so far.
            k: length of the lists.
            typed: whether a query that the session already holds may be suggested.
        """
        groups = [
            self._suggest(name, sessions.select(slice(low, low + _GROUP)), k, typed=typed)
            for low in range(0, max(len(sessions), 1), _GROUP)
        ]
        lengths = np.concatenate([np.diff(group.offsets) for group in groups])
        texts, scores = pl.concat([group.texts for group in groups]), np.concatenate([group.scores for group in groups])
        return Suggestions(texts, scores, offsets_of(lengths))

    def _suggest(self, name: str, sessions: Histories, k: int, *, typed: bool) -> Suggestions:
        query_ids, texts = self.following.query_ids(sessions)
        owners, popular_ids = self.following.popular(k + sessions.lengths)
        frames = [pl.DataFrame({"session": owners, "id": popular_ids, "share": np.zeros(len(popular_ids))})]
        remainder = np.ones(len(sessions))  # the probability that is left for all queries by their popularity
        if name != "popular":
            rows = self.given([name], sessions, query_ids)
            owners = rows.owners()
            remainder -= np.bincount(owners, rows.data, len(sessions))
            frames.append(pl.DataFrame({"session": owners, "id": rows.indices.astype(np.int64), "share": rows.data}))
        frame = pl.concat(frames).group_by("session", "id").agg(pl.col("share").sum())
        owners, ids = frame["session"].to_numpy(), frame["id"].to_numpy()
        score = np.round(frame["share"].to_numpy() + remainder[owners] * self.following.shares[ids], 12)
        rank = np.empty(len(self.following.queries), np.int64)
        rank[self.following.by_frequency] = np.arange(len(rank))
        frame = pl.DataFrame({"session": owners, "id": ids, "score": score, "rank": rank[ids]})
        frame = frame.sort("session", "score", "rank", descending=[False, True, False])
        return best(frame, sessions, query_ids, k, texts, typed=typed)


def _conditional(table: QueryTable, num_queries: int) -> _Conditional:
    """Return the first part of P(q | g), one row per value of the condition."""
    owners = table.owners()
    sizes = np.diff(table.rows)
    counts = np.bincount(owners, table.weights, len(sizes)).astype(np.float64)
    # Entries by value and falling count; one is among the first of its value if its place in the group is below the
    # limit. Then back to the order of the table.
    by_count = np.lexsort((table.others, -table.weights, owners))
    frequent = by_count[np.arange(len(by_count)) - np.repeat(table.rows[:-1], sizes) < MAX_QUERIES]
    frequent.sort()
    shares = (table.weights / np.repeat(counts + sizes, sizes))[frequent]
    columns = table.others[frequent].astype(np.int64)
    return _Conditional(sparse_rows(owners[frequent], columns, shares, (len(sizes), num_queries)), counts)
