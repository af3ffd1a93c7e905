"""Multinomial logistic regression over sparse or dense rows: the linear model that every network is measured against.

The objective is scikit-learn's: half the squared norm of the weights, plus ``strength`` times the summed loss; the bias
is free. Two labels share one column of weights. It is convex, and has one solution; Newton's steps lead there, each
found by conjugate gradients no further than it is worth (Lin, Weng & Keerthi, Trust Region Newton Method for
Large-Scale Logistic Regression, JMLR 2008; Nocedal & Wright, Algorithm 7.1): a few dozen passes over the rows where
L-BFGS takes hundreds.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import require_table
from ensue.text.sparse import SparseRows

MANY_LABELS, MAX_SPAN = 20, 4096
"""Labels from which weights are fitted in the space that the rows span, and texts up to which."""
JITTER = 1e-10
"""Part of the mean squared length of a row that is added to it, for equal rows span less."""
Strength = Annotated[float, Field(ge=1e-12, le=1e12)]
"""How much the data counts beside the penalty, scikit-learn's ``C``."""
_STEPS, _PASSES, _SLOPE, _SHORTEST = 100, 200, 1e-5, 1e-6


class Linear(NamedTuple):
    """A linear model in float64."""

    weight: Annotated[Tensor, torch.float64, torch.float32]
    """(features, columns): one column for two labels, else one a label."""
    bias: Annotated[Tensor, torch.float64, torch.float32]
    """(columns,)."""

    def require(self, name: str, num_features: int, num_labels: int) -> None:
        """Check what the weights are of.

        Args:
            name: what messages call them.
            num_features: rows of the weights.
            num_labels: at least 2.

        Raises:
            ValueError: they are of other features or labels.
        """
        columns = 1 if num_labels == 2 else num_labels
        require_table(f"{name}.weight", self.weight, torch.float64, [num_features, columns])
        require_table(f"{name}.bias", self.bias, torch.float64, [columns])

    def scores(self, rows: SparseRows | Tensor) -> Tensor:
        """(rows, features), sparse or dense, to (rows, labels) scores; of two labels the first stays at 0."""
        return widened(_product(rows, self.weight) + self.bias)


def _product(rows: SparseRows | Tensor, weight: Tensor) -> Tensor:
    """(rows, features) times (features, columns)."""
    return rows @ weight if isinstance(rows, Tensor) else torch.from_numpy(rows @ weight.numpy())


def widened(columns: Tensor) -> Tensor:
    """Scores (…, labels) of the (…, columns) of a :class:`Linear`."""
    return torch.cat([torch.zeros_like(columns), columns], dim=-1) if columns.shape[-1] == 1 else columns


def centred(weight: Tensor) -> Floats:
    """(features, labels) weights whose mean over the labels is 0: what tells them apart."""
    weights = widened(weight)
    centred: Floats = (weights - weights.mean(1, keepdim=True)).numpy()
    return centred


def zeros(num_features: int, num_labels: int) -> Linear:
    """The weights of a model that has learned nothing."""
    columns = 1 if num_labels == 2 else num_labels
    return Linear(torch.zeros(num_features, columns).double(), torch.zeros(columns).double())


def fit(
    rows: SparseRows | Tensor, targets: Tensor, num_labels: int, *, strength: float, start: Linear, seen: int = 0
) -> Linear:
    """The weights of least loss.

    Args:
        rows: (texts, features) float64.
        targets: (texts,) codes of the labels.
        num_labels: at least 2.
        strength: how much the data counts beside the penalty, scikit-learn's ``C``.
        start: earlier weights, or zeros; the penalty is on what changes, so what says nothing new changes nothing.

        seen: texts behind the earlier weights: they hold the bias where it was, by the most that their loss can curve
            (a quarter a text), lest new texts of one label drive it off.

    Returns:
        Weights rounded to float32, so that a model folder holds them exactly at half the size.
    """
    scale, held = 1 / (strength * len(targets)), seen / (4 * len(targets))
    begin = torch.cat([start.weight, start.bias[None]]).numpy()
    matrix = rows.numpy() if isinstance(rows, Tensor) else rows
    if not isinstance(rows, Tensor) and not begin.any() and not seen and _spans_little(rows, num_labels):
        return _fit_in_row_space(rows, targets.numpy(), num_labels, scale)
    weights = torch.from_numpy(_solve(_Task(matrix, targets.numpy(), num_labels, begin, scale, held)))
    weights = weights.float().double()
    return Linear(weights[:-1], weights[-1])


def _spans_little(rows: SparseRows, num_labels: int) -> bool:
    """Return whether many labels have few texts and many more features, so that the row space is far smaller."""
    num_texts, num_features = rows.shape
    return num_labels >= MANY_LABELS and 0 < 4 * num_texts < num_features and num_texts <= MAX_SPAN


def _fit_in_row_space(rows: SparseRows, targets: Index, num_labels: int, scale: float) -> Linear:
    """Fit weights that begin at 0 in coordinates of the space that the rows span, in which the solution lies.

    With R the rows and R R' = L L', weights R' L'^-1 V have the scores L V and the norm of V: there is one coordinate
    for each text in place of one for each feature.
    """
    products = (rows @ rows.T).toarray()
    products[np.diag_indices_from(products)] += JITTER * max(products.trace() / len(products), 1.0)
    lower = np.linalg.cholesky(products).astype(np.float64)
    begin = np.zeros((len(lower) + 1, num_labels))
    solution = _solve(_Task(lower, targets, num_labels, begin, scale, 0.0))
    upper = torch.from_numpy(lower).mT
    weights = rows.T @ torch.linalg.solve_triangular(upper, torch.from_numpy(solution[:-1]), upper=True).numpy()
    return Linear(torch.from_numpy(weights).float().double(), torch.from_numpy(solution[-1]).float().double())


class _Task:
    """The objective over ``strength`` times the number of texts; weights and bias are (features + 1, columns)."""

    def __init__(
        self, rows: SparseRows | Floats, targets: Index, num_labels: int, start: Floats, scale: float, held: float
    ) -> None:
        self.rows, self.backward, self.start = rows, rows.T, start
        self.wanted = np.eye(num_labels)[targets]
        self.penalty = np.full((len(start), 1), scale)
        self.penalty[-1] = held

    def scores(self, weights: Floats) -> Floats:
        """(texts, columns)."""
        found: Floats = self.rows @ weights[:-1] + weights[-1]
        return found

    def loss(self, weights: Floats, scores: Floats) -> float:
        """Mean nats a text, and the penalty."""
        moved = weights - self.start
        nats = _logsumexp(wide := _wide(scores)) - (wide * self.wanted).sum(1)
        return float(nats.mean() + (self.penalty * moved * moved).sum() / 2)

    def slope(self, weights: Floats, shares: Floats) -> Floats:
        """Return the gradient of the loss, in the shape of the weights."""
        return self._back(shares - self.wanted) + self.penalty * (weights - self.start)

    def curve(self, shares: Floats, step: Floats) -> Floats:
        """The second derivatives times a step."""
        scores = _wide(self.scores(step))
        return self._back(shares * (scores - (shares * scores).sum(1, keepdims=True))) + self.penalty * step

    def curvature(self) -> Floats:
        """(features + 1, 1) no less than the second derivative of each weight: a share's variance is 1/4 at most."""
        if isinstance(self.rows, np.ndarray):
            sums = (self.rows**2).sum(0)
        else:
            sums = np.bincount(self.rows.indices, self.rows.data**2, len(self.start) - 1)
        return self.penalty + np.append(sums, len(self.wanted))[:, None] / (4 * len(self.wanted))

    def _back(self, errors: Floats) -> Floats:
        errors = errors[:, -self.start.shape[1] :] / len(self.wanted)
        return np.concatenate([self.backward @ np.ascontiguousarray(errors), errors.sum(0, keepdims=True)])


def _solve(task: _Task) -> Floats:
    """Newton's steps, halved until the loss falls."""
    weights, precision = task.start.copy(), 1 / task.curvature()
    scores = task.scores(weights)
    loss = task.loss(weights, scores)
    for _ in range(_STEPS):
        shares = _softmax(_wide(scores))
        slope = task.slope(weights, shares)
        if np.abs(slope).max() <= _SLOPE:
            break
        step = _conjugate(task, shares, slope, precision)
        moved, descent, length = task.scores(step), float((slope * step).sum()), 1.0
        while (new := task.loss(weights + length * step, scores + length * moved)) > loss + 1e-4 * length * descent:
            length /= 2
            if length < _SHORTEST:  # no lower within rounding
                return weights
        weights, scores, loss = weights + length * step, scores + length * moved, new
    return weights


def _conjugate(task: _Task, shares: Floats, slope: Floats, precision: Floats) -> Floats:
    """The step to where the second-order model of the loss is least, until its slope is a small part of ``slope``."""
    step, rest = np.zeros_like(slope), -slope
    ahead = precision * rest
    way, size = ahead, float((rest * ahead).sum())
    enough = min(0.25, size**0.25) ** 2 * size
    for _ in range(_PASSES):
        curve = task.curve(shares, way)
        length = size / float((way * curve).sum())
        step, rest = step + length * way, rest - length * curve
        ahead, before = precision * rest, size
        size = float((rest * ahead).sum())
        if size <= enough:
            break
        way = ahead + size / before * way
    return step


def _wide(scores: Floats) -> Floats:
    """Scores of the labels of those of the columns: of two labels the first stays at 0."""
    return np.concatenate([np.zeros_like(scores), scores], axis=1) if scores.shape[1] == 1 else scores


def _logsumexp(scores: Floats) -> Floats:
    top = scores.max(1)
    total: Floats = top + np.log(np.exp(scores - top[:, None]).sum(1))
    return total


def _softmax(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores - _logsumexp(scores)[:, None])
    return shares
