"""Multinomial logistic regression over sparse or dense rows: the linear model that every network is compared with.

Where texts have sets of labels, each label has a logistic regression of its own (one-vs-rest), all fitted at once.

The objective is scikit-learn's: half the squared norm of the weights, plus ``strength`` times the summed loss; the bias
is free. Two labels share one column of weights. The objective is convex and has one solution. Newton's steps lead
there, and conjugate gradients solve each step only as far as it is worth (Lin, Weng & Keerthi, Trust Region Newton
Method for Large-Scale Logistic Regression, JMLR 2008; Nocedal & Wright, Algorithm 7.1): a few dozen passes over the
rows, where L-BFGS takes hundreds.

Weights move from their start by R' A, a sum of the rows R, because the penalty leaves nothing outside the space that
rows span (the representer theorem). All vectors of the solver are coordinates: A, which has one row per text in place
of one per feature, and as a last row the change of the bias. Their inner product is that of the weights and the bias:
the sum of A * (R R' B), and of the product of the last rows; R R' is never computed.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import require_table
from ensue.text.sparse import SparseRows

FLOAT32_LABELS = 8
"""Number of labels from which the solver computes in float32: passes over the rows are then most of the work."""
Array = npt.NDArray[np.floating]
Number = TypeVar("Number", bound=np.floating)
Strength = Annotated[float, Field(ge=1e-12, le=1e12)]
"""Weight of the data relative to the penalty, scikit-learn's ``C``."""
_MAX_STEPS, _MAX_PASSES = 100, 200
_MAX_GRADIENT = 1e-6
_MIN_STEP_LENGTH = 1e-6


class Linear(NamedTuple):
    """A linear model in float64, which a model folder stores in float32."""

    weight: Annotated[Floats, np.float32]
    """(features, columns): one column for two labels, else one column per label."""
    bias: Annotated[Floats, np.float32]
    """(columns,)."""

    def require(self, name: str, num_features: int, num_labels: int, *, sets: bool = False) -> None:
        """Check that the weights are of some features and labels.

        Args:
            name: of the model, in messages.
            num_features: rows of the weights.
            num_labels: at least 2.
            sets: whether a text may have several labels.

        Raises:
            ValueError: they are of other features or labels.
        """
        columns = _num_columns(num_labels, sets)
        require_table(f"{name}.weight", self.weight, np.float64, [num_features, columns])
        require_table(f"{name}.bias", self.bias, np.float64, [columns])

    def scores(self, rows: Floats) -> Floats:
        """Return scores, (rows, labels), of (rows, features); the first of two labels stays at 0."""
        return widened(rows @ self.weight + self.bias)


def widened(columns: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return scores, (rows, labels), of the (rows, columns) of a :class:`Linear`."""
    return np.concatenate([np.zeros_like(columns), columns], axis=1) if columns.shape[1] == 1 else columns


def centred(weight: Floats) -> Floats:
    """Return weights whose mean over the labels is 0, (features, labels): the differences between labels."""
    weights = widened(weight)
    return weights - weights.mean(axis=1, keepdims=True)


def _num_columns(num_labels: int, sets: bool) -> int:
    """Return the number of columns of weights: two labels that exclude each other share one."""
    return 1 if num_labels == 2 and not sets else num_labels


def zeros(num_features: int, num_labels: int, *, sets: bool = False) -> Linear:
    """Return the weights of an untrained model."""
    columns = _num_columns(num_labels, sets)
    return Linear(np.zeros((num_features, columns)), np.zeros(columns))


def sigmoid(scores: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the probability of each label on its own."""
    return np.exp(-np.logaddexp(0, -scores))  # no exponential overflows


def log_softmax(scores: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return logarithms of the probabilities of scores, over the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)  # so that no exponential overflows
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def fit(
    rows: SparseRows | Floats,
    targets: Index,
    num_labels: int,
    *,
    strength: float,
    start: Linear,
    num_seen: int = 0,
    begin: Array | None = None,
) -> tuple[Linear, Array]:
    """Return the weights of least loss.

    Args:
        rows: (texts, features) float64.
        targets: (texts,) codes of the labels, or (texts, labels) 1 for each label of a text and 0 for the others.
        num_labels: at least 2.
        strength: weight of the data relative to the penalty, scikit-learn's ``C``.
        start: former weights, or zeros; the penalty is on the change, so data without news changes nothing.
        num_seen: number of texts behind the former weights: they hold the bias in place by the largest curvature of
            their loss (a quarter per text), so that new texts of one label do not drive it off.
        begin: (texts + 1, columns) coordinates where the search begins, such as those of the solution for another
            strength. [default: the former weights]

    Returns:
        Weights rounded to float32, so that a model folder stores them exactly at half the size; and their coordinates.
    """
    dtype: type[np.floating] = np.float64 if num_labels < FLOAT32_LABELS else np.float32
    matrix: SparseRows | Array = rows.astype(dtype)
    weight: Array = start.weight.astype(dtype)
    bias: Array = start.bias.astype(dtype)
    penalty = np.full((len(targets) + 1, 1), 1 / (strength * len(targets)), dtype)
    penalty[-1] = num_seen / (4 * len(targets))
    objective = _LinearObjective(matrix, targets, num_labels, matrix @ weight + bias, penalty)
    solution = _solve(objective, np.zeros((len(targets) + 1, len(bias)), dtype) if begin is None else begin)
    # Coordinates become weights: each text's row, times the text's coordinates.
    fitted = (weight + objective.backward @ solution[:-1], bias + solution[-1])
    return Linear(*(table.astype(np.float32).astype(np.float64) for table in fitted)), solution


class _LinearObjective:
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
        self.rows = rows
        self.backward = rows.T
        self.first_scores = first_scores
        self.penalty = penalty
        self.sets = targets.ndim == 2
        self.one_hot = targets.astype(penalty.dtype)
        if not self.sets:
            self.one_hot = np.eye(num_labels, dtype=penalty.dtype)[targets][:, -first_scores.shape[1] :]

    def products(self, point: Array) -> Array:
        """Return the factors of an inner product with coordinates: R R' A, and the bias."""
        return np.concatenate([self.rows @ (self.backward @ point[:-1]), point[-1:]])

    def scores(self, products: Array) -> Array:
        """Return scores, (texts, labels)."""
        return widened(self.first_scores + products[:-1] + products[-1])

    def loss(self, point: Array, products: Array) -> float:
        """Return the mean loss of a text in nats, plus the penalty."""
        scores = self.scores(products)
        nats = self._log_totals(scores) - (scores[:, -self.one_hot.shape[1] :] * self.one_hot).sum(1)
        return float(nats.mean(dtype=np.float64) + np.vdot(self.penalty * point, products) / 2)

    def probabilities(self, products: Array) -> Array:
        """Return probabilities, (texts, columns)."""
        scores = self.scores(products)
        if self.sets:
            return sigmoid(scores)
        return np.exp(scores - _logsumexp(scores)[:, None])[:, -self.one_hot.shape[1] :]

    def gradient(self, point: Array, probabilities: Array) -> Array:
        """Return the gradient as coordinates."""
        return self._with_bias(probabilities - self.one_hot) + self.penalty * point

    def curvature(self, probabilities: Array, step: Array, products: Array) -> Array:
        """Return the second derivatives times a step."""
        moved = probabilities * (products[:-1] + products[-1])
        if self.sets:  # labels do not depend on each other
            return self._with_bias(moved * (1 - probabilities)) + self.penalty * step
        # The first of two labels has the rest of the probability, and its score stays at 0.
        return self._with_bias(moved - probabilities * moved.sum(1, keepdims=True)) + self.penalty * step

    def _log_totals(self, scores: Array) -> Array:
        """Return (texts,) logarithms of what probabilities are divided by; of sets the sum over the labels."""
        if not self.sets:
            return _logsumexp(scores)
        return np.logaddexp(0, scores).sum(1)

    def _with_bias(self, errors: Array) -> Array:
        errors = errors / len(errors)
        return np.concatenate([errors, errors.sum(0, keepdims=True)])


def _solve(objective: _LinearObjective, point: Array) -> Array:
    """Take Newton's steps, each halved until the loss falls."""
    products = objective.products(point)
    loss = objective.loss(point, products)
    for _ in range(_MAX_STEPS):
        probabilities = objective.probabilities(products)
        gradient = objective.gradient(point, probabilities)
        weights_gradient = objective.backward @ gradient[:-1]
        if max(np.abs(weights_gradient).max(initial=0.0), np.abs(gradient[-1]).max()) <= _MAX_GRADIENT:
            break
        gradient_products = np.concatenate([objective.rows @ weights_gradient, gradient[-1:]])
        step, step_products = _conjugate_gradients(objective, probabilities, gradient, gradient_products)
        descent = float(np.vdot(gradient, step_products))
        length = 1.0
        while True:
            moved = point + length * step
            moved_products = products + length * step_products
            new_loss = objective.loss(moved, moved_products)
            # Armijo's rule: the loss falls by a part of what its slope promises.
            if new_loss <= loss + 1e-4 * length * descent:
                break
            length /= 2
            if length < _MIN_STEP_LENGTH:  # no lower within rounding
                return point
        point = moved
        products = moved_products
        loss = new_loss
    return point


def _conjugate_gradients(
    objective: _LinearObjective, probabilities: Array, gradient: Array, gradient_products: Array
) -> tuple[Array, Array]:
    """Return the step to the minimum of the loss's second-order model, and its products.

    The search ends when the model's gradient is a small part of ``gradient``.
    """
    step = np.zeros_like(gradient)
    step_products = np.zeros_like(gradient)
    residual = direction = -gradient
    residual_products = direction_products = -gradient_products
    size = float(np.vdot(residual, residual_products))
    # Far from the solution, where gradients are large, a rough step is enough.
    tolerance = min(0.25, size**0.25) ** 2 * size
    for _ in range(_MAX_PASSES):
        curvature = objective.curvature(probabilities, direction, direction_products)
        length = size / float(np.vdot(curvature, direction_products))
        step = step + length * direction
        step_products = step_products + length * direction_products
        residual = residual - length * curvature
        residual_products = objective.products(residual)
        former_size = size
        size = float(np.vdot(residual, residual_products))
        if size <= tolerance:
            break
        direction = residual + size / former_size * direction
        direction_products = residual_products + size / former_size * direction_products
    return step, step_products


def _logsumexp(scores: Array) -> Array:
    largest = scores.max(1)
    return largest + np.log(np.exp(scores - largest[:, None]).sum(1))
