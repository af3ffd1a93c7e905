"""Multinomial logistic regression over sparse or dense rows: the linear model that every network is measured against.

The objective is scikit-learn's: half the squared norm of the weights, plus ``strength`` times the summed loss; the bias
is free. Two labels share one column of weights. It is convex, and has one solution; Newton's steps lead there, each
found by conjugate gradients no further than it is worth (Lin, Weng & Keerthi, Trust Region Newton Method for
Large-Scale Logistic Regression, JMLR 2008; Nocedal & Wright, Algorithm 7.1): a few dozen passes over the rows where
L-BFGS takes hundreds.

Weights move from where they begin by R' A, a sum of the rows R, for the penalty leaves nothing outside the space that
rows span (the representer theorem). All vectors of the solver are coordinates A, one row a text in place of one a
feature, with the inner product of the weights, <A, B> = sum of A * (R R' B); R R' is never made.
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


class Coordinates(NamedTuple):
    """A solution as the solver has it, where another fit of the same rows may begin.

    Attributes:
        rows: (texts, columns) A; the weights are the first ones plus R' A.
        bias: (columns,).
    """

    rows: npt.NDArray[np.floating]
    bias: npt.NDArray[np.floating]


def fit(
    rows: SparseRows | Tensor,
    targets: Tensor,
    num_labels: int,
    *,
    strength: float,
    start: Linear,
    seen: int = 0,
    begin: Coordinates | None = None,
) -> tuple[Linear, Coordinates]:
    """Return the weights of least loss.

    Args:
        rows: (texts, features) float64.
        targets: (texts,) codes of the labels.
        num_labels: at least 2.
        strength: how much the data counts beside the penalty, scikit-learn's ``C``.
        start: earlier weights, or zeros; the penalty is on what changes, so what says nothing new changes nothing.
        seen: texts behind the earlier weights: they hold the bias where it was, by the most that their loss can curve
            (a quarter a text), lest new texts of one label drive it off.
        begin: where the search begins, such as the solution for another strength. [default: the earlier weights]

    Returns:
        Weights rounded to float32, so that a model folder holds them exactly at half the size; and their coordinates.
    """
    dtype: type[np.floating] = np.float64 if num_labels < MANY_LABELS else np.float32
    matrix: SparseRows | Array = rows.numpy().astype(dtype) if isinstance(rows, Tensor) else rows.astype(dtype)
    scale, held = 1 / (strength * len(targets)), seen / (4 * len(targets))
    weight: Array = start.weight.numpy().astype(dtype)
    bias: Array = start.bias.numpy().astype(dtype)
    objective = _Objective(matrix, targets.numpy(), num_labels, weight, bias, scale, held)
    solution = _solve(objective, begin or Coordinates(np.zeros((len(targets), weight.shape[1]), dtype), bias))
    fitted = (weight + objective.backward @ solution.rows, solution.bias)
    return Linear(*(torch.from_numpy(part).float().double() for part in fitted)), solution


class _Objective:
    """The objective over ``strength`` times the number of texts, as a function of coordinates and their products.

    Args:
        rows: (texts, features) R.
        targets: (texts,).
        num_labels: at least 2.
        weight: (features, columns) from which the weights move.
        bias: (columns,) from which the bias moves.
        scale: of the penalty on the weights.
        held: of that on the bias.
    """

    def __init__(
        self,
        rows: SparseRows | Array,
        targets: Index,
        num_labels: int,
        weight: Array,
        bias: Array,
        scale: float,
        held: float,
    ) -> None:
        self.rows, self.backward, self.first_bias = rows, rows.T, bias
        self.first_scores = rows @ weight if weight.any() else np.zeros((len(targets), weight.shape[1]), weight.dtype)
        self.wanted = np.eye(num_labels, dtype=weight.dtype)[targets][:, -weight.shape[1] :]
        self.scale, self.held = scale, held

    def loss(self, point: Coordinates, products: Array) -> float:
        """Mean nats a text, and the penalty; products are R R' A."""
        scores = self.first_scores + products + point.bias
        nats = _logsumexp(_wide(scores)) - (scores * self.wanted).sum(1)
        moved = point.bias - self.first_bias
        penalty = self.scale * np.vdot(point.rows, products) + self.held * moved @ moved
        return float(nats.mean(dtype=np.float64) + penalty / 2)

    def shares(self, point: Coordinates, products: Array) -> Array:
        """(texts, columns) probabilities."""
        return _softmax(_wide(self.first_scores + products + point.bias))[:, -self.wanted.shape[1] :]

    def slope(self, point: Coordinates, shares: Array) -> Coordinates:
        """Return the gradient."""
        errors = (shares - self.wanted) / len(shares)
        return Coordinates(errors + self.scale * point.rows, errors.sum(0) + self.held * (point.bias - self.first_bias))

    def curve(self, shares: Array, step: Coordinates, products: Array) -> Coordinates:
        """Return the second derivatives times a step."""
        scores = shares * (products + step.bias)
        # Of two labels the first has the rest of the share, and its score stays at 0.
        moved = (scores - shares * scores.sum(1, keepdims=True)) / len(shares)
        return Coordinates(moved + self.scale * step.rows, moved.sum(0) + self.held * step.bias)


def _solve(objective: _Objective, point: Coordinates) -> Coordinates:
    """Newton's steps, halved until the loss falls."""
    products = objective.rows @ (objective.backward @ point.rows)
    loss = objective.loss(point, products)
    for _ in range(_STEPS):
        shares = objective.shares(point, products)
        slope = objective.slope(point, shares)
        weights_slope = objective.backward @ slope.rows
        if max(np.abs(weights_slope).max(initial=0.0), np.abs(slope.bias).max()) <= _SLOPE:
            break
        slope_products = objective.rows @ weights_slope
        step, step_products = _conjugate(objective, shares, slope, slope_products)
        descent, length = float(np.vdot(slope.rows, step_products) + slope.bias @ step.bias), 1.0
        while True:
            moved = Coordinates(point.rows + length * step.rows, point.bias + length * step.bias)
            moved_products = products + length * step_products
            new_loss = objective.loss(moved, moved_products)
            if new_loss <= loss + 1e-4 * length * descent:
                break
            length /= 2
            if length < _SHORTEST:  # no lower within rounding
                return point
        point, products, loss = moved, moved_products, new_loss
    return point


def _conjugate(
    objective: _Objective, shares: Array, slope: Coordinates, slope_products: Array
) -> tuple[Coordinates, Array]:
    """The step to where the second-order model of the loss is least, until its slope is a small part of ``slope``."""
    rest, rest_products = Coordinates(-slope.rows, -slope.bias), -slope_products
    step, step_products = Coordinates(np.zeros_like(rest.rows), np.zeros_like(rest.bias)), np.zeros_like(rest.rows)
    way, way_products = rest, rest_products
    size = float(np.vdot(rest.rows, rest_products) + rest.bias @ rest.bias)
    enough = min(0.25, size**0.25) ** 2 * size
    for _ in range(_PASSES):
        curve = objective.curve(shares, way, way_products)
        length = size / float(np.vdot(curve.rows, way_products) + curve.bias @ way.bias)
        step = Coordinates(step.rows + length * way.rows, step.bias + length * way.bias)
        step_products = step_products + length * way_products
        rest = Coordinates(rest.rows - length * curve.rows, rest.bias - length * curve.bias)
        rest_products = objective.rows @ (objective.backward @ rest.rows)
        before, size = size, float(np.vdot(rest.rows, rest_products) + rest.bias @ rest.bias)
        if size <= enough:
            break
        way = Coordinates(rest.rows + size / before * way.rows, rest.bias + size / before * way.bias)
        way_products = rest_products + size / before * way_products
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
