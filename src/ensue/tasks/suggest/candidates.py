"""Suggestions that are considered for an answer, and the features that a learned order weighs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.shares import SOURCES
from ensue.tasks.suggest.similarity import SIMILAR

FEATURES = (
    "log_probability",
    "a_token",
    "written",
    "found",
    "found_first",
    "followed",
    "frequency",
    "unknown",
    "length",
)
"""Features of a candidate: log-probability, the same over length to the power of ``exponent``, whether the search wrote
it, whether it was looked up, 1 / (1 + place there), ln(1 + how often it followed the last query), ln(1 + how often it
was typed), unknown tokens, tokens."""
MIXTURE = "mixture"
COUNTED = (*(f"log_{name}" for name in SOURCES), *(f"root_{name}" for name in SOURCES), MIXTURE)
"""Further features with count-based models: logarithm and root of the share that each source expects, and the
logarithm of the mixture of all sources and the network."""
EVERY = (*FEATURES, *COUNTED, *SIMILAR)
"""All that is weighed where counting takes part, in order."""
NETWORK = "network"
MIXED = (NETWORK, *SOURCES)
"""Parts of the mixture."""
TINY = 1e-20
"""The least share of the mixture: of a longer query the network alone would have the say over the weights."""


@dataclass(slots=True)
class Candidate:
    """One suggestion that is considered."""

    text: str
    total: float
    """Its log-probability, the end included."""
    length: int
    """Its tokens, the end included."""
    written: bool
    unknown: int = 0
    place: int = -1
    """Rank among the retrieved queries; -1 if it was not retrieved."""
    followed: int = 0
    count: int = 0
    expected: tuple[float, ...] = ()
    """By ``SOURCES`` the share that counting expects; empty where counting takes no part."""
    similar: tuple[float, ...] = (0.0,) * len(SIMILAR)
    """By ``SIMILAR`` how like the session it is."""


Pool = list[Candidate]


def parts(pool: Pool, tokens: int) -> Floats:
    """(candidates, ``MIXED``) the probability of each by the network and by counting.

    A word that the network does not know is one of at least as many as it knows. What is not kept of the log, counting
    does not expect.

    Args:
        pool: with expected shares.
        tokens: that the network knows.
    """
    nothing = (0.0,) * len(SOURCES)
    rows = [
        (candidate.total, candidate.unknown, *(candidate.expected if candidate.count else nothing))
        for candidate in pool
    ]
    table = np.array(rows, np.float64).reshape(len(rows), 1 + len(MIXED))
    table[:, 1] = np.exp(table[:, 0]) / float(max(tokens, 1)) ** table[:, 1]
    return table[:, 1:]


def features(pool: Pool, exponent: float, mixture: Mapping[str, float] | None = None, tokens: int = 1) -> Floats:
    """(candidates, ``FEATURES``), or ``EVERY`` where there is a mixture.

    Args:
        pool: what is considered.
        exponent: of the length.
        mixture: the weight of each part of it.
        tokens: that the network knows.
    """
    rows = [
        (
            candidate.total,
            candidate.total / candidate.length**exponent,
            candidate.written,
            candidate.place >= 0,
            1 / (1 + candidate.place) if candidate.place >= 0 else 0.0,
            candidate.followed,
            candidate.count,
            candidate.unknown,
            candidate.length,
        )
        for candidate in pool
    ]
    table = np.array(rows, np.float64).reshape(len(rows), len(FEATURES))
    table[:, 5:7] = np.log1p(table[:, 5:7])
    if mixture is None:
        return table
    shares = np.array([candidate.expected for candidate in pool], np.float64).reshape(len(rows), len(SOURCES))
    mixed = parts(pool, tokens) @ np.array([mixture[name] for name in MIXED])
    logs = np.log(np.maximum(np.concatenate([shares, mixed[:, None]], axis=1), TINY))
    similar = np.array([candidate.similar for candidate in pool], np.float64).reshape(len(rows), len(SIMILAR))
    return np.concatenate([table, logs[:, :-1], np.sqrt(shares), logs[:, -1:], similar], axis=1)


def shares(scores: Floats) -> Floats:
    """Their softmax."""
    if not len(scores):
        return scores
    weights: Floats = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights
