"""Temperature scaling of class probabilities on held-out texts, and the expected calibration error."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ensue.data.histories import Index
from ensue.metrics import Floats

BINS = 15
"""Bins of :func:`calibration_error`, as in its source."""
PRIOR_DEVIATION = 1.0
"""Standard deviation of the logarithm of a temperature before any text is seen."""
_LIMIT = 5.0  # of |log temperature|
_ROUNDS = 60  # halvings of that range: down to rounding


def temperature(scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> float:
    """Return the number by which scores are divided so that held-out labels are likely (Guo et al. 2017).

    Its logarithm is normal about 0 beforehand, so that few texts leave it near 1, and it stays finite where every
    answer is right. From 1 on the loss falls up to the likeliest temperature, and the one returned lies between these:
    the log loss of the texts given is never above what it is without calibration, however many labels there are.

    Args:
        scores: (texts, labels) before normalising.
        targets: (texts,) codes of the labels.
        weights: (texts,) how much each counts; 1 unless given.

    Returns:
        Between exp(-5) and exp(5); 1 where there are no texts, or where no scores differ.
    """
    if not len(targets):
        return 1.0
    scores = scores.double()
    shares = one_hot(targets, scores.shape[1]).double()
    own = torch.ones(len(targets)).double() if weights is None else weights
    low, high = -_LIMIT, _LIMIT
    for _ in range(_ROUNDS):  # the slope of loss and prior by the logarithm of the inverse temperature
        middle = (low + high) / 2
        inverse = math.exp(middle)
        by_text = (((inverse * scores).softmax(1) - shares) * scores).sum(1)
        slope = inverse * float(own @ by_text) + middle / PRIOR_DEVIATION**2
        low, high = (low, middle) if slope > 0 else (middle, high)
    return math.exp(-(low + high) / 2)


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
