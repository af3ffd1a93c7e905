"""Similarity of a suggestion and a session: shared words, new words, and topics.

A word weighs ln(1 + N / n), of N queries typed, n of which came after it; a new word as if it had been seen once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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


class Similarity:
    """Compares texts with sessions.

    Args:
        shares: of the log, whose words are known.
    """

    def __init__(self, shares: Shares) -> None:
        self.shares, self.words = shares, shares.retrieval.after.words
        counts, typed = shares.tables["after-words"].counts, shares.following.totals.sum()
        # The last, at -1, is that of a word that is not known.
        self.weights: Floats = np.log1p(typed / np.maximum(np.append(counts, 1.0), 1.0))
        topics = shares.retrieval.topics if len(shares.retrieval.topics) else np.zeros((len(counts), 1), np.float32)
        self.vectors: Vectors = np.concatenate([topics, np.zeros((1, topics.shape[1]), np.float32)])

    def of(self, typed: Sequence[str], texts: Sequence[str]) -> Floats:
        """(texts, ``SIMILAR``).

        Args:
            typed: the queries of a session, at least one.
            texts: what is compared with it.
        """
        held = [[*dict.fromkeys(words_of(text))] for text in (*texts, *typed)]
        distinct = [*dict.fromkeys(word for words in held for word in words)]
        places = self.words.ids(distinct).astype(np.int64) - FIRST
        heavy = self.weights[places]
        numbers = {word: number for number, word in enumerate(distinct)}
        flat = np.array([numbers[word] for words in held for word in words], np.int64)
        stops = np.cumsum([0, *map(len, held)])
        rows = sparse_between(stops, flat, np.ones(len(flat)), len(distinct))
        topics = _of_length_one(rows @ (self.vectors[places] * heavy[:, None]))
        last, every = np.zeros_like(heavy), np.zeros_like(heavy)  # weights of the words that these hold
        for part, begin in ((last, -2), (every, len(texts))):
            some = flat[stops[begin] :]
            part[some] = heavy[some]
        own, near, before = (rows @ np.stack([heavy, last, every], 1)).T  # summed up in the order of the words
        whole, (own, near, before) = own[-1], (part[: len(texts)] for part in (own, near, before))
        table = np.empty((len(texts), len(SIMILAR)))
        table[:, :3] = np.stack([near / (own + whole - near), before, own - before], 1)
        recent = topics[len(texts) :][-LATEST:]
        session = FADE ** np.arange(len(recent))[::-1] @ recent
        table[:, 3] = topics[: len(texts)] @ recent[-1]
        table[:, 4] = topics[: len(texts)] @ _of_length_one(session)
        return table


def _of_length_one(vectors: Floats) -> Floats:
    """Vectors over their length; 0 stays 0."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return scaled
