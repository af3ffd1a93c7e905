"""Weights of least loss: by a literal loop, drawn to the untrained sum, finite, and the same from some candidates."""

from __future__ import annotations

import numpy as np
import pytest

from ensue.tasks.link.ensembles.selection import CANDIDATES, SAMPLED, candidates, fit_weights, losses


def posts(num: int, size: int, seed: int = 0, gain: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of which the first tells a little of the true article, the second more, and the third nothing."""
    random = np.random.default_rng(seed)
    related = np.eye(size, dtype=bool)[random.integers(size, size=num)]
    noise = random.normal(size=(num, size, 3))
    noise[:, :, :2] += related[:, :, None] * np.array([gain / 2, gain])
    return noise.astype(np.float32), related


def test_the_loss_is_the_literal_loop() -> None:
    scores, related = posts(20, 6)
    related[3, :2] = True
    weights = np.array([0.7, 1.1, -0.2, 2.5])
    wanted = []
    for row in range(20):
        odds = np.exp(scores[row].astype(np.float64) @ weights[:3])
        none, true = np.exp(2.5), odds[related[row]].sum()
        whole = odds.sum() + none
        wanted.append(-np.log(true / whole) / 2 - np.log(none / (whole - true)) / 2)
    np.testing.assert_allclose(losses(candidates(scores, related), weights), wanted)


def test_weights_are_those_of_least_loss() -> None:
    scores, related = posts(60, 6)
    found, penalty = candidates(scores, related), 3.0
    weights = fit_weights(found, penalty)

    def loss(own: np.ndarray) -> float:
        return float(losses(found, own).sum() + 0.1 * own[0] ** 2 + penalty * (own[1:3] ** 2).sum())

    least = loss(weights)
    for place in range(4):
        for step in (0.02, -0.02):
            assert loss(weights + step * np.eye(4)[place]) > least
    assert weights[1] > weights[0] > abs(weights[2])


def test_no_score_counts_against_an_article() -> None:
    scores, related = posts(200, 20)
    scores[:, :, 2] -= related  # what is true has less of it
    found = candidates(scores, related)
    weights = fit_weights(found, 1.0)
    assert weights[2] == 0 and weights[1] > 0
    without = fit_weights(candidates(scores[:, :, :2], related), 1.0)
    np.testing.assert_allclose(weights[[0, 1, 3]], without, rtol=1e-5)
    assert fit_weights(found, 1.0, centre=2)[2] != 0, "the centre is free"


def test_few_labels_or_a_high_penalty_leave_the_first_score() -> None:
    scores, related = posts(200, 20)
    shares = []
    for num, penalty in ((200, 1.0), (5, 100.0), (200, 1e7)):
        weights = fit_weights(candidates(scores[:num], related[:num]), penalty)
        shares.append(abs(weights[1]) / weights[0])
    assert shares[0] > 1 and shares[1] < 0.1 and shares[2] < 1e-3
    untouched = fit_weights(candidates(scores[:0], related[:0]), 1.0)
    assert untouched.tolist() == [1, 0, 0, 5]


def test_labels_that_are_told_apart_perfectly_leave_finite_weights() -> None:
    related = np.eye(30, dtype=bool)
    weights = fit_weights(candidates(related[:, :, None].astype(np.float32) * 5, related), 1.0)
    assert np.isfinite(weights).all() and 0 < weights[0] < 20


def test_some_candidates_stand_for_all() -> None:
    scores, related = posts(300, 1500, gain=3.0)
    few = candidates(scores, related)
    assert few.features.shape == (300, CANDIDATES + SAMPLED + 1, 4) and (few.true.sum(1) == 1).all()
    assert np.exp(few.offsets[:, :-1]).sum(1) == pytest.approx(np.full(300, 1500))
    features = np.zeros((300, 1501, 4))
    features[:, :-1, :-1], features[:, -1, -1] = scores, 1.0
    whole = type(few)(features, np.pad(related, ((0, 0), (0, 1))), np.zeros((300, 1501)))
    np.testing.assert_allclose(fit_weights(few, 10.0), fit_weights(whole, 10.0), atol=0.1)
