"""A conditional logit (McFadden 1974): what each part of a score weighs, learned from few targets.

    P(v) = exp(w . f(v)) / sum over a target's candidates u of exp(w . f(u))

with f(v) what the parts know about a candidate. The most likely weights beside a normal prior are found by Newton's
method: the problem is convex, so there is one answer, nothing to draw, and no edge of a grid to be stuck at.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 30
"""Newton steps at most; about ten are needed."""
CLOSE = 1e-9
"""Relative gain of a step below which the answer is found."""


def fit(features: Tensor, prior: Tensor, spread: float) -> Tensor:
    """The most likely weights, (parts,).

    Args:
        features: (targets, candidates, parts); the first candidate of each target is the one that came. NaN marks
            places where a target has fewer candidates.
        prior: (parts,) the weights without any target.
        spread: standard deviation of the prior.
    """
    missing = features[..., 0].isnan()
    features, prior = features.nan_to_num(0.0).double(), prior.double()
    pull = torch.eye(len(prior), dtype=torch.float64) / spread**2

    def lost(weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and the probabilities, (targets, candidates)."""
        logits = (features @ weights).masked_fill(missing, -torch.inf)
        apart = weights - prior
        return (logits.logsumexp(1) - logits[:, 0]).sum() + 0.5 * apart @ pull @ apart, logits.softmax(1)

    weights = prior.clone()
    loss, chances = lost(weights)
    for _ in range(STEPS):
        means = (chances[:, None, :] @ features)[:, 0]
        gradient = (means - features[:, 0]).sum(0) + pull @ (weights - prior)
        flat = features.flatten(0, 1)
        curvature = flat.T @ (flat * chances.flatten()[:, None]) - means.T @ means + pull
        step = torch.linalg.solve(curvature, gradient)
        nearer, found = lost(weights - step)
        while not float(nearer) <= float(loss) and float(step.norm()) > CLOSE:
            step = step / 2
            nearer, found = lost(weights - step)
        done = float(loss - nearer) <= CLOSE * abs(float(loss))
        if float(nearer) <= float(loss):
            weights, loss, chances = weights - step, nearer, found
        if done:
            break
    return weights.float()


def likelihood(features: Tensor, weights: Tensor) -> float:
    """The sum of the logarithms of the targets' chances, in nats; ``features`` as in :func:`fit`."""
    missing = features[..., 0].isnan()
    logits = (features.nan_to_num(0.0).double() @ weights.double()).masked_fill(missing, -torch.inf)
    return float((logits[:, 0] - logits.logsumexp(1)).sum())
