"""Similarity of a suggestion and a session: shared words, new words, and topics.

A word weighs ln(1 + N / n), of N queries typed, n of which came after it; a new word as if it had been seen once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index
from ensue.data.queries.rows import words_of
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.co_occurrence import FADE
from ensue.tasks.suggest.baselines.shares import Shares
from ensue.tasks.suggest.baselines.topics import Vectors
from ensue.text.sparse import sparse_between
from ensue.vocabulary import FIRST

SIMILAR = ("last_words", "session_words", "new_words", "last_topic", "session_topic")
"""Weight of the words shared with the last query, over that of all words of both; weight of its words that the session
holds, and of those that it does not; cosine of its topic and the last query's, and the latest queries' together."""
LATEST = 4
"""Queries that a session's topic is made of, each ``FADE`` less than the one after it."""
MAX_TEXTS = 100_000
"""Texts whose words are cached; then all are computed again."""


class _Text(NamedTuple):
    words: Index  # (words,) numbers of its distinct words
    topic: Floats  # (dimensions,) of length 1, or 0


class Similarity:
    """Compares texts with sessions; words and topics of texts are cached.

    Args:
        shares: of the log, whose words are known.
    """

    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        self.words = shares.retrieval.after.words
        counts = shares.tables["after-words"].counts
        typed = shares.following.totals.sum()
        # The last, at -1, is that of a word that is not known.
        self.weights: Floats = np.log1p(typed / np.maximum(np.append(counts, 1.0), 1.0))
        topics = shares.retrieval.topics if len(shares.retrieval.topics) else np.zeros((len(counts), 1), np.float32)
        self.vectors: Vectors = np.concatenate([topics, np.zeros((1, topics.shape[1]), np.float32)])
        self.texts: dict[str, _Text] = {}
        self.numbers: dict[str, int] = {}
        """A number for each word of a cached text, known or not."""
        self.places = np.empty(0, np.int64)
        """(numbers,) the place of each in ``words``, -1 for one that is not known."""

    def of(self, sessions: Sequence[Sequence[str]], texts: Sequence[str], owners: Index) -> Floats:
        """(texts, ``SIMILAR``).

        Args:
            sessions: the queries of each, at least one.
            texts: what is compared with them.
            owners: (texts,) the session that each is compared with.
        """
        table = np.zeros((len(texts), len(SIMILAR)))
        if not len(texts):
            return table
        typed = [*chain.from_iterable(sessions)]
        candidates = self._read([*typed, *texts])
        queries = candidates[: len(typed)]
        candidates = candidates[len(typed) :]
        ends = np.cumsum([len(values) for values in sessions])
        query_owners = np.repeat(np.arange(len(sessions)), np.diff(ends, prepend=0))
        # One row per session and one column per word of this call: True for the words of its last query, and of all.
        words, codes = np.unique(np.concatenate([text.words for text in (*queries, *candidates)]), return_inverse=True)
        query_sizes, sizes = ([len(text.words) for text in group] for group in (queries, candidates))
        query_of_word = np.repeat(np.arange(len(queries)), query_sizes)
        is_last = np.isin(np.arange(len(queries)), ends - 1)[query_of_word]
        in_session = np.zeros((len(sessions), len(words)), np.bool_)
        in_last = in_session.copy()
        session_of_word = query_owners[query_of_word]
        query_codes = codes[: len(query_of_word)]
        in_session[session_of_word, query_codes] = True
        in_last[session_of_word[is_last], query_codes[is_last]] = True
        heavy = self.weights[self.places[words]]
        text_of_word = np.repeat(np.arange(len(texts)), sizes)
        text_codes = codes[len(query_of_word) :]
        word_weights = heavy[text_codes]
        word_owners = owners[text_of_word]
        total, last, seen = (
            np.bincount(text_of_word, word_weights * mask, len(texts))
            for mask in (1.0, in_last[word_owners, text_codes], in_session[word_owners, text_codes])
        )
        table[:, 0] = last / (total + (in_last @ heavy)[owners] - last)
        table[:, 1] = seen
        table[:, 2] = total - seen
        recent = [np.stack([text.topic for text in queries[max(low, high - LATEST) : high]]) for low, high in zip(
            [0, *ends[:-1].tolist()], ends.tolist(), strict=True
        )]  # fmt: skip
        session_topics = _of_length_one(np.stack([FADE ** np.arange(len(rows))[::-1] @ rows for rows in recent]))
        topics = np.stack([text.topic for text in candidates])
        table[:, 3] = (topics * np.stack([rows[-1] for rows in recent])[owners]).sum(1)
        table[:, 4] = (topics * session_topics[owners]).sum(1)
        return table

    def _read(self, texts: Sequence[str]) -> list[_Text]:
        """The words and the topic of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self.texts]
        if len(self.texts) + len(new) > MAX_TEXTS:
            new = [*dict.fromkeys(texts)]
            self.texts = {}
            self.numbers = {}
            self.places = self.places[:0]
        if new:
            lists = [[*dict.fromkeys(words_of(text))] for text in new]
            flat = np.array(
                [self.numbers.setdefault(word, len(self.numbers)) for words in lists for word in words], np.int64
            )
            added = [*self.numbers][len(self.places) :]
            self.places = np.concatenate([self.places, self.words.ids(added).astype(np.int64) - FIRST])
            stops = np.cumsum([0, *map(len, lists)])
            word_rows = self.places[flat]
            rows = sparse_between(stops, np.arange(len(flat)), np.ones(len(flat)), len(flat))
            topics = _of_length_one(rows @ (self.vectors[word_rows] * self.weights[word_rows][:, None]))
            self.texts.update(zip(new, map(_Text, np.split(flat, stops[1:-1]), topics), strict=True))
        return [self.texts[text] for text in texts]


def _of_length_one(vectors: Floats) -> Floats:
    """Vectors over their length; 0 stays 0."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return scaled
