"""Ranking measures as pure functions of the rank of the one true target.

Tie rule: a candidate that scores the same as the target stands above it, so a constant scorer earns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]
MISS = np.inf


def ranks(scores: Tensor, targets: Tensor) -> Tensor:
    """Rank of each target among all candidates, 1 is best, ties count against it.

    Args:
        scores: (targets, candidates); a candidate at -inf is ruled out, a target at -inf ranks last.
        targets: (targets,) column of the true candidate.

    Returns:
        (targets,) whole numbers.
    """
    above = scores >= scores.gather(1, targets[:, None])
    if above.is_cpu:  # NumPy counts bits, torch adds up whole numbers: 20 times slower over a large catalogue
        return torch.from_numpy(np.count_nonzero(above.numpy(), axis=1))
    return above.sum(dim=1)


def sampled_ranks(scores: Tensor, targets: Tensor, negatives: Tensor) -> Tensor:
    """Rank of each target among itself and a few sampled candidates, 1 is best, ties count against it.

    Args:
        scores: (targets, candidates).
        targets: (targets,) column of the true candidate.
        negatives: (targets, sampled) columns, none of them the target's.

    Returns:
        (targets,) whole numbers up to ``sampled + 1``.
    """
    return 1 + (scores.gather(1, negatives) >= scores.gather(1, targets[:, None])).sum(dim=1)


def reciprocal_rank(rank: Floats, at: float = np.inf) -> Floats:
    """1 / rank, 0 beyond ``at``. Its mean is MRR (MRR@k); with one target a list, MAP@k is the same number."""
    return np.where(rank <= at, 1 / rank, 0.0)


def hit(rank: Floats, at: float) -> Floats:
    """1 if the target is among the first ``at``. Its mean is HR@k, also called A@k and recall@k."""
    return (rank <= at).astype(np.float64)


def gain(rank: Floats, at: float) -> Floats:
    """1 / log2(rank + 1), 0 beyond ``at``. With one target its mean is NDCG@k."""
    return np.where(rank <= at, 1 / np.log2(rank + 1), 0.0)


def names(at: Sequence[int]) -> list[str]:
    """The names of the columns of :func:`values`."""
    return ["mrr", *(f"{measure}@{k}" for k in at for measure in ("hit", "mrr", "ndcg"))]


def values(rank: Floats, at: Sequence[int]) -> Floats:
    """(targets, measures): every measure of every target, in the order of :func:`names`.

    Args:
        rank: (targets,) ranks from 1; ``MISS`` for a target that could not be ranked.
        at: the cut-offs k.
    """
    columns = [reciprocal_rank(rank)]
    for k in at:
        columns += [hit(rank, k), reciprocal_rank(rank, k), gain(rank, k)]
    return np.stack(columns, axis=1)


def per_sequence(values: Floats, sequence: npt.NDArray[np.int64], num_sequences: int) -> tuple[Floats, Floats]:
    """Sums of the measures by sequence, and how many targets each sequence has.

    Args:
        values: (targets, measures).
        sequence: (targets,) index of the sequence each target belongs to.
        num_sequences: number of sequences, those without targets included.

    Returns:
        (sequences, measures) sums and (sequences,) counts.
    """
    counts = np.bincount(sequence, minlength=num_sequences).astype(np.float64)
    sums = [np.bincount(sequence, column, num_sequences) for column in values.T]
    return np.stack(sums, axis=1), counts
