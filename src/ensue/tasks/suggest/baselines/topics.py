"""Word vectors in which words of the same sessions are near each other.

The positive pointwise mutual information of two words in sessions, ln(N c(v, w) / (c(v) c(w))) over ``c`` of ``N``
sessions, times c(v, w) / (c(v, w) + 1) for what was seen once says little; the vectors are the left singular ones of
that matrix, each times the root of its singular value (Levy & Goldberg, NeurIPS 2014), and of length 1.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index
from ensue.data.queries.rows import WORDS
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.table import Crowd
from ensue.text.encoder import Vectors
from ensue.text.sparse import sparse_rows
from ensue.vocabulary import FIRST, Vocabulary

DIMENSIONS = 32
"""Dimension of a vector; chosen against 64 on the newest tenth of 2,000 and of all training sessions of MS MARCO."""
MAX_SESSIONS = 50_000
"""Maximum number of sessions that are counted, the latest ones."""
_POWER = 4
"""Power iterations of the randomised decomposition (Halko, Martinsson & Tropp 2011)."""


def word_vectors(sessions: Histories, words: Vocabulary, crowd: Crowd | None = None) -> Vectors:
    """(words, ``DIMENSIONS`` or fewer) one vector per word, 0 for a word that never shares a session with another.

    Args:
        sessions: training data.
        words: that get a vector, all above the k-anonymity threshold.
        crowd: who typed the sessions; two words count together if enough people had both in a session.
    """
    skipped = max(0, len(sessions) - MAX_SESSIONS)
    recent = sessions.select(slice(skipped, None))
    people = np.arange(len(recent)) if crowd is None else crowd.people[skipped:]
    min_users = 1 if crowd is None else crowd.min_users
    used, codes = np.unique(recent.ids, return_inverse=True)
    texts = pl.Series([recent.vocabulary.values[id - FIRST] for id in used.tolist()], dtype=pl.String)
    numbers = pl.DataFrame({"word": words.values}, schema={"word": pl.String}).with_row_index("number")
    words_of_query = pl.DataFrame({"query": np.arange(len(used)), "word": texts.str.extract_all(WORDS)}).explode("word")
    words_of_query = words_of_query.join(numbers, on="word").select("query", "number")
    events = pl.DataFrame({"session": recent.sequence_index(), "query": codes.astype(np.int64)})
    # Each word counts once per session; a pair is two words of one session.
    once = events.join(words_of_query, on="query").select("session", "number").unique()
    pairs = once.join(once, on="session").filter(pl.col("number") != pl.col("number_right"))
    pairs = pairs.with_columns(person=pl.lit(pl.Series(people)).gather(pl.col("session")))
    together = pairs.group_by("number", "number_right").agg(pl.len(), people=pl.col("person").n_unique())
    together = together.filter(pl.col("people") >= min_users).sort("number", "number_right")
    totals = np.bincount(once["number"].to_numpy(), minlength=len(words) - FIRST)
    first, second = (together[name].to_numpy().astype(np.int64) for name in ("number", "number_right"))
    counts = together["len"].to_numpy().astype(np.float64)
    information = np.log(counts * len(recent) / (totals[first] * totals[second])) * counts / (counts + 1)
    positive = information > 0
    return _decomposed(first[positive], second[positive], information[positive], len(words) - FIRST)


def moved(vectors: Vectors, words: Vocabulary, others: Vocabulary) -> Vectors:
    """Return the vectors of another vocabulary: 0 for new words, until all vectors are trained again."""
    if not len(vectors):
        return vectors
    extended: Vectors = np.zeros((len(others) - FIRST, vectors.shape[1]), np.float32)
    extended[others.ids(words.values).astype(np.int64) - FIRST] = vectors
    return extended


def _decomposed(first: Index, second: Index, values: Floats, size: int) -> Vectors:
    """Return the (size, dimensions) vectors of a symmetric matrix with few cells, by randomised subspace iteration.

    Args:
        first: (cells,) rows, not decreasing.
        second: (cells,) columns.
        values: (cells,).
        size: of the matrix.
    """
    dimensions = min(DIMENSIONS, size)
    if not len(values):
        return np.zeros((size, dimensions), np.float32)
    matrix = sparse_rows(first, second, values, (size, size))
    # The matrix is symmetric, so that two products are one power of A A'; QR keeps the columns apart.
    basis = np.linalg.qr(matrix @ _normal(size, dimensions))[0]
    for _ in range(2 * _POWER):
        basis = np.linalg.qr(matrix @ basis)[0]
    singular_vectors, strengths, _ = np.linalg.svd((matrix @ basis).T, full_matrices=False)
    vectors = (basis @ singular_vectors) * np.sqrt(strengths)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # Rounded, because the last digits of a decomposition depend on the machine.
    return np.round(vectors / np.maximum(lengths, 1e-9), 5).astype(np.float32)


def _normal(*shape: int) -> Floats:
    """Return standard normal numbers by Box and Muller (1958), in blocks of 16.

    The draws are those of ``torch.randn`` with seed 0, with which the published metrics were measured: another draw
    moves the MRR@10 of a reranker on MS MARCO by 0.1 to 0.2 points.
    """
    num_blocks = -(-math.prod(shape) // 16)
    words = np.random.RandomState(0).randint(0, 2**32, (num_blocks, 2, 8, 2), np.uint32).astype(np.uint64)
    # Two words of the generator are one number of 53 bits, in [0, 1).
    uniform = (words[..., 0] << np.uint64(32) | words[..., 1]) % np.uint64(2**53) * 2.0**-53
    radius = np.sqrt(-2 * np.log(1 - uniform[:, 0]))
    angle = 2 * np.pi * uniform[:, 1]
    numbers: Floats = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return numbers.ravel()[: math.prod(shape)].reshape(shape)
