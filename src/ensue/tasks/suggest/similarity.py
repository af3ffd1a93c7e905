"""How like a session a suggestion is: the words they share, what it adds, and whether both are about the same.

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
        known = shares.retrieval.topics if len(shares.retrieval.topics) else np.zeros((len(counts), 1), np.float32)
        self.vectors: Vectors = np.concatenate([known, np.zeros((1, known.shape[1]), np.float32)])

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
        weight = dict(zip(distinct, heavy.tolist(), strict=True))
        rows = self.vectors[places] * heavy[:, None]
        numbers = {word: number for number, word in enumerate(distinct)}
        topics = _of_length_one(np.stack([rows[[numbers[word] for word in words]].sum(0) for words in held]))
        last, every = {*held[-1]}, {word for words in held[len(texts) :] for word in words}
        whole = sum(weight[word] for word in held[-1])  # in their order: a set has another in every process
        table = np.empty((len(texts), len(SIMILAR)))
        for row, words in enumerate(held[: len(texts)]):
            own, near, before = (sum(weight[word] for word in words if word in some) for some in (weight, last, every))
            table[row, :3] = near / (own + whole - near), before, own - before
        recent = topics[len(texts) :][-LATEST:]
        session = FADE ** np.arange(len(recent))[::-1] @ recent
        table[:, 3] = topics[: len(texts)] @ recent[-1]
        table[:, 4] = topics[: len(texts)] @ _of_length_one(session)
        return table


def _of_length_one(vectors: Floats) -> Floats:
    """Vectors over their length; 0 stays 0."""
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
    return scaled
