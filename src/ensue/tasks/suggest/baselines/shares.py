"""Next-query probabilities from counts: by popularity, and given parts of the session.

Given one thing ``g`` (the last query, one that stands near, a word, a place) the share of a query is that of Witten &
Bell (1991), with ``c`` counts of ``n`` in all over ``t`` distinct queries:

    P(q | g) = c(g, q) / (n(g) + t(g)) + t(g) / (n(g) + t(g)) P(q),

``P(q)`` being its share of all that was typed. Of several things the shares are averaged, each weighed by ``FADE`` to
how many queries ago it stood, and a word by how rare it is besides: ln(1 + N / n(g)), of ``N`` queries typed.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index
from ensue.data.queries.rows import words_of
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.after import LATEST, TURNS
from ensue.tasks.suggest.baselines.co_occurrence import FADE, REACH
from ensue.tasks.suggest.baselines.counting import Suggestions, best
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.table import Table
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.vocabulary import FIRST

GIVEN = ("last-query", "co-occurrence", "after-words", "turn")
"""Conditions of the probabilities."""
SOURCES = (*GIVEN, "popular")
"""All that expects a share of each query."""
MOST = 500
"""Queries that a given thing speaks for at most, those that came most often: what the rarest words say is whole."""
_GROUP = 256
"""Sessions that are counted at once."""


class _Rows(NamedTuple):
    """Shares a given thing."""

    shares: SparseRows
    counts: Floats  # (given,) n


class Shares:
    """Expectations of a log that was counted.

    Args:
        retrieval: the counts.
    """

    def __init__(self, retrieval: Retrieval) -> None:
        self.retrieval, self.following = retrieval, retrieval.following

    @cached_property
    def tables(self) -> dict[str, _Rows]:
        """By name of ``GIVEN``."""
        own, after = self.following, self.retrieval.after
        followed = Table(own.rows, own.followers, own.counts.astype(np.float32))
        tables = (followed, self.retrieval.co_occurrence, after.by_word, after.by_turn)
        return {name: _rows(table, len(own.queries)) for name, table in zip(GIVEN, tables, strict=True)}

    def of(self, name: str, sessions: Histories, places: Index) -> SparseRows:
        """(sessions, queries) what a thing given alone says; what a row lacks of 1 is the part of all queries.

        Args:
            name: in ``GIVEN``.
            sessions: what was typed so far.
            places: (events,) of :meth:`.MostFrequentNext.places`.
        """
        owners = sessions.sequence_index()
        return self._of(name, sessions, places, owners, len(sessions))

    def by_query(self, name: str, sessions: Histories, places: Index) -> SparseRows:
        """(events, queries) the part of :meth:`of` that each query typed brings."""
        return self._of(name, sessions, places, np.arange(len(places)), len(places))

    def _of(self, name: str, sessions: Histories, places: Index, rows: Index, number: int) -> SparseRows:
        """Shares added up in so many rows, one for each event or for several."""
        table = self.tables[name]
        events, given, weights = self._given(name, sessions, places, table)
        owners = sessions.sequence_index()[events]
        whole = np.bincount(owners, weights, len(sessions))
        known = given >= 0
        weights = weights[known] / whole[owners[known]]
        return sparse_rows(rows[events[known]], given[known], weights, (number, len(table.counts))) @ table.shares

    def _given(self, name: str, sessions: Histories, places: Index, table: _Rows) -> tuple[Index, Index, Floats]:
        """By which event, which row of the table (-1: none), and how much it weighs; events never fall."""
        lengths = sessions.lengths
        if name == "turn":
            filled = np.flatnonzero(lengths)
            return sessions.offsets[1:][filled] - 1, np.minimum(lengths[filled], TURNS) - 1, np.ones(len(filled))
        ages = np.repeat(sessions.offsets[1:], lengths) - np.arange(len(places)) - 1
        near = np.flatnonzero(ages < {"last-query": 1, "co-occurrence": REACH, "after-words": LATEST}[name])
        faded: Floats = FADE ** ages[near].astype(np.float64)
        if name != "after-words":
            known = (places[near] >= 0) & (places[near] < len(self.following.queries))
            return near, np.where(known, places[near], -1), faded
        words = [[*dict.fromkeys(words_of(sessions.vocabulary.value(id)))] for id in sessions.ids[near].tolist()]
        sizes = [len(own) for own in words]
        flat = [word for own in words for word in own]
        given = self.retrieval.after.words.ids(flat).astype(np.int64) - FIRST
        counts = np.append(table.counts, 1.0)[given]  # the last, at -1: of one that is not known
        rare: Floats = np.log1p(self.following.totals.sum() / np.maximum(counts, 1.0))
        weights: Floats = np.repeat(faded, sizes) * rare
        return np.repeat(near, sizes), given, weights

    def suggest(self, name: str, sessions: Histories, k: int, *, typed: bool = False) -> Suggestions:
        """Up to ``k`` queries a session by falling share, ties in order of frequency and arrival.

        Args:
            name: in ``GIVEN``, or ``popular``.
            sessions: what was typed so far.
            k: length of the lists.
            typed: whether a query that the session already holds may be suggested.
        """
        parts = [
            self._suggest(name, sessions.select(slice(low, low + _GROUP)), k, typed=typed)
            for low in range(0, max(len(sessions), 1), _GROUP)
        ]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.offsets) for part in parts]))])
        texts, scores = pl.concat([part.texts for part in parts]), np.concatenate([part.scores for part in parts])
        return Suggestions(texts, scores, offsets.astype(np.int64))

    def _suggest(self, name: str, sessions: Histories, k: int, *, typed: bool) -> Suggestions:
        places, texts = self.following.places(sessions)
        every, top = self.following.popular(k + sessions.lengths)
        found = [pl.DataFrame({"session": every, "id": top, "own": np.zeros(len(top))})]
        rest = np.ones(len(sessions))
        if name != "popular":
            rows = self.of(name, sessions, places)
            owners = np.repeat(np.arange(len(sessions)), np.diff(rows.indptr))
            rest -= np.bincount(owners, rows.data, len(sessions))
            found.append(pl.DataFrame({"session": owners, "id": rows.indices.astype(np.int64), "own": rows.data}))
        frame = pl.concat(found).group_by("session", "id").agg(pl.col("own").sum())
        owners, ids = frame["session"].to_numpy(), frame["id"].to_numpy()
        score = np.round(frame["own"].to_numpy() + rest[owners] * self.following.shares[ids], 12)
        arrival = np.empty(len(self.following.queries), np.int64)
        arrival[self.following.by_frequency] = np.arange(len(arrival))
        frame = pl.DataFrame({"session": owners, "id": ids, "score": score, "place": arrival[ids]})
        frame = frame.sort("session", "score", "place", descending=[False, True, False])
        return best(frame, sessions, places, k, texts, typed=typed)


def _rows(table: Table, queries: int) -> _Rows:
    """The first part of P(q | g), a row a given thing."""
    owners, sizes = table.owners(), np.diff(table.rows)
    counts = np.bincount(owners, table.weights, len(sizes)).astype(np.float64)
    whole = np.repeat(counts + sizes, sizes)
    order = np.lexsort((table.others, -table.weights, owners))
    kept = order[np.arange(len(order)) - np.repeat(table.rows[:-1], sizes) < MOST]
    kept.sort()
    values = (table.weights / whole)[kept]
    return _Rows(sparse_rows(owners[kept], table.others[kept].astype(np.int64), values, (len(sizes), queries)), counts)
