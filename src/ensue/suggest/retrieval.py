"""Queries of the log that may come next, found by looking up: for a model to choose from, never generated.

For a session, in this order: what followed its last query, the most frequent first; then, by falling score, what its
latest queries share words with, and what followed that. The score of a query q is

    B(q) / max B + F(q) / max F,    F(q) = sum over the ``CLOSE`` queries c with the highest B of B(c) P(q | c)

where B is BM25 (Robertson & Zaragoza 2009) of the distinct queries for the words of the ``latest`` queries typed, each
word counting once, the idf being Lucene's ln(1 + (N - n + 1/2) / (n + 1/2)), and P(q | c) the share of q among all that
followed c. Ties go to the query that came first.

Postings are the columns of a sparse matrix, a row a query; a look-up adds up the columns of the words it asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Ids, Index, ranges
from ensue.data.query_rows import WORDS, distinct_texts
from ensue.metrics import Floats
from ensue.suggest.counting import Arrays, Mask, MostFrequentNext, last_places
from ensue.vocabulary import FIRST, Vocabulary

SATURATION, LENGTH = 1.2, 0.75
"""BM25's k1 and b."""
CLOSE = 50
"""Queries whose followers count."""
_CELLS = 1 << 22
"""Scores that are held at once."""
NONE = -1


class Retrieval:
    """Candidates for a session; made by :meth:`fit` or :meth:`restore`.

    Args:
        following: the queries of the log, and what followed each.
    """

    def __init__(self, following: MostFrequentNext) -> None:
        self.following = following
        lists = following.queries.str.extract_all(WORDS)
        lengths = lists.list.len().to_numpy().astype(np.int64)
        words, codes = distinct_texts(lists.explode(empty_as_null=False))
        self.words = Vocabulary(words)
        cells = pl.DataFrame({"word": codes, "query": np.repeat(np.arange(len(lengths)), lengths)})
        cells = cells.group_by("word", "query").len().sort("word", "query")
        held = np.bincount(cells["word"].to_numpy(), minlength=len(words))
        self.columns = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
        self.postings = cells["query"].to_numpy().astype(np.int32)
        count, long = cells["len"].to_numpy(), lengths[self.postings] / max(lengths.mean(), 1) if len(lengths) else 1.0
        idf = np.log1p((len(lengths) - held + 0.5) / (held + 0.5))
        damped = count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * long))
        # Rounded, so that sums in 64 bits are exact and equal queries tie whatever the order of their words.
        self.weights = (np.repeat(idf, held) * damped).astype(np.float32)

    @classmethod
    def fit(cls, sessions: Histories, allowed: Mask | None = None) -> Retrieval:
        """Index the sessions of a log.

        Args:
            sessions: to learn from.
            allowed: (values,) which values of their vocabulary pass the privacy floor; all unless stated.
        """
        return cls(MostFrequentNext.fit(sessions, allowed))

    @property
    def queries(self) -> pl.Series:
        """(queries,) what candidates are places in."""
        return self.following.queries

    def candidates(self, sessions: Histories, k: int = 100, *, typed: bool = False, latest: int = 3) -> Ids:
        """(sessions, k) places in ``queries``, best first, ``NONE`` where there are no more.

        Args:
            sessions: what was typed so far; an empty one has no candidates.
            k: how many.
            typed: whether a query that the session already holds is a candidate.
            latest: how many of the latest queries are asked for by their words.
        """
        places, texts = self.following.places(sessions)
        last = last_places(sessions, places)
        wanted = k + (np.zeros_like(sessions.lengths) if typed else sessions.lengths)
        owners, found, _ = self.following.follow(last, wanted)
        open_ = np.flatnonzero((np.bincount(owners, minlength=len(sessions)) < wanted) & (last != NONE))
        close = [*self._closest(_asked(sessions, places, texts, open_, latest), 2 * wanted[open_])]
        owners = np.concatenate([owners, np.repeat(open_, [len(ids) for ids in close])])
        frame = pl.DataFrame({"session": owners, "id": np.concatenate([found, *close])})
        frame = frame.unique(keep="first", maintain_order=True)
        if not typed:
            held = pl.DataFrame({"session": sessions.sequence_index(), "id": places})
            frame = frame.join(held, on=["session", "id"], how="anti", maintain_order="left")
        frame = frame.with_columns(place=pl.int_range(pl.len()).over("session")).filter(pl.col("place") < k)
        table = np.full((len(sessions), k), NONE, np.int32)
        table[frame["session"].to_numpy(), frame["place"].to_numpy()] = frame["id"].to_numpy()
        return table

    def scores(self, texts: pl.Series) -> Floats:
        """(texts, queries) BM25 of every query for each text."""
        lists = texts.str.extract_all(WORDS).list.unique()
        owners = np.repeat(np.arange(len(texts)), lists.list.len().to_numpy())
        words = self.words.ids(lists.explode(empty_as_null=False)).astype(np.int64) - FIRST
        owners, words = owners[words >= 0], words[words >= 0]
        lengths = self.columns[words + 1] - self.columns[words]
        entries = ranges(self.columns[words], lengths)
        num_queries = len(self.queries)
        cells = np.repeat(owners * num_queries, lengths) + self.postings[entries]
        sums = np.bincount(cells, self.weights[entries], len(texts) * num_queries).astype(np.float64)
        return sums.reshape(len(texts), num_queries)

    def _closest(self, asked: pl.Series, most: Index) -> Iterator[Index]:
        """For each text up to so many queries, by the score of the module."""
        step = max(1, _CELLS // max(len(self.queries), 1))
        for low in range(0, len(asked), step):
            for row, own in zip(self.scores(asked[low : low + step]), most[low : low + step].tolist(), strict=True):
                yield _best(self._blend(row), own)

    def _blend(self, scores: Floats) -> Floats:
        """(queries,) the score of the module from BM25, in place."""
        close = _best(scores, CLOSE)
        if not len(close):
            return scores
        rows, counts = self.following.rows, self.following.counts
        lengths = rows[close + 1] - rows[close]
        entries = ranges(rows[close], lengths)
        sums = np.bincount(np.repeat(np.arange(len(close)), lengths), counts[entries], len(close))
        shares = counts[entries] * np.repeat(scores[close] / np.maximum(sums, 1), lengths)
        found, codes = np.unique(self.following.followers[entries], return_inverse=True)
        followed = np.bincount(codes, shares, len(found))
        scores /= scores[close[0]]
        scores[found] += followed / followed.max(initial=1e-300)
        return scores

    def arrays(self) -> Arrays:
        """All that was counted, read back by :meth:`restore`; the postings are made of it anew."""
        return self.following.arrays()

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Retrieval:
        """Put back what :meth:`arrays` gave.

        Raises:
            ValueError: the arrays do not fit together.
        """
        return cls(MostFrequentNext.restore(arrays))


def _asked(sessions: Histories, places: Index, texts: pl.Series, chosen: Index, latest: int) -> pl.Series:
    """(chosen,) the words of the latest queries of some sessions that are not empty, as one text each."""
    lengths = np.minimum(sessions.lengths[chosen], latest)
    events = ranges(sessions.offsets[1:][chosen] - lengths, lengths)
    frame = pl.DataFrame({"row": np.repeat(np.arange(len(chosen)), lengths), "text": texts.gather(places[events])})
    return frame.group_by("row", maintain_order=True).agg(pl.col("text").str.join(" "))["text"]


def _best(scores: Floats, k: int) -> Index:
    """Places of the ``k`` highest scores above 0, ties in order of place."""
    above = np.flatnonzero(scores)
    if len(above) > k:
        held = scores[above]
        least = np.partition(held, -k)[-k]
        higher = above[held > least]
        above = np.concatenate([higher, above[held == least][: k - len(higher)]])  # ties may be very many
    return above[np.argsort(-scores[above], kind="stable")].astype(np.int64)
