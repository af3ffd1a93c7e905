"""Probabilities that mean what they say: one temperature, found on held-out texts, and how far off they still are."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats

BINS = 15
"""Bins of :func:`calibration_error`, as in its source."""
_LIMIT = 5.0  # of |log temperature|
_ROUNDS = 60  # halvings of that range: down to rounding


def temperature(scores: Tensor, targets: Tensor) -> float:
    """The number that scores are divided by so that held-out labels are likeliest (Guo et al. 2017).

    The loss is convex in the inverse temperature, so the sign of its slope leads there. Labels are smoothed by their
    counts as Platt (1999) does: where every answer is right, the likeliest temperature would be 0.

    Args:
        scores: (texts, labels) before normalising.
        targets: (texts,) codes of the labels.

    Returns:
        Between exp(-5) and exp(5); 1 where there is nothing to go by.
    """
    if not len(targets):
        return 1.0
    scores = scores.double()
    wanted = smoothed(targets, scores.shape[1])
    low, high = -_LIMIT, _LIMIT
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        slope = float((((math.exp(middle) * scores).softmax(1) - wanted) * scores).sum())
        low, high = (low, middle) if slope > 0 else (middle, high)
    return math.exp(-(low + high) / 2) if float(scores.std(1, correction=0).max()) > 0 else 1.0


def smoothed(targets: Tensor, num_labels: int) -> Tensor:
    """(texts, labels) to aim at: (n + 1) / (n + labels) at a label that n texts have, else equal parts of the rest."""
    counts = targets.bincount(minlength=num_labels)[targets].double()
    wanted = (1 / (counts + num_labels))[:, None].repeat(1, num_labels)
    return wanted.scatter_(1, targets[:, None], ((counts + 1) / (counts + num_labels))[:, None])


def calibration_error(probabilities: Floats, targets: Index, bins: int = BINS) -> float:
    """Expected calibration error: how far, on average, the best label's probability is from how often it is right.

    Texts are put into bins of equal width by that probability; each bin counts by its number of texts (Guo et al.).

    Args:
        probabilities: (texts, labels).
        targets: (texts,) codes of the labels; one below 0 is never right.
        bins: how many.

    Returns:
        In [0, 1]; 0 where there are no texts.
    """
    if not len(targets):
        return 0.0
    sure, right = probabilities.max(1), probabilities.argmax(1) == targets
    bin = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    apart = np.bincount(bin, sure, bins) - np.bincount(bin, right, bins)
    return float(np.abs(apart).sum() / len(targets))
