"""What is left, by a regression over earlier stories: against scipy, by hand, and a rule that keeps its promise."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from scipy.stats import beta, nbinom, poisson

from ensue.tasks.link.review.review import ReviewSettings, audit_size, review, telling
from ensue.text.sparse import SparseRows
from ensue_studies.earlier_stories import (
    LeftModel,
    Walk,
    conformal_threshold,
    features,
    review_by_rule,
    simulate,
    stopping_rule,
)
from tests.tasks.link.review.test_review import Mask
from tests.tasks.link.review.test_review import features as posts_of


def drawn(seed: int, posts: int = 400, wide: float = 0.3) -> Walk:
    """A reading whose posterior expects too little by a factor that differs from story to story."""
    random = np.random.default_rng(seed)
    chance = 0.9 * np.exp(-np.arange(posts) / 40) + 0.003
    hits = random.random(posts) < chance
    read = np.arange(10, posts + 1, 10)
    factor = 0.5 * math.exp(wide * random.normal())
    expected = np.array([factor * chance[some:].sum() for some in read.tolist()])
    return Walk(posts, int(hits.sum()), np.arange(posts), hits, factor * chance, read, expected)


def test_the_threshold_by_hand() -> None:
    # 59 stories at 95 %: .95 ** 59 = .0485, the largest; of 58 that is .051, too few. Of 199 the 195th smallest counts.
    assert conformal_threshold([number / 100 for number in range(59)]) == 0.58
    assert conformal_threshold([number / 100 for number in range(58)]) is None
    assert conformal_threshold([number / 1000 for number in range(199)]) == 0.194
    assert conformal_threshold([]) is None


@pytest.mark.parametrize(("num", "confidence"), [(59, 0.95), (93, 0.95), (199, 0.95), (2_000, 0.9), (40_000, 0.95)])
def test_the_threshold_is_the_first_that_is_sure_enough(num: int, confidence: float) -> None:
    place = int(conformal_threshold(list(range(num)), confidence) or 0) + 1
    sure = beta.sf(confidence, np.array([place - 1, place]), num + 1 - np.array([place - 1, place]))  # of its coverage
    assert sure[0] < confidence <= sure[1]


def test_what_is_known_by_hand() -> None:
    # 18 found allow 2 misses, so that 50 of 100 unread tell; with one hit among these it is 1.5 / 50 x 100.
    assert telling(100, 18, 0.9) == 50
    said = np.array([True] * 30 + [False] * 20 + [True] + [False] * 29)
    predicted = np.full(80, 0.25)
    known = features(said, predicted, 100, 18, 2.4, 0.9)
    off = (1.5 / 13, 31.5 / 20.5)  # one hit where 12.5 were predicted, 31 where 20 were
    np.testing.assert_allclose(np.exp(known), [math.e, 2.5, 3.1, *off])
    # Only 4 were read here: all of them tell, and no hit is half a hit. None are read: half of all unread, and half.
    np.testing.assert_allclose(
        np.exp(features(np.zeros(4, bool), predicted[:4], 100, 18, 2.4, 0.9)[2]), 0.5 / 4 * 100 + 0.1
    )
    np.testing.assert_allclose(np.exp(features(said[:0], predicted[:0], 100, 0, 2.4, 0.9)[2:]), [50.1, 1, 1])
    np.testing.assert_allclose(np.exp(features(said[:1], predicted[:1], 0, 1, 0.0, 0.9)[1:]), [0.1, 0.1, 2, 2])


@pytest.mark.parametrize(("spread", "allowed"), [(0.0, 0), (0.0, 7), (0.3, 0), (0.3, 7), (2.0, 40)])
def test_chances_are_those_of_scipy(spread: float, allowed: int) -> None:
    model = LeftModel((0.4, 0.5, 0.3), spread)
    known = np.array([1.0, math.log(3.1), math.log(5.1)])
    mean = math.exp(0.4 + 0.5 * math.log(3.1) + 0.3 * math.log(5.1))
    size = 1 / spread if spread else 0.0
    wanted = nbinom.logcdf(allowed, size, size / (size + mean)) if spread else poisson.logcdf(allowed, mean)
    assert model.log_chance(known, allowed) == pytest.approx(float(wanted), rel=1e-9)


def test_the_regression_is_the_likeliest() -> None:
    walks = [drawn(seed) for seed in range(12)]
    rows, left, shares = [], [], []
    for walk in walks:
        near = walk.found >= 0.75 * walk.relevant
        rows.append(walk.features(0.9)[near])
        left.append(walk.relevant - walk.found[near])
        shares.append(np.full(near.sum(), 1 / near.sum()))
    x, y, w = np.concatenate(rows), np.concatenate(left), np.concatenate(shares)

    def loss(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return float((w * (np.exp(x @ weights) - y * (x @ weights))).sum() + 1e-3 * weights @ weights / 2)

    wanted = minimize(loss, np.zeros(5), method="BFGS").x
    found = LeftModel.fit(walks, 0.9)
    np.testing.assert_allclose(found.weights, wanted, atol=1e-3)
    mean = np.exp(x @ np.array(found.weights))
    assert found.spread == pytest.approx(max(0.0, (w * ((y - mean) ** 2 - mean)).sum() / (w * mean**2).sum()))


def test_the_latest_posts_help_where_the_posterior_cannot_be_trusted() -> None:
    earlier, new = ([drawn(seed, wide=1.0) for seed in part] for part in (range(99), range(1000, 1200)))
    rule = stopping_rule(earlier)
    assert rule is not None and rule.stories == 99 and rule.wrong == 1  # k = 98
    sums = [(walk.found / (walk.found + walk.expected))[walk.short(0.9)].max() for walk in earlier]
    threshold = conformal_threshold(sums)
    assert threshold is not None
    wrong, read, before = 0, [], []
    for walk in new:
        at = int((rule.left.chances(walk, 0.9) > rule.threshold).argmax())
        wrong += walk.found[at] < 0.9 * walk.relevant
        read.append(walk.read[at])
        before.append(walk.read[int((walk.found / (walk.found + walk.expected) > threshold).argmax())])
    assert wrong <= 20  # 200 x .05 = 10; more than 20 have a chance of a thousandth
    assert np.mean(read) < np.mean(before)


def test_few_stories_teach_nothing() -> None:
    assert stopping_rule([drawn(seed) for seed in range(58)]) is None


def test_stories_like_the_earlier_ones_are_stopped_in_time() -> None:
    def story(seed: int) -> tuple[npt.NDArray[np.float64], SparseRows, Mask]:
        truth = np.random.default_rng(seed).random(200) < 0.15
        start, rows = posts_of(truth, seed, 0.4)
        return 4 * start - 3, rows, truth

    rule = stopping_rule([simulate(*story(seed)) for seed in range(79)])
    assert rule is not None and rule.stories == 79 and rule.wrong == 0  # k = 79
    wrong, labels = 0, []
    for seed in range(1000, 1040):
        start, rows, truth = story(seed)
        last = review_by_rule(start, rows, partial(np.take, truth), rule)
        wrong += last.found < 0.9 * truth.sum()
        labels.append(last.labelled)
        assert last.labelled == 200 or last.certificate == audit_size(200 - last.labelled, last.found, 0, 0.9, 0.05)
    assert wrong <= 6  # 40 x .05 = 2; more than 6 have a chance under half a percent
    assert np.mean(labels) < 100  # half; an audit needs .53 of the unread at 27 found


def test_a_walk_is_the_reading_of_a_patient_reader() -> None:
    truth = np.random.default_rng(4).random(120) < 0.2
    start, rows = posts_of(truth, 4, 0.8)
    own, batches = simulate(start, rows, truth), []
    for progress in review(start, rows, partial(np.take, truth), ReviewSettings(patience=120)):
        batches.append((progress.labelled, progress.found))
    told = list(zip(own.read.tolist(), own.found.tolist(), strict=True))
    assert told == batches[: len(told)]
    assert own.found[-1] == own.relevant or own.read[-1] >= 2 * own.read[~own.short(0.9)][0]
    assert own.hits.tolist() == truth[own.order].tolist() and len(set(own.order.tolist())) == own.read[-1]
    estimates = [progress.estimate for progress in review(start, rows, partial(np.take, truth))]
    found, expected = own.found[0], own.expected[0]
    assert estimates[0] == pytest.approx(found / (found + expected))
