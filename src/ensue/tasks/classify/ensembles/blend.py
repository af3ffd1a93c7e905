"""Network and counting as one answer: a logarithmic opinion pool whose weights held-out texts choose.

The share of a label is proportional to the product of what each model gives it, each to the power of its weight (Genest
and Zidek, Combining Probability Distributions, Statistical Science 1986). What a model does not add has weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

NETWORK = "network"
"""Name of the network among the baselines."""
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


def choose_weights(
    scores: Mapping[str, Tensor], targets: Tensor, prior: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The weights under which held-out labels are likeliest.

    The loss is convex in all of them together, so one after the other is set where its slope is 0 (or at its bound)
    until none moves. Without a prior, labels are smoothed: the weights are no surer than so many texts allow.

    Args:
        scores: of each model the (texts, labels) scores, before normalising.
        targets: (texts,) codes of the labels.
        prior: weights from which texts must lead away, each normal about it with deviation 1; labels then count whole.

    Returns:
        A weight of 0 or more for each model, without an upper bound; the prior, or 1 for
        each, where there are no texts.
    """
    names = list(scores)
    if not len(targets):
        return dict(prior or dict.fromkeys(names, 1.0))
    logs = torch.stack([scores[name].double().log_softmax(1) for name in names])
    wanted = smoothed(targets, logs.shape[2]) if prior is None else one_hot(targets, logs.shape[2]).double()
    toward = torch.tensor([0.0 if prior is None else prior[name] for name in names]).double()
    task = _Task(logs, wanted, toward, 0.0 if prior is None else 1.0)
    weights = torch.full((len(names),), 1 / len(names)).double()
    for _ in range(_ROUNDS):
        before = weights.clone()
        for place in range(len(names)):
            low, high = 0.0, 1.0
            while high < _FURTHEST and task.slope(weights, place, high) < -_STILL:
                low, high = high, 2 * high
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if task.slope(weights, place, middle) > 0 else (middle, high)
                if high - low < _STILL / 10:
                    break
            weights[place] = 0.0 if high < _STILL else (low + high) / 2
        if float((weights - before).abs().max()) < _STILL:
            break
    return dict(zip(names, weights.tolist(), strict=True))


def smoothed(targets: Tensor, num_labels: int) -> Tensor:
    """Return (texts, labels) target shares by the rule of succession, as Platt (1999) smooths two classes.

    After N texts a label gets (N + 1) / (N + 2) and the others equal parts of the rest, however many labels there are:
    a count by label would leave a label of few texts, and with it the whole scale, next to nothing.
    """
    rest = 1 / (len(targets) + 2)
    shares = torch.full((len(targets), num_labels), rest / max(num_labels - 1, 1), dtype=torch.float64)
    return shares.scatter_(1, targets[:, None], 1 - rest)


class _Task(NamedTuple):
    logs: Tensor  # (models, texts, labels)
    wanted: Tensor  # (texts, labels)
    toward: Tensor  # (models,)
    firmness: float

    def slope(self, weights: Tensor, place: int, weight: float) -> float:
        """Return the derivative of the loss by one of the weights, at ``weight``."""
        weights[place] = weight
        shares = torch.einsum("m,mtl->tl", weights, self.logs).softmax(1)
        pull = self.firmness * (weight - float(self.toward[place]))
        return float(((shares - self.wanted) * self.logs[place]).sum()) + pull
