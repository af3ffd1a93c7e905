"""Network and counting as one answer: a logarithmic opinion pool whose weights held-out texts choose.

The share of a label is proportional to the product of what each model gives it, each to the power of its weight (Genest
and Zidek, Combining Probability Distributions, Statistical Science 1986). What a model does not add has weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ensue.learning.ensemble import Candidates, fit_weights

NETWORK = "network"
"""Name of the network among the baselines."""
PARTS = ("tfidf", "vectors")
"""The counting models that may have a part."""


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
    """Return the weights under which held-out labels are likeliest.

    Without a prior, labels are smoothed, so that the weights are no surer than the number of texts allows.

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
    features = np.stack([scores[name].double().log_softmax(1).numpy() for name in names], axis=2)
    num_labels = features.shape[1]
    target_shares = smoothed(targets, num_labels) if prior is None else one_hot(targets, num_labels).double()
    candidates = Candidates(features, target_shares.numpy(), np.zeros(features.shape[:2]))
    weights = fit_weights(
        [candidates],
        mean=np.array([0.0 if prior is None else prior[name] for name in names]),
        precision=np.full(len(names), 0.0 if prior is None else 1.0),
        start=np.full(len(names), 1 / len(names)),
        non_negative=np.ones(len(names), np.bool_),
    )
    return dict(zip(names, weights.tolist(), strict=True))


def smoothed(targets: Tensor, num_labels: int) -> Tensor:
    """Return (texts, labels) target shares by the rule of succession, as Platt (1999) smooths two classes.

    After N texts a label gets (N + 1) / (N + 2) and the others equal parts of the rest, however many labels there are:
    a count by label would leave a label of few texts, and with it the whole scale, next to nothing.
    """
    rest = 1 / (len(targets) + 2)
    shares = torch.full((len(targets), num_labels), rest / max(num_labels - 1, 1), dtype=torch.float64)
    return shares.scatter_(1, targets[:, None], 1 - rest)
