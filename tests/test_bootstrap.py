"""The bootstrap: both orders of drawing against literal loops, seeds, intervals, and what a difference is worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ensue.evaluation.bootstrap import (
    BootstrapResult,
    drawn_apart,
    resample,
    seeds_apart,
)
from ensue.metrics import Floats
from ensue.significance import normal_p_value, resampled_p_value, significantly_positive, standard_error

UNITS, RESAMPLES = 40, 25
SEEDS = (3, 1, 2)


@pytest.fixture
def models() -> list[list[Floats]]:
    """(units, measures) of each model and seed."""
    random = np.random.default_rng(5)
    return [[random.random((UNITS, 4)) for _ in range(num)] for num in SEEDS]


def means(models: list[list[Floats]], times: Floats) -> Iterator[Floats]:
    for runs in models:
        yield np.stack([times @ run / UNITS for run in runs])


def test_in_turn_draws_the_seeds_of_a_resample_after_its_units(models: list[list[Floats]]) -> None:
    found = resample(SEEDS, UNITS, lambda times: means(models, times), order="in turn", resamples=RESAMPLES)
    random = np.random.default_rng(0)
    for number in range(RESAMPLES):
        times = np.bincount(random.integers(UNITS, size=UNITS), minlength=UNITS)
        for own, runs in zip(found, models, strict=True):
            chosen = random.integers(len(runs), size=len(runs)) if len(runs) > 1 else [0]
            expected = np.mean([times @ runs[seed] / UNITS for seed in chosen], 0)
            assert np.array_equal(own[number], expected)  # to the last digit


def test_units_first_draws_the_seeds_of_a_model_together(models: list[list[Floats]]) -> None:
    found = resample(SEEDS, UNITS, lambda times: means(models, times), order="units first", resamples=RESAMPLES)
    random = np.random.default_rng(0)
    drawn = [random.integers(UNITS, size=UNITS) for _ in range(RESAMPLES)]
    times = np.stack([np.bincount(one, minlength=UNITS) for one in drawn]).astype(np.float64)
    for own, runs in zip(found, models, strict=True):
        chosen = random.integers(len(runs), size=(RESAMPLES, len(runs)))
        each = np.stack([times @ run / UNITS for run in runs])
        for number in range(RESAMPLES):
            assert np.array_equal(own[number], np.mean([each[seed, number] for seed in chosen[number]], 0))


def test_a_model_alone_is_drawn_as_beside_others(models: list[list[Floats]]) -> None:
    both = resample([1, 1], UNITS, lambda times: means([models[1], models[0][:1]], times), order="in turn")
    alone = resample([1], UNITS, lambda times: means(models[1:2], times), order="in turn")
    assert np.array_equal(both[0], alone[0])  # one seed needs no draw


def test_drawn_apart_each_unit_comes_once_on_average() -> None:
    times = drawn_apart(UNITS, 2000)
    assert np.array_equal(times.sum(1), np.full(2000, UNITS))
    assert times.mean(0) == pytest.approx(np.ones(UNITS), abs=0.1)  # standard error 1 / sqrt(2000) = 0.02
    assert not np.array_equal(times, drawn_apart(UNITS, 2000, seed=1))
    one = np.random.default_rng(0).random((1, RESAMPLES, 4))
    assert np.array_equal(seeds_apart(one), one[0])


def test_a_result_says_its_means_intervals_and_how_far_it_is_ahead() -> None:
    draws = np.arange(101.0)[:, None] / 100
    ours = BootstrapResult(("mrr",), np.array([[0.4], [0.6]]), draws)
    theirs = BootstrapResult(("mrr",), np.array([[0.25]]), np.full((101, 1), 0.015))
    assert ours.by_name() == {"mrr": 0.5}
    assert ours.interval()["mrr"] == pytest.approx((0.025, 0.975))
    found = ours.against(theirs, "mrr")
    assert (found["difference"], found["ratio"]) == (0.25, 2.0)
    assert found["p_value"] == pytest.approx(2 * (1 + 2) / 102)  # two draws of 101 lie below: 0.00 and 0.01
    moved = BootstrapResult(("mrr",), np.array([[0.9]]), draws).centred()
    assert moved.draws.max() == 1.0 and moved.draws[0, 0] == pytest.approx(0.4)  # 0 - 0.5 + 0.9


@pytest.mark.parametrize(
    ("ahead", "expected"), [([1.0] * 9, 0.2), ([1.0] * 8 + [0.0], 0.4), ([-1.0] * 9, 0.2), ([0.0] * 9, 1.0)]
)
def test_p_values_by_hand(ahead: list[float], expected: float) -> None:
    # 1 + how many of nine draws turn the sign, of 10; twice that because both sides count.
    assert resampled_p_value(np.array(ahead)) == pytest.approx(expected)


def test_few_units_are_never_significant() -> None:
    # Five coins fall on one side, whichever, with probability 2 / 2^5.
    always_ahead = np.ones(1000)
    assert resampled_p_value(always_ahead, 5) == normal_p_value(1.0, 0.0, 5) == 1 / 16
    assert resampled_p_value(always_ahead, 1) == 1 and resampled_p_value(always_ahead, 100) == 2 / 1001
    assert not significantly_positive(np.ones(5)) and significantly_positive(np.ones(6))
    assert not significantly_positive(np.ones(60), np.arange(60) % 5) and not significantly_positive(np.zeros(60))


def test_gains_of_one_cluster_count_together() -> None:
    random = np.random.default_rng(0)
    clusters = np.repeat(np.arange(40), 25)
    gains = random.normal(size=40)[clusters] + 0.1
    sums = np.bincount(clusters, gains - gains.mean())
    error = standard_error(gains, clusters)
    assert error == pytest.approx(np.sqrt(40 / 39 * (sums**2).sum()) / 1000)
    assert error == pytest.approx(gains[::25].std(ddof=1) / np.sqrt(40))
    assert normal_p_value(1.96 * error, error) == pytest.approx(0.05, abs=1e-4)
    # A thousand copies of forty draws look significant one by one, and are not.
    assert significantly_positive(gains + 0.1) and not significantly_positive(gains + 0.1, clusters)
