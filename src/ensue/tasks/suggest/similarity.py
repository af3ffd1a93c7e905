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
from ensue.text.encoder import Vectors
from ensue.text.sparse import SparseRows
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
        # Rarity of a word: the number of queries typed over those typed after it.
        counts = shares.tables["after-words"].counts
        typed = shares.following.totals.sum()
        # The last, at -1, is that of a word that is not known.
        self.weights: Floats = np.log1p(typed / np.maximum(np.append(counts, 1.0), 1.0))
        topics = shares.retrieval.topics if len(shares.retrieval.topics) else np.zeros((len(counts), 1), np.float32)
        self.vectors: Vectors = np.concatenate([topics, np.zeros((1, topics.shape[1]), np.float32)])
        self.texts: dict[str, _Text] = {}
        self.numbers: dict[str, int] = {}
        """A number for each word of a cached text, known or not."""
        self.word_rows = np.empty(0, np.int64)
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
        # The sessions' queries and the candidates are read together, so that each text is split once.
        typed = [*chain.from_iterable(sessions)]
        candidates = self._read([*typed, *texts])
        queries = candidates[: len(typed)]
        candidates = candidates[len(typed) :]
        ends = np.cumsum([len(values) for values in sessions])
        query_owners = np.repeat(np.arange(len(sessions)), np.diff(ends, prepend=0))
        # One row per session and one column per word of this call: True for the words of its last query, and of all.
        words, codes = np.unique(np.concatenate([text.words for text in (*queries, *candidates)]), return_inverse=True)
        query_sizes, sizes = ([len(text.words) for text in group] for group in (queries, candidates))
        # One entry per word of each query: which query it is of, and whether that is a last one.
        query_of_word = np.repeat(np.arange(len(queries)), query_sizes)
        is_last = np.isin(np.arange(len(queries)), ends - 1)[query_of_word]
        in_session = np.zeros((len(sessions), len(words)), np.bool_)
        in_last = in_session.copy()
        session_of_word = query_owners[query_of_word]
        query_codes = codes[: len(query_of_word)]
        in_session[session_of_word, query_codes] = True
        in_last[session_of_word[is_last], query_codes[is_last]] = True
        heavy = self.weights[self.word_rows[words]]
        # The same for the candidates, whose words follow those of the queries.
        text_of_word = np.repeat(np.arange(len(texts)), sizes)
        text_codes = codes[len(query_of_word) :]
        word_weights = heavy[text_codes]
        word_owners = owners[text_of_word]
        # Sums over the words of each candidate: of all, of those in the last query, of those in the session.
        total, last, seen = (
            np.bincount(text_of_word, word_weights * mask, len(texts))
            for mask in (1.0, in_last[word_owners, text_codes], in_session[word_owners, text_codes])
        )
        # Weighted Jaccard similarity: shared words over the words of either.
        table[:, 0] = last / (total + (in_last @ heavy)[owners] - last)
        table[:, 1] = seen
        table[:, 2] = total - seen
        recent = [np.stack([text.topic for text in queries[max(low, high - LATEST) : high]]) for low, high in zip(
            [0, *ends[:-1].tolist()], ends.tolist(), strict=True
        )]  # fmt: skip
        # The topic of a session is that of its latest queries, older ones fading.
        session_topics = _of_length_one(np.stack([FADE ** np.arange(len(rows))[::-1] @ rows for rows in recent]))
        topics = np.stack([text.topic for text in candidates])
        table[:, 3] = (topics * np.stack([rows[-1] for rows in recent])[owners]).sum(1)
        table[:, 4] = (topics * session_topics[owners]).sum(1)
        return table

    def _read(self, texts: Sequence[str]) -> list[_Text]:
        """The words and the topic of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self.texts]
        # A full cache is emptied, and the texts of this call are read again.
        if len(self.texts) + len(new) > MAX_TEXTS:
            new = [*dict.fromkeys(texts)]
            self.texts = {}
            self.numbers = {}
            self.word_rows = self.word_rows[:0]
        if new:
            lists = [[*dict.fromkeys(words_of(text))] for text in new]
            flat = np.array(
                [self.numbers.setdefault(word, len(self.numbers)) for words in lists for word in words], np.int64
            )
            # Words that this call has numbered first: their rows are appended, in order of the numbers.
            added = [*self.numbers][len(self.word_rows) :]
            self.word_rows = np.concatenate([self.word_rows, self.words.ids(added).astype(np.int64) - FIRST])
            stops = np.cumsum([0, *map(len, lists)])
            rows_of_words = self.word_rows[flat]
            # A text's topic is the sum of its words' vectors by rarity: one sparse product for all texts.
            rows = SparseRows(stops, np.arange(len(flat)), np.ones(len(flat)), len(flat))
            topics = _of_length_one(rows @ (self.vectors[rows_of_words] * self.weights[rows_of_words][:, None]))
            self.texts.update(zip(new, map(_Text, np.split(flat, stops[1:-1]), topics), strict=True))
        return [self.texts[text] for text in texts]


def _of_length_one(vectors: Floats) -> Floats:
    """Vectors over their length; 0 stays 0."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
