"""Suggestions that are considered for an answer, and the features that a learned order weighs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, Mask
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
it, whether it was looked up, 1 / (1 + rank there), ln(1 + how often it followed the last query), ln(1 + how often it
was typed), unknown tokens, tokens."""
MIXTURE = "mixture"
COUNT_FEATURES = (*(f"log_{name}" for name in SOURCES), *(f"root_{name}" for name in SOURCES), MIXTURE)
"""Further features with count-based models: logarithm and root of the probability by each source, and the logarithm of
the mixture of all sources and the network."""
ALL_FEATURES = (*FEATURES, *COUNT_FEATURES, *SIMILAR)
"""All features with count-based models, in order."""
NETWORK = "network"
MIXED = (NETWORK, *SOURCES)
"""Components of the mixture."""
TINY = 1e-20
"""Minimum probability of the mixture: of a longer query the network alone would have the say over the weights."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CandidateRows:
    """Suggestions that are considered for some sessions, as columns of one row per candidate.

    Attributes:
        owners: (candidates,) the session of each, never falling.
        texts: (candidates,) str.
        totals: (candidates,) log-probability by the network, the end included; 0 without a network.
        lengths: (candidates,) tokens, the end included.
        written: (candidates,) whether the search wrote it.
        unknown: (candidates,) unknown tokens.
        ranks: (candidates,) rank among the retrieved queries; -1 for those not retrieved.
        followed: (candidates,) how often it followed the last query.
        counts: (candidates,) how often it was typed.
        expected: (candidates, ``SOURCES``) its probability by each count-based model; 0 without those.
        similar: (candidates, ``SIMILAR``) its similarity to the session; 0 without count-based models.
    """

    owners: Index
    texts: npt.NDArray[np.object_]
    totals: Floats
    lengths: Index
    written: Mask
    unknown: Index
    ranks: Index
    followed: Index
    counts: Index
    expected: Floats
    similar: Floats

    def __len__(self) -> int:
        """Number of candidates."""
        return len(self.owners)

    def select(self, index: Index | Mask) -> CandidateRows:
        """Return some of the candidates."""
        return CandidateRows(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    @classmethod
    def join(cls, groups: Sequence[CandidateRows], sessions: Sequence[Index]) -> CandidateRows:
        """Return the candidates of several groups of sessions.

        Args:
            groups: at least one.
            sessions: for each group, the numbers of its sessions among all.
        """
        columns = {
            field.name: np.concatenate([getattr(group, field.name) for group in groups])
            for field in fields(cls)
            if field.name != "owners"
        }
        owners = np.concatenate([numbers[group.owners] for group, numbers in zip(groups, sessions, strict=True)])
        joined = cls(owners=owners, **columns)
        # Groups hold sessions of like size; back to the order of the sessions.
        return joined.select(owners.argsort(kind="stable"))


def probabilities(candidates: CandidateRows, tokens: int) -> Floats:
    """(candidates, ``MIXED``) the probability of each by the network and by counting.

    A word that the network does not know is one of at least as many as it knows. What the log does not hold has no
    probability by counting.

    Args:
        candidates: with expected probabilities.
        tokens: that the network knows.
    """
    # An unknown token stands for at least as many words as are known: its probability is divided by that number.
    network = np.exp(candidates.totals) / float(max(tokens, 1)) ** candidates.unknown
    count_based = np.where(candidates.counts[:, None] > 0, candidates.expected, 0.0)
    return np.concatenate([network[:, None], count_based], axis=1)


def features(candidates: CandidateRows, exponent: float, mixture: Mapping[str, float], tokens: int) -> Floats:
    """(candidates, ``ALL_FEATURES``).

    Args:
        candidates: what is considered.
        exponent: of the length.
        mixture: the weight of each of its components.
        tokens: that the network knows.
    """
    is_retrieved = candidates.ranks >= 0
    columns: list[npt.NDArray[np.generic]] = [
        candidates.totals,
        candidates.totals / candidates.lengths**exponent,
        candidates.written,
        is_retrieved,
        np.where(is_retrieved, 1 / (1 + np.maximum(candidates.ranks, 0)), 0.0),
        np.log1p(candidates.followed),
        np.log1p(candidates.counts),
        candidates.unknown,
        candidates.lengths,
    ]
    table = np.stack(columns, axis=1).astype(np.float64)
    mixed = probabilities(candidates, tokens) @ np.array([mixture[name] for name in MIXED])
    # Logarithms weigh factors, roots weigh differences; both are given to the logit.
    logs = np.log(np.maximum(np.concatenate([candidates.expected, mixed[:, None]], axis=1), TINY))
    roots = np.sqrt(candidates.expected)
    return np.concatenate([table, logs[:, :-1], roots, logs[:, -1:], candidates.similar], axis=1)


def shares(scores: Floats, owners: Index) -> Floats:
    """(candidates,) softmax of the scores over the candidates of each session."""
    size = int(owners.max(initial=-1)) + 1
    highest = np.full(size, -np.inf)
    # Subtract each session's maximum first, so that no exponential overflows.
    np.maximum.at(highest, owners, scores)
    weights: Floats = np.exp(scores - highest[owners])
    return weights / np.bincount(owners, weights, size)[owners]


def first_of_each(owners: Index) -> Index:
    """The first row of each session that has any; ``owners`` never fall."""
    return np.flatnonzero(np.diff(owners, prepend=-1))
