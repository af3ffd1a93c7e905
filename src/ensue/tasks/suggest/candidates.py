"""Suggestions that are considered for an answer, and the features that a learned order weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ensue.metrics import Floats

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
"""What mixing weighs: log-probability, the same over length to the power of ``exponent``, whether the search wrote it,
whether it was looked up, 1 / (1 + place there), ln(1 + how often it followed the last query), ln(1 + how often it was
typed), unknown tokens, tokens."""


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
    """Where it stood among what was looked up; -1 if it did not."""
    followed: int = 0
    count: int = 0


Pool = list[Candidate]


def features(pool: Pool, exponent: float) -> Floats:
    """(candidates, ``FEATURES``)."""
    rows = [
        (
            own.total,
            own.total / own.length**exponent,
            own.written,
            own.place >= 0,
            1 / (1 + own.place) if own.place >= 0 else 0.0,
            np.log1p(own.followed),
            np.log1p(own.count),
            own.unknown,
            own.length,
        )
        for own in pool
    ]
    return np.array(rows, np.float64).reshape(len(rows), len(FEATURES))


def shares(scores: Floats) -> Floats:
    """Their softmax."""
    if not len(scores):
        return scores
    weights: Floats = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights
