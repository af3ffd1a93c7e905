"""Measures as pure functions: of the rank of the one true target, and of the label that a text was given.

Tie rule of ranks: a candidate that scores the same as the target stands above it, so a constant scorer earns nothing.
Labels are counted once a text; how well probabilities are calibrated is in ``classify/calibration.py``.
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


def label_counts(given: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], num_labels: int) -> Floats:
    """(3, labels) how often each label was given and true, was given, and was true.

    Args:
        given: (texts,) labels as codes from 0.
        targets: (texts,) the true ones.
        num_labels: number of labels, those that no text has included.
    """
    right = given[given == targets]
    counts = [np.bincount(codes, minlength=num_labels) for codes in (right, given, targets)]
    return np.stack(counts).astype(np.float64)


def precision_recall_f1(counts: Floats) -> Floats:
    """(3, labels) precision, recall and F1 of each label from :func:`label_counts`; 0 where a share has no whole."""
    right, given, true = counts
    wholes = np.stack([given, true, (given + true) / 2])
    shares: Floats = np.divide(right, wholes, out=np.zeros_like(wholes), where=wholes > 0)
    return shares


def macro_f1(counts: Floats) -> float:
    """Mean F1 over the labels that texts truly have; one that is given but never true costs the others precision."""
    return float(precision_recall_f1(counts)[2][counts[2] > 0].mean())


def log_loss(shares: Floats) -> Floats:
    """(texts,) -ln of the probability of the true label; one of 0 counts as 2.2e-16, as in scikit-learn."""
    loss: Floats = 0.0 - np.log(np.clip(shares, np.finfo(np.float64).eps, 1.0))
    return loss
