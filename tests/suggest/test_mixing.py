"""The conditional logit beside a literal one, and what the features are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from ensue.suggest.answers import FEATURES, Candidate, features, shares
from ensue.suggest.mixing import PENALTY, logit


def test_features_by_hand() -> None:
    written = Candidate("a b", -6.0, 3, written=True, followed=3, count=9)
    found = Candidate("c", -2.0, 2, written=False, unknown=1, place=1)
    rows = [dict(zip(FEATURES, row, strict=True)) for row in features([written, found], 1.0).tolist()]
    assert rows[0] == pytest.approx(
        {
            "log_probability": -6, "a_token": -2, "written": 1, "found": 0, "found_first": 0,
            "followed": math.log(4), "frequency": math.log(10), "unknown": 0, "length": 3,
        }
    )  # fmt: skip
    assert rows[1] == pytest.approx(
        {
            "log_probability": -2, "a_token": -1, "written": 0, "found": 1, "found_first": 1 / 2,
            "followed": 0, "frequency": 0, "unknown": 1, "length": 2,
        }
    )  # fmt: skip


def test_shares_by_hand() -> None:
    # exp(0) : exp(ln 3) = 1 : 3
    assert shares(np.array([0.0, math.log(3)])) == pytest.approx([0.25, 0.75])
    assert shares(np.array([])).tolist() == []


def test_the_logit_equals_a_literal_one() -> None:
    random = np.random.default_rng(0)
    pools = [random.normal(size=(random.integers(2, 6), 4)) * [1, 5, 0, 0.1] for _ in range(40)]
    for pool in pools:
        pool[:, 2] = 7.0  # says nothing
    answers = [int((pool @ [1.0, 0.2, 0, -3]).argmax()) if number % 4 else 0 for number, pool in enumerate(pools)]
    every = np.concatenate(pools)
    mean, scale = every.mean(0), np.where(every.std(0) > 0, every.std(0), np.inf)

    def loss(weights: np.ndarray) -> float:
        total = 0.0
        for pool, answer in zip(pools, answers, strict=True):
            scores = [float(weights @ ((row - mean) / scale)) for row in pool]
            total += math.log(sum(map(math.exp, scores))) - scores[answer]
        return total / len(pools) + PENALTY / 2 * float(weights @ weights)

    expected = minimize(loss, np.zeros(4), tol=1e-10).x / scale
    assert logit(pools, answers) == pytest.approx(expected, abs=1e-4)
    assert logit(pools, answers)[2] == 0
