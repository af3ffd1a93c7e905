"""Weights of a mixture: by hand, beside the likelihood itself, and where there is nothing to learn from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from ensue.tasks.suggest.ensembles.reranker import learn_mixture


def test_parts_that_never_overlap_are_counted() -> None:
    # Three targets that the first part alone expects and one of the second; each has explained one more already.
    found = learn_mixture(np.array([[0.5, 0], [0.1, 0], [0.2, 0], [0, 0.3]]))
    assert found.tolist() == pytest.approx([4 / 6, 2 / 6])


def test_the_weights_are_the_likeliest_under_the_prior() -> None:
    probabilities = np.random.default_rng(0).dirichlet([0.3] * 3, 40)

    def loss(free: np.ndarray) -> float:
        weights = np.exp(free) / np.exp(free).sum()
        return float(-np.log(probabilities @ weights).sum() - np.log(weights).sum())

    free = minimize(loss, np.zeros(3), tol=1e-12).x
    assert learn_mixture(probabilities) == pytest.approx(np.exp(free) / np.exp(free).sum(), abs=1e-4)


def test_what_no_part_expects_says_nothing() -> None:
    assert learn_mixture(np.zeros((5, 4))).tolist() == learn_mixture(np.zeros((0, 4))).tolist() == [0.25] * 4
