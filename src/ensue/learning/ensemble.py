"""Weights of a sum of features by maximum likelihood: the estimator of the ensembles of all tasks.

A target has candidates c with features f_c, and some of the candidates are true. Under weights w its loss is

    ln(sum over c of e^(o_c + w . f_c)) - ln(sum over true t of e^(o_t + w . f_t)),

a conditional logit (McFadden 1974), to which a normal prior on the weights is added. With one true candidate the loss
is convex. With several, its second term is replaced by the tangent, which gives a convex bound: a Newton step on the
bound never raises the loss once it is halved where it would (Lange, Hunter & Yang 2000).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, Mask
from ensue.metrics import Floats

MAX_STEPS = 50
MAX_HALVINGS = 30
TOLERANCE = 1e-9
"""Relative decrease of the loss below which Newton's method has converged."""
DAMPING = 1e-12
"""Fraction of the trace that is added to the diagonal of the curvature."""


class Candidates(NamedTuple):
    """Targets with their candidates.

    Attributes:
        features: (targets, candidates, features) float64, finite; those of padding do not matter.
        true: (targets, candidates) mask of the true candidates, at least one per target; or float64 probabilities,
            which sum to 1 per target (label smoothing).
        offsets: (targets, candidates) added to the weighted sums; -inf marks padding.
    """

    features: Floats
    true: Mask | Floats
    offsets: Floats

    def losses(self, weights: Floats) -> Floats:
        """Return the loss of each target, (targets,), without the prior."""
        return self._evaluate(weights)[0]

    def select(self, targets: Mask) -> Candidates:
        """Return some of the targets."""
        return Candidates(self.features[targets], self.true[targets], self.offsets[targets])

    def columns(self, index: Index) -> Candidates:
        """Return the candidates with some of the features, in rising order."""
        if len(index) == self.features.shape[2]:
            return self
        return self._replace(features=self.features.take(index, axis=2))

    def _evaluate(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the losses, the candidates' probabilities, and their probabilities given that a true one is chosen."""
        scores = self.features @ weights + self.offsets
        total, probabilities = _softmax(scores)
        if self.true.dtype == np.bool_:
            # The same softmax among the true candidates alone.
            true_total, true_probabilities = _softmax(np.where(self.true, scores, -np.inf))
            return total - true_total, probabilities, true_probabilities
        targets = self.true.astype(np.float64)
        # Padding has the score -inf and the target 0, whose product would be NaN.
        return total - (targets * np.where(targets > 0, scores, 0.0)).sum(1), probabilities, targets


def fit_weights(
    sets: Sequence[Candidates],
    mean: Floats,
    precision: Floats,
    *,
    start: Floats | None = None,
    non_negative: Mask | None = None,
) -> Floats:
    """Return the weights with the least sum of losses and prior, (features,).

    Args:
        sets: candidates whose losses are added up; sets may share one array of features.
        mean: (features,) mean of the prior, the answer without any target.
        precision: (features,) inverse variance of the prior; 0 for no prior.
        start: (features,) initial weights. [default: the mean]
        non_negative: (features,) True for weights that may not be below 0. Where some would be, the lowest is set to 0
            and the others are fitted again (Lawson & Hanson 1974).
    """
    weights = mean if start is None else start
    index = np.arange(len(mean))
    while len(index):
        # Fit the weights that are still free; those at their bound 0 are left out.
        objective = _Objective([candidates.columns(index) for candidates in sets], mean[index], precision[index])
        weights = minimise(weights, objective.loss, objective.newton_step)
        bound = np.zeros(len(index)) if non_negative is None else np.where(non_negative[index], weights, 0.0)
        if bound.min() >= 0:
            break
        # Active set: fix the most negative weight at 0 and fit the others again.
        index = np.delete(index, bound.argmin())
        weights = np.delete(weights, bound.argmin())
    fitted = np.zeros(len(mean))
    fitted[index] = weights
    return fitted


def minimise(
    weights: Floats,
    loss: Callable[[Floats], float],
    newton_step: Callable[[Floats], Floats],
    tolerance: float = TOLERANCE,
) -> Floats:
    """Return the weights of least loss by Newton's method, each step halved until the loss does not rise.

    Args:
        weights: where the search begins.
        loss: of weights.
        newton_step: from the weights whose loss was computed last.
        tolerance: relative decrease of the loss below which the search ends.
    """
    current = loss(weights)
    for _ in range(MAX_STEPS):
        step = newton_step(weights)
        # Backtracking: halve the step until the loss does not rise.
        for _ in range(MAX_HALVINGS):
            new = loss(weights + step)
            if new <= current:
                break
            step = step / 2
        else:
            return weights
        decrease = current - new
        weights = weights + step
        current = new
        if decrease <= tolerance * abs(current):
            break
    return weights


class _Objective:
    """The loss of weights over sets of candidates, and Newton's step from the weights that were evaluated last."""

    def __init__(self, sets: Sequence[Candidates], mean: Floats, precision: Floats) -> None:
        self.sets = sets
        self.mean = mean
        self.precision = precision
        self.probabilities: list[tuple[Floats, Floats]] = []

    def loss(self, weights: Floats) -> float:
        """Return the sum of all losses and of the prior."""
        total = float(self.precision @ (weights - self.mean) ** 2) / 2
        # Kept for the Newton step, which needs the same probabilities.
        self.probabilities = []
        for candidates in self.sets:
            losses, *pair = candidates._evaluate(weights)
            total += float(losses.sum())
            self.probabilities.append((pair[0], pair[1]))
        return total

    def newton_step(self, weights: Floats) -> Floats:
        """Return the step to the minimum of the quadratic approximation."""
        gradient = self.precision * (weights - self.mean)
        curvature = np.diag(self.precision)
        for candidates, (all_shares, true_shares) in zip(self.sets, self.probabilities, strict=True):
            # Covariance of the features under each target's probabilities, summed over the targets.
            features = candidates.features.reshape(-1, len(weights))
            means = (all_shares[:, None, :] @ candidates.features)[:, 0]
            gradient = gradient + (all_shares - true_shares).ravel() @ features
            curvature = curvature + (features * all_shares.reshape(-1, 1)).T @ features - means.T @ means
        # Collinear features make the curvature singular; this little more leaves the optimum where it is.
        damping = DAMPING * (1.0 + np.trace(curvature)) * np.eye(len(weights))
        return -np.linalg.solve(curvature + damping, gradient)


def _softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of the sum of exponentials of each row, and the softmax."""
    # Subtracting the maximum avoids overflow; the initial value keeps a row of -inf, or none, finite.
    largest = scores.max(1, keepdims=True, initial=-np.finfo(np.float64).max)
    exponentials = np.exp(scores - largest)
    sums = exponentials.sum(1, keepdims=True)
    return (largest + np.log(sums))[:, 0], exponentials / sums
