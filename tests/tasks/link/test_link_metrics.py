"""Measures of links: by hand, beside scikit-learn and literal loops, and what their intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from ensue.tasks.link import link_metrics
from ensue.tasks.link.link_metrics import (
    Calibration,
    Pool,
    at_cut,
    by_row,
    calibrate,
    cross_fitted,
    wilson,
)

SCORES = np.array([[0.9, 0.1, 0.5], [0.8, 0.8, 0.2], [0.3, 0.3, 0.3]])
RELATED = np.array([[True, False, True], [False, True, False], [False, False, False]])


def pool(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    related = random.random((40, 15)) < 0.2
    return np.round(random.normal(size=related.shape) + related, 1), related  # rounded: many ties


def test_precision_curve_by_hand() -> None:
    # From the best down: .9 true; .8 false before .8 true, as ties count against; then .5 true. Three are true.
    assert Pool(SCORES, RELATED).precision_curve() == {3: 2 / 3}
    scores = np.linspace(1, 0, 220).reshape(20, 11)
    related = np.zeros((20, 11), bool)
    related.ravel()[[0, 1, 60, 150]] = True
    # Among the first 50 there are 2 true ones, among 100 3, among 200 all 4, and among the first 4 2.
    assert Pool(scores, related).precision_curve() == {50: 2 / 50, 100: 3 / 100, 200: 4 / 200, 4: 2 / 4}


def test_by_row_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Post 0: true at 1 and 2. Post 1: true at 2, for ties count against it. Post 2 has no true article.
    assert by_row(SCORES, RELATED).tolist() == [[1.0, 1.0, 1.0], [0.5, 1.0, 0.5]]
    assert by_row(SCORES.T, RELATED.T)[:, 0].tolist() == [1.0, 1.0, 1.0]
    monkeypatch.setattr(link_metrics, "RECALL_AT", 1)
    assert by_row(SCORES, RELATED).tolist() == [[1.0, 0.5, 1.0], [0.5, 0.0, 0.5]]


def test_by_row_is_the_literal_loop() -> None:
    scores, related = pool(0)
    wanted = []
    for own, true in zip(scores.tolist(), related.tolist(), strict=True):
        order = sorted(range(len(own)), key=lambda place: (-own[place], true[place]))
        ranks = [rank for rank, place in enumerate(order, 1) if true[place]]
        if ranks:
            precisions = [hits / rank for hits, rank in enumerate(ranks, 1)]
            recall = sum(rank <= 10 for rank in ranks) / len(ranks)
            wanted.append([1 / ranks[0], recall, sum(precisions) / len(ranks)])
    np.testing.assert_allclose(by_row(scores, related), wanted)


@given(st.integers(0, 1000))
def test_the_pool_agrees_with_scikit_learn(seed: int) -> None:
    scores, related = pool(seed)
    found = Pool(scores, related).metrics()
    assert found["pooled_ap"] == pytest.approx(average_precision_score(related.ravel(), scores.ravel()))
    assert found["auc"] == pytest.approx(roc_auc_score(related.ravel(), scores.ravel()))
    weights = np.random.default_rng(seed).integers(0, 3, len(scores)).astype(np.float64)
    weights[related.any(1).argmax()] = 1.0
    found, counts = Pool(scores, related).metrics(weights), np.repeat(weights, related.shape[1])
    assert found["pooled_ap"] == pytest.approx(
        average_precision_score(related.ravel(), scores.ravel(), sample_weight=counts)
    )
    assert found["auc"] == pytest.approx(roc_auc_score(related.ravel(), scores.ravel(), sample_weight=counts))


def test_a_constant_scorer_earns_nothing() -> None:
    related = np.eye(10, dtype=bool)
    constant = np.zeros((10, 10))
    assert Pool(constant, related).precision_curve()[10] == 0.0
    assert by_row(constant, related)[:, 0].tolist() == [0.1] * 10
    assert Pool(constant, related).metrics() == {"pooled_ap": 0.1, "mrp": pytest.approx(0.1 / 3), "auc": 0.5}


def test_pools_of_one_kind() -> None:
    nothing = np.zeros((2, 2), bool)
    assert Pool(SCORES[:2, :2], nothing).metrics() == {"pooled_ap": 0.0, "mrp": 0.0, "auc": 0.5}
    assert Pool(SCORES[:2, :2], nothing).precision_curve() == {}
    assert by_row(SCORES[:2, :2], nothing).shape == (0, 3)


@given(st.integers(1, 200), st.integers(0, 200))
def test_wilson_agrees_with_scipy(trials: int, hits: int) -> None:
    hits = min(hits, trials)
    wanted = binomtest(hits, trials).proportion_ci(method="wilson")
    assert wilson(hits, trials) == pytest.approx((wanted.low, wanted.high), abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_cut_by_hand() -> None:
    found = at_cut(SCORES, RELATED, 0.5)
    # .9, .8, .8 and .5 reach the cut; .9, one .8 and .5 are true, which is all there is.
    assert (found.retrieved, found.right, found.relevant, found.precision, found.recall) == (4, 3, 3, 0.75, 1.0)
    assert found.recall_interval[1] == 1.0 and found.recall_interval[0] <= wilson(3, 3)[0]
    assert found.precision_interval[0] <= 0.75 <= found.precision_interval[1]
    none = at_cut(SCORES, RELATED, 2.0)
    assert (none.precision, none.precision_interval, none.recall) == (0.0, (0.0, 1.0), 0.0)


def test_intervals_at_a_cut_cover_the_truth() -> None:
    random, covered = np.random.default_rng(0), 0
    for _ in range(100):
        # Each article has its own precision around .7: its posts succeed and fail together.
        shares = random.beta(7, 3, size=30)
        related = random.random((20, 30)) < shares
        low, high = at_cut(np.ones((20, 30)), related, 0.5).precision_interval
        covered += low <= 0.7 <= high
    assert covered >= 90


def test_calibration_is_platts() -> None:
    scores, related = pool(3)
    found = calibrate(scores, related)
    true, right = related.ravel(), int(related.sum())
    wanted = np.where(true, (right + 1) / (right + 2), 1 / (true.size - right + 2))
    # A smoothed target is two weighted ones.
    doubled = np.concatenate([scores.ravel()] * 2)[:, None]
    model = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000)
    model.fit(doubled, np.repeat([1, 0], true.size), sample_weight=np.concatenate([wanted, 1 - wanted]))
    assert found.slope == pytest.approx(model.coef_.item(), rel=1e-4)
    assert found.intercept == pytest.approx(model.intercept_.item(), rel=1e-4)
    # A free intercept makes the mean probability that of the targets.
    assert found.probabilities(scores).mean() == pytest.approx(wanted.mean())
    assert found.probabilities(np.array([found.cut(0.62)]))[0] == pytest.approx(0.62)


def test_scores_that_say_nothing_or_the_contrary() -> None:
    related = np.array([True] * 3 + [False] * 7)
    for scores in (np.zeros(10), -related.astype(float)):
        found = calibrate(scores, related)
        # Platt's targets: 3 of 4/5 and 7 of 1/9, in the mean .3178.
        assert found.slope == 0.0 and found.probabilities(scores)[0] == pytest.approx((3 * 0.8 + 7 / 9) / 10)
        assert found.cut(0.5) is None


def test_no_post_is_told_a_probability_that_it_taught() -> None:
    scores, folds = np.arange(12.0), np.arange(12) % 3
    related = scores >= 6
    found = cross_fitted(scores, related, folds)
    for fold in range(3):
        others = calibrate(scores[folds != fold], related[folds != fold])
        assert found[folds == fold].tolist() == others.probabilities(scores[folds == fold]).tolist()
    # A label that is turned round moves the probabilities of the other folds alone.
    other = cross_fitted(scores, related ^ (scores == 0), folds)
    assert ((found == other) == (folds == 0)).all()


def test_shares_are_calibrated_by_two_terms() -> None:
    """Drawn from a beta calibration, its three numbers are found; a cut is the score of its probability."""
    random = np.random.default_rng(0)
    scores = np.log(random.beta(0.5, 0.5, 60_000))
    true = Calibration(1.2, 0.4, 0.7)
    related = random.random(60_000) < true.probabilities(scores)
    found = calibrate(scores, related, shares=True)
    assert (found.slope, found.intercept, found.certainty) == pytest.approx((1.2, 0.4, 0.7), abs=0.06)
    # By hand: a share of 1/2 has ln 1/2 and -ln(1 - 1/2) = ln 2: logit .4 + (.7 - 1.2) ln 2.
    assert true.probabilities(np.log([0.5])) == pytest.approx(1 / (1 + np.exp(-(0.4 - 0.5 * np.log(2)))))
    for probability in (0.1, 0.5, 0.9):
        cut = true.cut(probability)
        assert cut is not None and true.probabilities(np.array(cut)) == pytest.approx(probability)
    assert calibrate(scores, ~related, shares=True).slope == 0


def test_many_scores_are_taken_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    scores = random.normal(size=30_000)
    related = random.random(30_000) < 1 / (1 + np.exp(1 - 2 * scores))
    exact = calibrate(scores, related)
    monkeypatch.setattr(link_metrics, "_BINS", 2000)
    found = calibrate(scores, related)
    assert (found.slope, found.intercept) == pytest.approx((exact.slope, exact.intercept), rel=1e-4)


def test_a_perfect_scorer_is_calibrated_to_finite_numbers() -> None:
    related = np.arange(50) >= 40
    found = calibrate(related * 1.0, related)
    # Two scores, two free parameters: the probabilities are the smoothed targets, 11/12 and 1/42.
    assert found.probabilities(np.array([1.0, 0.0])).tolist() == pytest.approx([11 / 12, 1 / 42])
