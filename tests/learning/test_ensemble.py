"""Weights of an ensemble: a root found by hand, literal losses, the least of many, bounds, and the prior alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from ensue.learning.ensemble import Candidates, fit_weights


def made_up(num: int = 60, size: int = 7, width: int = 4, num_true: int = 1) -> Candidates:
    """Normal features of which the true candidates have more; a third of the targets have two candidates fewer."""
    random = np.random.default_rng(0)
    true = random.random((num, size - 2)).argsort(1) < num_true
    true = np.pad(true, ((0, 0), (0, 2)))
    features = random.normal(size=(num, size, width)) + true[:, :, None] * np.linspace(-0.5, 1.0, width)
    offsets = random.normal(size=(num, size)) / 4
    offsets[::3, size - 2 :] = -np.inf
    return Candidates(features, true, offsets)


def literal_loss(candidates: Candidates, weights: np.ndarray) -> float:
    """The sum of the losses in plain Python."""
    total = 0.0
    for features, true, offsets in zip(*candidates, strict=True):
        odds = [math.exp(offset + float(row @ weights)) for row, offset in zip(features, offsets, strict=True)]
        total += math.log(sum(odds))
        if true.dtype == bool:
            total -= math.log(sum(value for value, is_true in zip(odds, true, strict=True) if is_true))
        else:
            total -= sum(share * math.log(value) for value, share in zip(odds, true, strict=True) if share)
    return total


def test_two_candidates_are_a_logistic_regression_by_hand() -> None:
    """Nine of ten targets lie one above the other candidate, one lies one below: 9 s(-w) - s(w) = (w - 0.5) / 4."""
    features = np.zeros((10, 2, 1))
    features[:, 0, 0] = [1.0] * 9 + [-1.0]
    candidates = Candidates(features, np.array([[True, False]] * 10), np.zeros((10, 2)))
    found = float(fit_weights([candidates], np.array([0.5]), np.array([0.25]))[0])

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    root = optimize.brentq(lambda w: 9 * sigmoid(-w) - sigmoid(w) - (w - 0.5) / 4, -9, 9)
    assert found == pytest.approx(root, abs=1e-7)


def test_losses_are_the_literal_loop() -> None:
    weights = np.array([0.7, -0.2, 1.1, 0.3])
    for candidates in (made_up(), made_up(num_true=3)):
        assert candidates.losses(weights).sum() == pytest.approx(literal_loss(candidates, weights))
    shares = np.array([[0.9, 0.1, 0.0]])
    smoothed = Candidates(np.array([[[1.0], [0.0], [5.0]]]), shares, np.array([[0.0, 0.0, -np.inf]]))
    assert smoothed.losses(np.array([2.0]))[0] == pytest.approx(math.log(math.e**2 + 1) - 0.9 * 2)


@pytest.mark.parametrize("num_true", [1, 3])
def test_no_other_weights_have_a_lower_loss(num_true: int) -> None:
    candidates, mean, precision = made_up(num_true=num_true), np.array([0.3, 0.0, -0.2, 1.0]), np.full(4, 2.0)
    found = fit_weights([candidates, candidates], mean, precision)

    def loss(weights: np.ndarray) -> float:
        return 2 * literal_loss(candidates, weights) + float((weights - mean) ** 2 @ precision) / 2

    for place in range(4):
        for change in (-0.01, 0.01):
            assert loss(found + change * np.eye(4)[place]) > loss(found)


def test_there_is_no_edge() -> None:
    sure = Candidates(np.array([[[1.0], [0.0]]] * 5000), np.array([[True, False]] * 5000), np.zeros((5000, 2)))
    assert fit_weights([sure], np.zeros(1), np.ones(1))[0] > 4
    assert fit_weights([sure._replace(features=-sure.features)], np.zeros(1), np.ones(1))[0] < -4


def test_weights_below_their_bound_are_zero_and_the_others_as_without_them() -> None:
    candidates, free = made_up(), np.array([True, True, False, True])
    bounded = fit_weights([candidates], np.zeros(4), np.ones(4), non_negative=free)
    assert bounded[0] == 0 < bounded[3]
    rest = fit_weights([candidates.columns(np.array([1, 2, 3]))], np.zeros(3), np.ones(3), non_negative=free[1:])
    assert bounded[1:] == pytest.approx(rest, abs=1e-6)


def test_a_constant_feature_keeps_its_weight_without_a_prior() -> None:
    candidates = made_up()
    candidates.features[:, :, 1] = 7.0
    found = fit_weights([candidates], np.zeros(4), np.zeros(4), start=np.full(4, 0.25))
    assert found[1] == pytest.approx(0.25, abs=1e-3) and found[3] > found[0]


def test_without_a_target_the_weights_are_the_mean() -> None:
    none = made_up(num=0)
    assert fit_weights([none], np.array([0.25, -1.0, 0.0, 2.0]), np.ones(4)).tolist() == [0.25, -1.0, 0.0, 2.0]
