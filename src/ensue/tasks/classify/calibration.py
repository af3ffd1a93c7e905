"""Temperature scaling of class probabilities on held-out texts, and the expected calibration error."""

from __future__ import annotations

import math

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.text.linear import log_softmax, sigmoid

BINS = 15
"""Bins of :func:`calibration_error`, as in its source."""
PRIOR_DEVIATION = 1.0
"""Standard deviation of the logarithm of a temperature before any text is seen."""
PRIOR_TEXTS = 5
"""Texts of a label that say as much about its threshold as the labels together."""
_LIMIT = 5.0  # of |log temperature|
_ROUNDS = 60  # halvings of that range: down to rounding


def temperature(scores: Floats, targets: Index, weights: Floats | None = None) -> float:
    """Return the number by which scores are divided so that held-out labels are likely (Guo et al. 2017).

    Its logarithm is normal about 0 beforehand, so that few texts leave it near 1, and it stays finite where every
    answer is right. From 1 on the loss falls up to the likeliest temperature, and the one returned lies between these:
    the log loss of the texts given is never above what it is without calibration, however many labels there are.

    Args:
        scores: (texts, labels) before normalising.
        targets: (texts,) codes of the labels, or (texts, labels) 1 for the labels of a text.
        weights: (texts,) weight of each text. [default: 1]

    Returns:
        Between exp(-5) and exp(5); 1 where there are no texts, or where no scores differ.
    """
    if not len(targets):
        return 1.0
    # Scores relative to the true label's: its own term of the slope is then 0. A label that no training text has is at
    # -inf, and makes the slope NaN.
    if targets.ndim == 1:
        with np.errstate(invalid="ignore"):
            scores = scores - np.take_along_axis(scores, targets[:, None], axis=1)
    text_weights = np.ones(len(targets)) if weights is None else weights
    low, high = -_LIMIT, _LIMIT
    for _ in range(_ROUNDS):
        # Bisect the slope of loss and prior by the logarithm of the inverse temperature, which rises with it.
        middle = (low + high) / 2
        inverse = math.exp(middle)
        with np.errstate(invalid="ignore"):
            if targets.ndim == 1:
                text_slopes = (np.exp(log_softmax(inverse * scores)) * scores).sum(1)
            else:
                text_slopes = ((sigmoid(inverse * scores) - targets) * scores).sum(1)
        slope = inverse * float(text_weights @ text_slopes) + middle / PRIOR_DEVIATION**2
        low, high = (low, middle) if slope > 0 else (middle, high)
    return math.exp(-(low + high) / 2)


def calibration_error(probabilities: Floats, targets: Index, bins: int = BINS) -> float:
    """Return the expected calibration error: the mean difference of the best label's probability and its accuracy.

    Texts are put into bins of equal width by that probability; each bin counts by its number of texts (Guo et al.).

    Args:
        probabilities: (texts, labels).
        targets: (texts,) codes of the labels; one below 0 is never right.
        bins: number of bins.

    Returns:
        In [0, 1]; 0 where there are no texts.
    """
    if not len(targets):
        return 0.0
    if targets.ndim == 2:  # each label of each text is a prediction
        confidence, is_right = probabilities.ravel(), targets.ravel()
    else:
        confidence, is_right = probabilities.max(1), probabilities.argmax(1) == targets
    # Bins include their upper bound: with 15 bins, 1/15 is in the first one.
    bin_ids = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    differences = np.bincount(bin_ids, confidence, bins) - np.bincount(bin_ids, is_right, bins)
    return float(np.abs(differences).sum() / len(confidence))


def thresholds(probabilities: Floats, targets: Index) -> Floats:
    """Return (labels,) the probability from which each label is predicted: the one of highest F1 on unseen texts.

    The threshold of a label that few texts have is drawn to the one of highest micro F1, as if it had been chosen by
    ``PRIOR_TEXTS`` texts.

    Args:
        probabilities: (texts, labels) of texts that the model was not trained on.
        targets: (texts, labels) 1 for the labels of a text.
    """
    shared = _threshold(probabilities.ravel(), targets.ravel())
    chosen = np.array([_threshold(*columns) for columns in zip(probabilities.T, targets.T, strict=True)])
    num_true = targets.sum(0)
    weights = num_true / (num_true + PRIOR_TEXTS)
    return weights * chosen + (1 - weights) * shared


def _threshold(probabilities: Floats, targets: Index) -> float:
    """Return the probability of highest F1, half way to the next lower one; 0.5 where nothing is true."""
    if not targets.any():
        return 0.5
    order = np.argsort(-probabilities, kind="stable")
    falling = np.append(probabilities[order], 0.0)
    # F1 of predicting the k most probable: twice the right ones among them, by k and the true ones.
    f1 = 2 * np.cumsum(targets[order]) / (np.arange(1, len(order) + 1) + targets.sum())
    # Equal probabilities are predicted together.
    best = int(np.argmax(np.where(falling[:-1] > falling[1:], f1, -1.0)))
    return float((falling[best] + falling[best + 1]) / 2)
