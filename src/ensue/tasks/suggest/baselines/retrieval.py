"""Queries of the log that may come next, found by looking up: for a model to choose from, never generated.

For a session, in this order: what followed its last query, the most frequent first; then queries by falling score, the
sum of what its latest queries, each ``FADE`` less than the one after it, give to

    ``CLOSENESS`` x C(q) / max C + N(q) / max N,    N(q) = sum over c of C(c) beside(c, q)

C(c) is the square of BM25 (:mod:`ensue.text.weights`) of c for the words of the typed query over the highest there is,
of the ``CLOSE`` highest queries, and 0 elsewhere; each word counts once. ``beside`` is :func:`.scaled`:
what stood near c in sessions, before or after it.
Scores are rounded to six decimals; ties go to the query that came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import torch

from ensue.data.histories import Histories, Ids, Index, distinct_texts, ranges
from ensue.data.queries.rows import WORDS, words_of
from ensue.metrics import Floats
from ensue.nn.validation import require_number, require_table
from ensue.tasks.suggest.baselines.after import TURNS, After
from ensue.tasks.suggest.baselines.co_occurrence import FADE, count_beside, scaled
from ensue.tasks.suggest.baselines.counting import Mask, MostFrequentNext, last_places
from ensue.tasks.suggest.baselines.table import Crowd, Table
from ensue.tasks.suggest.baselines.topics import Vectors, moved, word_vectors
from ensue.text.postings import Postings
from ensue.text.weights import bm25_idf, bm25_saturation
from ensue.vocabulary import FIRST, Vocabulary

CLOSE = 50
"""Queries of the log that a typed one stands for."""
CLOSENESS = 0.3
"""Weight of shared words, relative to co-occurrence in sessions."""
_CELLS = 1 << 22
"""Scores that are held at once."""
NONE = -1


def _no_topics() -> Vectors:
    return np.empty((0, 0), np.float32)


@dataclass(eq=False)
class Retrieval:
    """Candidates for a session; made by :meth:`fit`.

    Attributes:
        following: the queries of the log, and what followed each.
        co_occurrence: what stood near each.
        after: what came after words, and at which place.
        topics: (words, dimensions) what the words of ``after`` are about; none unless something asks for it.
    """

    following: MostFrequentNext
    co_occurrence: Table
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
        num_queries, num_words = len(self.following.queries), len(self.after.words) - FIRST
        self.co_occurrence.require_size("co_occurrence", num_queries, num_queries)
        self.after.by_word.require_size("after.by_word", num_words, num_queries)
        self.after.by_turn.require_size("after.by_turn", TURNS, num_queries)
        require_table("topics", self.topics, torch.float32, [num_words if len(self.topics) else 0, None])
        require_number("topics", self.topics, 1.001, -1.001)  # vectors of length 1
        self.shares = scaled(self.co_occurrence, self.following.totals)
        lists = self.following.queries.str.extract_all(WORDS)
        lengths = lists.list.len().to_numpy().astype(np.int64)
        words, codes = distinct_texts(lists.explode(empty_as_null=False))
        self.words = Vocabulary(words)
        cells = pl.DataFrame({"word": codes, "query": np.repeat(np.arange(len(lengths)), lengths)})
        cells = cells.group_by("word", "query").len().sort("word", "query")
        held = np.bincount(cells["word"].to_numpy(), minlength=len(words))
        offsets = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
        holders = cells["query"].to_numpy().astype(np.int32)
        mean = float(lengths.mean()) if len(lengths) else 1.0
        damped = bm25_saturation(cells["len"].to_numpy(), lengths[holders], mean)
        # Rounded, so that sums in 64 bits are exact and equal queries tie whatever the order of their words.
        weights = (np.repeat(bm25_idf(held, len(lengths)), held) * damped).astype(np.float32)
        self.postings = Postings(offsets, holders, weights, len(lengths))

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
            sessions: to learn from.
            allowed: (values,) which values of their vocabulary pass the k-anonymity threshold. [default: all]
            words: that pass it; all unless stated.
            crowd: who typed the sessions, and how many must have typed what is counted; all counts unless stated.
            topics: whether to learn what words are about.
        """
        following = MostFrequentNext.fit(sessions, allowed, crowd)
        values = pl.Series("query", sessions.vocabulary.values, dtype=pl.String)
        table = following.vocabulary.ids(values).astype(np.int64) - FIRST
        places = table[sessions.ids.astype(np.int64) - FIRST] if len(values) else np.empty(0, np.int64)
        beside = count_beside(places, sessions.sequence_index(), len(following.queries), crowd)
        after = After.fit(sessions, places, words, crowd)
        return cls(following, beside, after, word_vectors(sessions, after.words, crowd) if topics else _no_topics())

    def with_(self, new: Retrieval, following: MostFrequentNext) -> Retrieval:
        """The indexes of two logs together, whose counts together are ``following``."""
        own, other = (
            following.vocabulary.ids(part.queries).astype(np.int64) - FIRST for part in (self.following, new.following)
        )
        beside = self.co_occurrence.with_(new.co_occurrence, (own, own), (other, other), len(following.queries))
        after = self.after.with_(new.after, own, other)
        return Retrieval(following, beside, after, moved(self.topics, self.after.words, after.words))

    def without_topics(self) -> Retrieval:
        """Return the retrieval without the word topics."""
        return Retrieval(self.following, self.co_occurrence, self.after)

    @property
    def queries(self) -> pl.Series:
        """(queries,) what candidates are places in."""
        return self.following.queries

    def candidates(
        self,
        sessions: Histories,
        k: int = 100,
        *,
        typed: bool = False,
        latest: int = 3,
        placed: tuple[Index, pl.Series] | None = None,
    ) -> Ids:
        """(sessions, k) places in ``queries``, best first, ``NONE`` where there are no more.

        Args:
            sessions: what was typed so far; an empty one has no candidates.
            k: how many.
            typed: whether a query that the session already holds is a candidate.
            latest: how many of the latest queries count.
            placed: :meth:`.MostFrequentNext.places` of the sessions, where it is there already.
        """
        places, texts = placed or self.following.places(sessions)
        last = last_places(sessions, places)
        wanted = k + (np.zeros_like(sessions.lengths) if typed else sessions.lengths)
        owners, followers, _ = self.following.follow(last, wanted)
        open_ = np.flatnonzero((np.bincount(owners, minlength=len(sessions)) < wanted) & (last != NONE))
        close = [*self._nearest(_latest_places(sessions, places, open_, latest), texts, 2 * wanted[open_])]
        ends = np.searchsorted(owners, np.arange(len(sessions) + 1))
        near = dict(zip(open_.tolist(), close, strict=True))
        table = np.full((len(sessions), k), NONE, np.int32)
        for row in range(len(sessions)):
            own = dict.fromkeys(followers[ends[row] : ends[row + 1]].tolist())
            own |= dict.fromkeys(near[row].tolist() if row in near else ())
            for place in () if typed else places[sessions.offsets[row] : sessions.offsets[row + 1]].tolist():
                own.pop(place, None)
            best = [*own][:k]
            table[row, : len(best)] = best
        return table

    def scores(self, texts: pl.Series) -> Floats:
        """(texts, queries) BM25 of every query for each text."""
        lists = [[*dict.fromkeys(words_of(text))] for text in texts]
        owners = np.repeat(np.arange(len(texts)), [len(own) for own in lists])
        words = self.words.ids([word for own in lists for word in own]).astype(np.int64) - FIRST
        owners, words = owners[words >= 0], words[words >= 0]
        return self.postings.scores(owners, words, None, len(texts))

    def _nearest(self, typed: Sequence[Index], texts: pl.Series, most: Index) -> Iterator[Index]:
        """For each list of typed queries (places in ``texts``, the latest first) up to so many, by the score."""
        distinct = np.unique(np.concatenate([np.empty(0, np.int64), *typed]))
        close = dict(zip(distinct.tolist(), self._close(texts.gather(distinct)), strict=True))
        for latest, own in zip(typed, most.tolist(), strict=True):
            yield self._scored([close[place] for place in latest.tolist()], own)

    def _close(self, texts: pl.Series) -> Iterator[tuple[Index, Floats]]:
        """For each text the queries it stands for, and C of each."""
        step = max(1, _CELLS // max(len(self.queries), 1))
        for low in range(0, len(texts), step):
            for row in self.scores(texts[low : low + step]):
                places = _best(row, CLOSE)
                yield places, (row[places] / row[places[:1]]) ** 2

    def _scored(self, close: Sequence[tuple[Index, Floats]], most: int) -> Index:
        """The places with the highest scores."""
        own = np.concatenate([places for places, _ in close])
        worth = np.concatenate([FADE**age * weights for age, (_, weights) in enumerate(close)])
        rows = self.co_occurrence.rows
        lengths = rows[own + 1] - rows[own]
        entries = ranges(rows[own], lengths)
        near = self.co_occurrence.others[entries].astype(np.int64)
        moved = self.shares[entries] * np.repeat(worth, lengths)
        queries, codes = np.unique(np.concatenate([own, near]), return_inverse=True)
        words = np.bincount(codes[: len(own)], worth, len(queries))
        beside = np.bincount(codes[len(own) :], moved, len(queries))
        scores = CLOSENESS * _of_highest(words) + _of_highest(beside)
        return queries[_best(np.round(scores, 6), most)]


def _latest_places(sessions: Histories, places: Index, chosen: Index, latest: int) -> list[Index]:
    """The places of the latest queries of some sessions that are not empty, the latest first."""
    ends = sessions.offsets[1:][chosen].tolist()
    lengths = np.minimum(sessions.lengths[chosen], latest).tolist()
    return [places[end - length : end][::-1] for end, length in zip(ends, lengths, strict=True)]


def _of_highest(sums: Floats | Index) -> Floats:
    """Shares of the highest; all 0 where nothing was added up."""
    scaled: Floats = sums / (sums.max(initial=0) or 1)
    return scaled


def _best(scores: Floats, k: int) -> Index:
    """Places of the ``k`` highest scores above 0, ties in order of place."""
    above = np.flatnonzero(scores)
    if len(above) > k:
        held = scores[above]
        least = np.partition(held, -k)[-k]
        higher = above[held > least]
        above = np.concatenate([higher, above[held == least][: k - len(higher)]])  # ties may be very many
    return above[np.argsort(-scores[above], kind="stable")].astype(np.int64)
