"""Multinomial logistic regression over sparse or dense rows: the linear model that every network is measured against.

The objective is scikit-learn's: half the squared norm of the weights, plus ``strength`` times the summed loss; the bias
is free. Two labels share one column of weights. It is convex, and L-BFGS finds its one solution.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.optim import LBFGS

from ensue.metrics import Floats
from ensue.text.sparse import SparseRows

_STEPS, _SLOPE = 500, 1e-5


class Linear(NamedTuple):
    """A linear model in float64."""

    weight: Tensor
    """(features, columns): one column for two labels, else one a label."""
    bias: Tensor
    """(columns,)."""

    def scores(self, rows: SparseRows | Tensor) -> Tensor:
        """(rows, features), sparse or dense, to (rows, labels) scores; of two labels the first stays at 0."""
        return widened(_product(rows, self.weight) + self.bias)


def _product(rows: SparseRows | Tensor, weight: Tensor) -> Tensor:
    """(rows, features) times (features, columns)."""
    return rows @ weight if isinstance(rows, Tensor) else torch.from_numpy(rows @ weight.detach().numpy())


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
    weight, bias = (part.clone().requires_grad_() for part in start)
    backward = rows.T
    scale, held = 1 / (strength * len(targets)), seen / (4 * len(targets))
    wanted = torch.eye(num_labels, dtype=torch.float64)[targets]
    optimizer = LBFGS(
        [weight, bias],
        max_iter=_STEPS,
        tolerance_grad=_SLOPE,
        tolerance_change=1e-12,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    @torch.no_grad()
    def objective() -> Tensor:
        """The objective over ``strength`` times the number of texts, and its gradient."""
        scores = Linear(weight, bias).scores(rows)
        logarithms = scores.log_softmax(1)
        errors = ((logarithms.exp() - wanted) / len(targets))[:, -weight.shape[1] :].contiguous()
        moved, shifted = weight - start.weight, bias - start.bias
        weight.grad, bias.grad = _product(backward, errors) + scale * moved, errors.sum(0) + held * shifted
        penalty = scale * moved.square().sum() + held * shifted.square().sum()
        return -(logarithms * wanted).sum() / len(targets) + penalty / 2

    cast(Any, optimizer).step(objective)
    return Linear(weight.detach().float().double(), bias.detach().float().double())
