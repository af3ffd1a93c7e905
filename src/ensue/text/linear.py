"""Multinomial logistic regression over sparse or dense rows: the linear model that every network is measured against.

The objective is scikit-learn's: half the squared norm of the weights, plus ``strength`` times the summed loss; the bias
is free. Two labels share one column of weights. It is convex, and has one solution; Newton's steps lead there, each
found by conjugate gradients no further than it is worth (Lin, Weng & Keerthi, Trust Region Newton Method for
Large-Scale Logistic Regression, JMLR 2008; Nocedal & Wright, Algorithm 7.1): a few dozen passes over the rows where
L-BFGS takes hundreds.

Weights move from where they begin by R' A, a sum of the rows R, for the penalty leaves nothing outside the space that
rows span (the representer theorem). All vectors of the solver are coordinates: A, one row a text in place of one a
feature, and as a last row what is added to the bias. Their inner product is that of the weights and the bias: the sum
of A * (R R' B), and of the product of the last rows; R R' is never made.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import require_table
from ensue.text.sparse import SparseRows

MANY_LABELS = 8
"""Labels from which the solver computes in float32: passes over the rows are then most of the work."""
Array = npt.NDArray[np.floating]
Strength = Annotated[float, Field(ge=1e-12, le=1e12)]
"""How much the data counts beside the penalty, scikit-learn's ``C``."""
_STEPS, _PASSES, _SLOPE, _SHORTEST = 100, 200, 1e-6, 1e-6


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

    def scores(self, rows: Tensor) -> Tensor:
        """(rows, features) to (rows, labels) scores; of two labels the first stays at 0."""
        return widened(rows @ self.weight + self.bias)


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
    rows: SparseRows | Tensor,
    targets: Tensor,
    num_labels: int,
    *,
    strength: float,
    start: Linear,
    seen: int = 0,
    begin: Array | None = None,
) -> tuple[Linear, Array]:
    """Return the weights of least loss.

    Args:
        rows: (texts, features) float64.
        targets: (texts,) codes of the labels.
        num_labels: at least 2.
        strength: how much the data counts beside the penalty, scikit-learn's ``C``.
        start: earlier weights, or zeros; the penalty is on what changes, so what says nothing new changes nothing.
        seen: texts behind the earlier weights: they hold the bias where it was, by the most that their loss can curve
            (a quarter a text), lest new texts of one label drive it off.
        begin: (texts + 1, columns) coordinates where the search begins, such as those of the solution for another
            strength. [default: the earlier weights]

    Returns:
        Weights rounded to float32, so that a model folder holds them exactly at half the size; and their coordinates.
    """
    dtype: type[np.floating] = np.float64 if num_labels < MANY_LABELS else np.float32
    matrix: SparseRows | Array = rows.numpy().astype(dtype) if isinstance(rows, Tensor) else rows.astype(dtype)
    weight: Array = start.weight.numpy().astype(dtype)
    bias: Array = start.bias.numpy().astype(dtype)
    penalty = np.full((len(targets) + 1, 1), 1 / (strength * len(targets)), dtype)
    penalty[-1] = seen / (4 * len(targets))
    objective = _Objective(matrix, targets.numpy(), num_labels, matrix @ weight + bias, penalty)
    solution = _solve(objective, np.zeros((len(targets) + 1, len(bias)), dtype) if begin is None else begin)
    fitted = (weight + objective.backward @ solution[:-1], bias + solution[-1])
    return Linear(*(torch.from_numpy(part).float().double() for part in fitted)), solution


class _Objective:
    """The objective over ``strength`` times the number of texts, as a function of coordinates and their products.

    Args:
        rows: (texts, features) R.
        targets: (texts,).
        num_labels: at least 2.
        first_scores: (texts, columns) of the weights and the bias from which the search moves.
        penalty: (texts + 1, 1) on each coordinate.
    """

    def __init__(
        self, rows: SparseRows | Array, targets: Index, num_labels: int, first_scores: Array, penalty: Array
    ) -> None:
        self.rows, self.backward, self.first_scores, self.penalty = rows, rows.T, first_scores, penalty
        self.wanted = np.eye(num_labels, dtype=penalty.dtype)[targets][:, -first_scores.shape[1] :]

    def products(self, point: Array) -> Array:
        """Return what coordinates are multiplied with for an inner product: R R' A, and the bias."""
        return np.concatenate([self.rows @ (self.backward @ point[:-1]), point[-1:]])

    def scores(self, products: Array) -> Array:
        """(texts, labels)."""
        return _wide(self.first_scores + products[:-1] + products[-1])

    def loss(self, point: Array, products: Array) -> float:
        """Mean nats a text, and the penalty."""
        scores = self.scores(products)
        nats = _logsumexp(scores) - (scores[:, -self.wanted.shape[1] :] * self.wanted).sum(1)
        return float(nats.mean(dtype=np.float64) + np.vdot(self.penalty * point, products) / 2)

    def shares(self, products: Array) -> Array:
        """(texts, columns) probabilities."""
        return _softmax(self.scores(products))[:, -self.wanted.shape[1] :]

    def slope(self, point: Array, shares: Array) -> Array:
        """Return the gradient."""
        return self._with_bias(shares - self.wanted) + self.penalty * point

    def curve(self, shares: Array, step: Array, products: Array) -> Array:
        """Return the second derivatives times a step."""
        moved = shares * (products[:-1] + products[-1])
        # Of two labels the first has the rest of the share, and its score stays at 0.
        return self._with_bias(moved - shares * moved.sum(1, keepdims=True)) + self.penalty * step

    def _with_bias(self, errors: Array) -> Array:
        errors = errors / len(errors)
        return np.concatenate([errors, errors.sum(0, keepdims=True)])


def _solve(objective: _Objective, point: Array) -> Array:
    """Newton's steps, halved until the loss falls."""
    products = objective.products(point)
    loss = objective.loss(point, products)
    for _ in range(_STEPS):
        shares = objective.shares(products)
        slope = objective.slope(point, shares)
        weights_slope = objective.backward @ slope[:-1]
        if max(np.abs(weights_slope).max(initial=0.0), np.abs(slope[-1]).max()) <= _SLOPE:
            break
        slope_products = np.concatenate([objective.rows @ weights_slope, slope[-1:]])
        step, step_products = _conjugate(objective, shares, slope, slope_products)
        descent, length = float(np.vdot(slope, step_products)), 1.0
        while True:
            moved, moved_products = point + length * step, products + length * step_products
            new_loss = objective.loss(moved, moved_products)
            if new_loss <= loss + 1e-4 * length * descent:
                break
            length /= 2
            if length < _SHORTEST:  # no lower within rounding
                return point
        point, products, loss = moved, moved_products, new_loss
    return point


def _conjugate(objective: _Objective, shares: Array, slope: Array, slope_products: Array) -> tuple[Array, Array]:
    """The step to where the second-order model of the loss is least, until its slope is a small part of ``slope``."""
    step, step_products = np.zeros_like(slope), np.zeros_like(slope)
    rest = way = -slope
    rest_products = way_products = -slope_products
    size = float(np.vdot(rest, rest_products))
    enough = min(0.25, size**0.25) ** 2 * size
    for _ in range(_PASSES):
        curve = objective.curve(shares, way, way_products)
        length = size / float(np.vdot(curve, way_products))
        step, step_products = step + length * way, step_products + length * way_products
        rest = rest - length * curve
        rest_products = objective.products(rest)
        before, size = size, float(np.vdot(rest, rest_products))
        if size <= enough:
            break
        way, way_products = rest + size / before * way, rest_products + size / before * way_products
    return step, step_products


def _wide(scores: Array) -> Array:
    """Scores of the labels of those of the columns: of two labels the first stays at 0."""
    return np.concatenate([np.zeros_like(scores), scores], axis=1) if scores.shape[1] == 1 else scores


def _logsumexp(scores: Array) -> Array:
    top = scores.max(1)
    total: Array = top + np.log(np.exp(scores - top[:, None]).sum(1))
    return total


def _softmax(scores: Array) -> Array:
    shares: Array = np.exp(scores - _logsumexp(scores)[:, None])
    return shares
