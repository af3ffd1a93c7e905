"""Temperature and calibration error."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from ensue.tasks.classify.calibration import calibration_error, temperature


def test_the_temperature_is_the_one_that_scipy_finds() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(400, 3, generator=generator).double()
    targets = torch.multinomial((scores / 2.5).softmax(1), 1, generator=generator)[:, 0]

    def loss(logarithm: float) -> float:
        shares = (scores / math.exp(logarithm)).log_softmax(1)
        total = 0.0
        for row, target in zip(shares, targets.tolist(), strict=True):  # smoothed: (n + 1) / (n + 3), 1 / (n + 3)
            count = int((targets == target).sum())
            total -= float(row[target] * count + row.sum()) / (count + 3)
        return total

    best = minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9})
    assert temperature(scores, targets) == pytest.approx(math.exp(best.x), rel=1e-5)
    assert 2.1 < temperature(scores, targets) < 3.1  # they were drawn at 2.5


def test_where_all_is_right_the_temperature_stays_finite() -> None:
    # Two labels, two texts each, scores +-1: smoothed shares are 3/4 and 1/4, so 2 / T = log 3.
    scores, targets = torch.tensor([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]]), torch.tensor([0, 0, 1, 1])
    assert temperature(scores, targets) == pytest.approx(2 / math.log(3), rel=1e-9)


def test_nothing_to_go_by_leaves_the_scores_alone() -> None:
    assert temperature(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)) == 1.0
    assert temperature(torch.zeros(3, 2), torch.tensor([0, 1, 1])) == 1.0


def test_calibration_error_by_hand() -> None:
    # Two bins. (0, 0.5]: one text, sure 0.5, wrong: 0.5 apart. (0.5, 1]: 0.9 right, 0.8 wrong, 1 right: 2.7 against 2.
    shares = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [1.0, 0.0]])
    assert calibration_error(shares, np.array([1, 0, -1, 0]), bins=2) == pytest.approx((0.5 + 0.7) / 4)
    assert calibration_error(np.zeros((0, 2)), np.zeros(0, np.int64)) == 0.0
