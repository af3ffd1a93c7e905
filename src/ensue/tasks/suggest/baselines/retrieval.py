"""Candidates for the next query that are retrieved from the log, never generated.

Candidates of a session are, in this order, the queries that followed its last query, the most frequent first; then
queries by falling score, a sum over its latest queries, each weighted by ``FADE`` less than the one after it, of

    ``CLOSENESS`` x C(q) / max C + N(q) / max N,    N(q) = sum over c of C(c) near(c, q)

C(c) is the square of BM25 (:mod:`ensue.text.terms`) of c for the words of the typed query, relative to the highest,
for the ``CLOSE`` highest queries, and 0 for all others; each word counts once. ``near`` is :func:`.scaled`: how often
q occurs near c in sessions, before or after it. Scores are rounded to six decimals; ties go to the query that came
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Ids, Index, Mask, distinct_texts, offsets_of, ranges
from ensue.data.queries.rows import WORDS, words_of
from ensue.metrics import Floats
from ensue.nn.validation import require_number, require_table
from ensue.tasks.suggest.baselines.after import TURNS, After
from ensue.tasks.suggest.baselines.co_occurrence import FADE, count_pairs, scaled
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, last_of_each
from ensue.tasks.suggest.baselines.table import Crowd, QueryTable
from ensue.tasks.suggest.baselines.topics import moved, word_vectors
from ensue.text.encoder import Vectors
from ensue.text.postings import Postings
from ensue.text.terms import bm25_idf, bm25_saturation
from ensue.vocabulary import FIRST, Vocabulary

CLOSE = 50
"""Number of queries of the log that represent a typed one."""
CLOSENESS = 0.3
"""Weight of shared words, relative to co-occurrence in sessions."""
_CELLS = 1 << 22
"""Maximum number of scores in memory."""
NONE = -1


def _no_topics() -> Vectors:
    return np.empty((0, 0), np.float32)


@dataclass(eq=False)
class Retrieval:
    """Candidates for a session; made by :meth:`fit`.

    Attributes:
        following: the queries of the log, and the followers of each.
        co_occurrence: queries near each.
        after: queries after words, and by position.
        topics: (words, dimensions) topic vectors of the words of ``after``; empty unless they are needed.
    """

    following: MostFrequentNext
    co_occurrence: QueryTable
    after: After
    topics: Vectors = field(default_factory=_no_topics)
    shares: Floats = field(init=False)
    words: Vocabulary = field(init=False)
    postings: Postings = field(init=False)

    def __post_init__(self) -> None:
        """Check that the tables belong together, and index the words of the queries.

        Raises:
            ValueError: they are of different queries or words.
        """
        num_queries = len(self.following.queries)
        num_words = len(self.after.words) - FIRST
        self.co_occurrence.require_size("co_occurrence", num_queries, num_queries)
        self.after.by_word.require_size("after.by_word", num_words, num_queries)
        self.after.by_turn.require_size("after.by_turn", TURNS, num_queries)
        require_table("topics", self.topics, np.float32, [num_words if len(self.topics) else 0, None])
        require_number("topics", self.topics, 1.001, -1.001)  # vectors of length 1
        self.shares = scaled(self.co_occurrence, self.following.totals)
        lists = self.following.queries.str.extract_all(WORDS)
        lengths = lists.list.len().to_numpy().astype(np.int64)
        words, codes = distinct_texts(lists.explode(empty_as_null=False))
        self.words = Vocabulary(words)
        cells = pl.DataFrame({"word": codes, "query": np.repeat(np.arange(len(lengths)), lengths)})
        cells = cells.group_by("word", "query").len().sort("word", "query")
        # Inverted index: the queries with word w are query_ids[offsets[w]:offsets[w + 1]].
        frequencies = np.bincount(cells["word"].to_numpy(), minlength=len(words))
        offsets = offsets_of(frequencies)
        query_ids = cells["query"].to_numpy().astype(np.int32)
        mean = float(lengths.mean()) if len(lengths) else 1.0
        saturation = bm25_saturation(cells["len"].to_numpy(), lengths[query_ids], mean)
        # Rounded, so that sums in 64 bits are exact and equal queries tie whatever the order of their words.
        weights = (np.repeat(bm25_idf(frequencies, len(lengths)), frequencies) * saturation).astype(np.float32)
        self.postings = Postings(offsets, query_ids, weights, len(lengths))

    @classmethod
    def fit(
        cls,
        sessions: Histories,
        allowed: Mask | None = None,
        words: Set[str] | None = None,
        crowd: Crowd | None = None,
        *,
        topics: bool = False,
    ) -> Retrieval:
        """Index the sessions of a log.

        Args:
            sessions: training data.
            allowed: (values,) which values of their vocabulary pass the k-anonymity threshold. [default: all]
            words: that pass it. [default: all]
            crowd: who typed the sessions, and how many people a count needs. [default: all counts]
            topics: whether to compute topic vectors of words.
        """
        following = MostFrequentNext.fit(sessions, allowed, crowd)
        values = pl.Series("query", sessions.vocabulary.values, dtype=pl.String)
        table = following.vocabulary.ids(values).astype(np.int64) - FIRST
        query_ids = table[sessions.ids.astype(np.int64) - FIRST] if len(values) else np.empty(0, np.int64)
        pairs = count_pairs(query_ids, sessions.sequence_index(), len(following.queries), crowd)
        after_words = After.fit(sessions, query_ids, words, crowd)
        return cls(
            following, pairs, after_words, word_vectors(sessions, after_words.words, crowd) if topics else _no_topics()
        )

    def with_(self, new: Retrieval, following: MostFrequentNext) -> Retrieval:
        """Return the counts of two logs together, whose followers together are ``following``."""
        old_ids, new_ids = (
            following.vocabulary.ids(log.following.queries).astype(np.int64) - FIRST for log in (self, new)
        )
        pairs = self.co_occurrence.with_(
            new.co_occurrence, (old_ids, old_ids), (new_ids, new_ids), len(following.queries)
        )
        after_words = self.after.with_(new.after, old_ids, new_ids)
        return Retrieval(following, pairs, after_words, moved(self.topics, self.after.words, after_words.words))

    def without_topics(self) -> Retrieval:
        """Return the retrieval without the word topics."""
        return Retrieval(self.following, self.co_occurrence, self.after)

    def candidates(
        self,
        sessions: Histories,
        k: int = 100,
        *,
        typed: bool = False,
        latest: int = 3,
        located: tuple[Index, pl.Series] | None = None,
    ) -> Ids:
        """Return the (sessions, k) ids of candidates, best first, ``NONE`` where there are no more.

        Args:
            sessions: what was typed so far; an empty one has no candidates.
            k: number of candidates.
            typed: whether a query that the session already holds is a candidate.
            latest: number of latest queries that count.
            located: :meth:`.MostFrequentNext.query_ids` of the sessions, if it is computed already.
        """
        query_ids, texts = located or self.following.query_ids(sessions)
        last = last_of_each(sessions, query_ids)
        # Lists are longer by the session's own queries, which are removed.
        sizes = k + (np.zeros_like(sessions.lengths) if typed else sessions.lengths)
        owners, followers, _ = self.following.follow(last, sizes)
        short = np.flatnonzero((np.bincount(owners, minlength=len(sessions)) < sizes) & (last != NONE))
        nearest = dict(
            zip(short.tolist(), self._nearest(sessions, query_ids, short, latest, texts, 2 * sizes), strict=True)
        )
        ends = np.searchsorted(owners, np.arange(len(sessions) + 1))
        table = np.full((len(sessions), k), NONE, np.int32)
        for row in range(len(sessions)):
            ranked = dict.fromkeys(followers[ends[row] : ends[row + 1]].tolist())
            ranked |= dict.fromkeys(nearest[row].tolist() if row in nearest else ())
            for id in () if typed else query_ids[sessions.offsets[row] : sessions.offsets[row + 1]].tolist():
                ranked.pop(id, None)
            leading = [*ranked][:k]
            table[row, : len(leading)] = leading
        return table

    def scores(self, texts: pl.Series) -> Floats:
        """(texts, queries) BM25 of every query for each text."""
        lists = [[*dict.fromkeys(words_of(text))] for text in texts]
        owners = np.repeat(np.arange(len(texts)), [len(words) for words in lists])
        words = self.words.ids([word for words in lists for word in words]).astype(np.int64) - FIRST
        in_log = words >= 0
        return self.postings.scores(owners[in_log], words[in_log], None, len(texts))

    def _nearest(
        self, sessions: Histories, query_ids: Index, rows: Index, latest: int, texts: pl.Series, sizes: Index
    ) -> Iterator[Index]:
        """Yield the queries with the highest scores for some sessions, at most ``sizes`` of each."""
        ends = sessions.offsets[1:][rows]
        starts = ends - np.minimum(sessions.lengths[rows], latest)
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        lists = [query_ids[low:high][::-1].tolist() for low, high in bounds]  # the latest first
        distinct = np.unique([id for ids in lists for id in ids]).astype(np.int64)
        close = dict(zip(distinct.tolist(), self._close(texts.gather(distinct)), strict=True))
        for ids, size in zip(lists, sizes[rows].tolist(), strict=True):
            yield self._scored([close[id] for id in ids], size)

    def _close(self, texts: pl.Series) -> Iterator[tuple[Index, Floats]]:
        """Yield for each text the queries that represent it, and C of each."""
        step = max(1, _CELLS // max(len(self.following.queries), 1))
        for low in range(0, len(texts), step):
            for row in self.scores(texts[low : low + step]):
                ids = _best(row, CLOSE)
                yield ids, (row[ids] / row[ids[:1]]) ** 2

    def _scored(self, close: Sequence[tuple[Index, Floats]], size: int) -> Index:
        """Return the queries with the highest scores, given those that represent each latest query."""
        close_ids = np.concatenate([ids for ids, _ in close])
        weights = np.concatenate([FADE**age * closeness for age, (_, closeness) in enumerate(close)])
        # All entries of the rows of close queries in the table, one row after the other.
        rows = self.co_occurrence.rows
        lengths = rows[close_ids + 1] - rows[close_ids]
        entries = ranges(rows[close_ids], lengths)
        near_ids = self.co_occurrence.others[entries].astype(np.int64)
        near_weights = self.shares[entries] * np.repeat(weights, lengths)
        queries, codes = np.unique(np.concatenate([close_ids, near_ids]), return_inverse=True)
        by_words = np.bincount(codes[: len(close_ids)], weights, len(queries))
        by_sessions = np.bincount(codes[len(close_ids) :], near_weights, len(queries))
        scores = CLOSENESS * _of_highest(by_words) + _of_highest(by_sessions)
        return queries[_best(np.round(scores, 6), size)]


def _of_highest(sums: Floats | Index) -> Floats:
    """Sums relative to the highest; all 0 where all are."""
    return sums / (sums.max(initial=0) or 1)


def _best(scores: Floats, k: int) -> Index:
    """Return the positions of the ``k`` highest scores above 0, ties in order of position."""
    positive = np.flatnonzero(scores)
    if len(positive) > k:
        values = scores[positive]
        threshold = np.partition(values, -k)[-k]
        higher = positive[values > threshold]
        # Many may tie with the last one: only the first of them are sorted.
        positive = np.concatenate([higher, positive[values == threshold][: k - len(higher)]])
    return positive[np.argsort(-scores[positive], kind="stable")].astype(np.int64)
