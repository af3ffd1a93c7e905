"""Network and baselines as one answer: a logarithmic opinion pool whose weights are fitted to held-out texts.

The probability of a label is proportional to the product of its probabilities under each model, each to the power of
the model's weight (Genest and Zidek, Combining Probability Distributions, Statistical Science 1986). A model that adds
nothing has weight 0. Where a text may have several labels, each label is a pool of its own, with the same weights: its
log-odds are the weighted sum of the models' log-odds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue.data.histories import Index
from ensue.learning.ensemble import Candidates, fit_weights
from ensue.metrics import Floats
from ensue.text.linear import log_softmax

NETWORK = "network"
"""Name of the network among the baselines."""
PARTS = ("tfidf", "vectors")
"""Baselines that a blend may weigh."""


def pool(scores: Mapping[str, Floats], weights: Mapping[str, float], *, sets: bool = False) -> Floats:
    """Return the scores of the pool, (texts, labels).

    Args:
        scores: by model, (texts, labels) before normalising.
        weights: by model, 0 or more.
        sets: whether a text may have several labels, so that scores are log-odds of each label.
    """
    parts = [weight * (scores[name] if sets else log_softmax(scores[name])) for name, weight in weights.items()]
    return np.sum(parts, axis=0)


def choose_weights(
    scores: Mapping[str, Floats], targets: Index, prior: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the weights under which held-out labels are likeliest.

    Without a prior, labels are smoothed, so that few texts do not make the weights too sure.

    Args:
        scores: by model, (texts, labels) before normalising.
        targets: (texts,) codes of the labels, or (texts, labels) 1 for the labels of a text.
        prior: means of the weights, each normal with deviation 1; labels are then not smoothed.

    Returns:
        A weight of 0 or more for each model, without an upper bound; the prior, or 1 for
        each, where there are no texts.
    """
    names = list(scores)
    if not len(targets):
        return dict(prior or dict.fromkeys(names, 1.0))
    if targets.ndim == 2:
        # Each pair of a text and a label is a choice between absent, with score 0, and present, with its log-odds.
        scores = {name: np.stack([np.zeros(part.size), part.ravel()], axis=1) for name, part in scores.items()}
        targets = targets.ravel()
    # A conditional logit whose features are the log probabilities of each model.
    features = np.stack([log_softmax(scores[name]) for name in names], axis=2)
    num_labels = features.shape[1]
    target_probabilities = smoothed(targets, num_labels) if prior is None else np.eye(num_labels)[targets]
    candidates = Candidates(features, target_probabilities, np.zeros(features.shape[:2]))
    weights = fit_weights(
        [candidates],
        mean=np.array([0.0 if prior is None else prior[name] for name in names]),
        precision=np.full(len(names), 0.0 if prior is None else 1.0),
        start=np.full(len(names), 1 / len(names)),
        non_negative=np.ones(len(names), np.bool_),
    )
    return dict(zip(names, weights.tolist(), strict=True))


def smoothed(targets: Index, num_labels: int) -> Floats:
    """Return target probabilities by the rule of succession, (texts, labels), as Platt (1999) smooths two classes.

    After N texts a label gets (N + 1) / (N + 2) and the others equal parts of the rest, however many labels there are:
    a count by label would leave a label of few texts, and with it the whole scale, next to nothing.
    """
    other_label = 1 / (len(targets) + 2)
    probabilities = np.full((len(targets), num_labels), other_label / max(num_labels - 1, 1))
    probabilities[np.arange(len(targets)), targets] = 1 - other_label
    return probabilities
