"""The conditional logit: the root of its gradient by hand, no edge, and candidates that are none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize

from ensue.tasks.next.ensembles.conditional_logit import fit, likelihood


def test_two_candidates_are_a_logistic_regression_by_hand() -> None:
    """Nine of ten targets lie one above the other candidate, one lies one below: 9 s(-w) - s(w) = (w - 0.5) / 4."""
    apart = torch.tensor([1.0] * 9 + [-1.0])
    features = torch.stack([apart, torch.zeros(10)], dim=1)[..., None]
    found = float(fit(features, torch.tensor([0.5]), 2.0))

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    root = optimize.brentq(lambda w: 9 * sigmoid(-w) - sigmoid(w) - (w - 0.5) / 4, -9, 9)
    assert found == pytest.approx(root, abs=1e-5)


def test_there_is_no_edge() -> None:
    sure = torch.tensor([[[1.0], [0.0]]]).repeat(5000, 1, 1)
    assert float(fit(sure, torch.zeros(1), 1.0)) > 4
    assert float(fit(-sure, torch.zeros(1), 1.0)) < -4


def test_it_is_the_likeliest_of_many_parts() -> None:
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(60, 7, 4))).float()
    features[:30, 5:] = torch.nan
    prior = torch.tensor([0.3, 0.0, -0.2, 1.0])
    found = fit(features, prior, 0.7)

    def lost(weights: torch.Tensor) -> float:
        total = 0.0
        for target in features:
            scores = [float(one @ weights) for one in target if not one.isnan().any()]
            total += math.log(sum(map(math.exp, scores))) - scores[0]
        return total + float((weights - prior).square().sum()) / (2 * 0.7**2)

    for place in range(4):
        for change in (-0.02, 0.02):
            other = found.clone()
            other[place] += change
            assert lost(other) > lost(found)


def test_without_a_target_it_is_the_prior() -> None:
    prior = torch.tensor([0.25, -1.0])
    assert torch.equal(fit(torch.zeros(0, 4, 2), prior, 1.0), prior)


def test_the_likelihood_is_the_sum_of_the_targets_logarithms() -> None:
    features = torch.tensor([[[1.0], [0.0], [0.0]], [[2.0], [0.0], [torch.nan]]])
    expected = math.log(math.e / (math.e + 2)) + math.log(math.e**2 / (math.e**2 + 1))
    assert likelihood(features, torch.tensor([1.0])) == pytest.approx(expected)
