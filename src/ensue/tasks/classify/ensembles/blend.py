"""Network and counting as one answer: a logarithmic opinion pool whose weights held-out texts choose.

The share of a label is proportional to the product of what each model gives it, each to the power of its weight (Genest
and Zidek, Combining Probability Distributions, Statistical Science 1986). What a model does not add has weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ensue.tasks.classify.calibration import smoothed

NETWORK = "network"
"""How the network is called beside the counting models."""
PARTS = ("tfidf", "vectors")
"""The counting models that may have a part."""
_ROUNDS, _HALVINGS, _STILL = 50, 40, 1e-4
_FURTHEST = 2.0**30  # of scores that do not differ, which any weight suits


def pool(scores: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """(texts, labels) scores of the pool, in float64.

    Args:
        scores: of each model the (texts, labels) scores, before normalising.
        weights: of each model, 0 or more.
    """
    return torch.stack([weight * scores[name].double().log_softmax(1) for name, weight in weights.items()]).sum(0)


def choose_weights(scores: Mapping[str, Tensor], targets: Tensor) -> dict[str, float]:
    """The weights under which held-out labels are likeliest.

    The loss is convex in all of them together, so one after the other is set where its slope is 0 (or at its bound)
    until none moves. Labels are smoothed as for a temperature: the weights are no surer than so many texts allow.

    Args:
        scores: of each model the (texts, labels) scores, before normalising.
        targets: (texts,) codes of the labels.

    Returns:
        A weight of 0 or more for each model, without an upper bound; 1 for each where there are no texts.
    """
    names = list(scores)
    if not len(targets):
        return dict.fromkeys(names, 1.0)
    logs = torch.stack([scores[name].double().log_softmax(1) for name in names])
    wanted = smoothed(targets, logs.shape[2])
    weights = torch.full((len(names),), 1 / len(names)).double()
    for _ in range(_ROUNDS):
        before = weights.clone()
        for place in range(len(names)):
            low, high = 0.0, 1.0
            while high < _FURTHEST and _slope(weights, place, high, logs, wanted) < -_STILL:
                low, high = high, 2 * high
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if _slope(weights, place, middle, logs, wanted) > 0 else (middle, high)
                if high - low < _STILL / 10:
                    break
            weights[place] = 0.0 if high < _STILL else (low + high) / 2
        if float((weights - before).abs().max()) < _STILL:
            break
    return dict(zip(names, weights.tolist(), strict=True))


def _slope(weights: Tensor, place: int, weight: float, logs: Tensor, wanted: Tensor) -> float:
    """Of the loss in one of the weights, where that stands at ``weight``."""
    weights[place] = weight
    shares = torch.einsum("m,mtl->tl", weights, logs).softmax(1)
    return float(((shares - wanted) * logs[place]).sum())
