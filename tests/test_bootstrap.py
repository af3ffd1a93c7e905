"""The bootstrap: both orders of drawing against literal loops, seeds, intervals, and what a difference is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import metrics
from ensue.evaluation.bootstrap import BootstrapResult, Order, Statistic, bootstrap, means_over_units
from ensue.metrics import Floats
from ensue.significance import normal_p_value, resampled_p_value, significantly_positive, standard_error
from tests.oracles import measures as oracles

UNITS, RESAMPLES = 40, 25
SEEDS = (3, 1, 2)
METRICS = ("a", "b", "c", "d")


@pytest.fixture
def models() -> list[list[Floats]]:
    """(units, metrics) of each model and seed."""
    random = np.random.default_rng(5)
    return [[random.random((UNITS, 4)) for _ in range(num)] for num in SEEDS]


def statistics(models: list[list[Floats]]) -> list[list[Statistic]]:
    return [[means_over_units(run, np.arange(UNITS), UNITS) for run in runs] for runs in models]


def test_in_turn_draws_the_seeds_of_a_resample_after_its_units(models: list[list[Floats]]) -> None:
    found = bootstrap(METRICS, statistics(models), UNITS, "in turn", resamples=RESAMPLES)
    random = np.random.default_rng(0)
    for number in range(RESAMPLES):
        times = np.bincount(random.integers(UNITS, size=UNITS), minlength=UNITS)
        for result, runs in zip(found, models, strict=True):
            chosen = random.integers(len(runs), size=len(runs)) if len(runs) > 1 else [0]
            expected = np.mean([times @ runs[seed] / UNITS for seed in chosen], 0)
            np.testing.assert_allclose(result.draws[number], expected, rtol=1e-13)
    for result, runs in zip(found, models, strict=True):
        np.testing.assert_allclose(result.by_seed, [run.mean(0) for run in runs])


def test_units_first_draws_the_seeds_of_a_model_together(models: list[list[Floats]]) -> None:
    found = bootstrap(METRICS, statistics(models), UNITS, "units first", resamples=RESAMPLES)
    random = np.random.default_rng(0)
    drawn = [random.integers(UNITS, size=UNITS) for _ in range(RESAMPLES)]
    times = np.stack([np.bincount(units, minlength=UNITS) for units in drawn]).astype(np.float64)
    for result, runs in zip(found, models, strict=True):
        chosen = random.integers(len(runs), size=(RESAMPLES, len(runs)))
        each = np.stack([times @ run / UNITS for run in runs])
        for number in range(RESAMPLES):
            expected = np.mean([each[seed, number] for seed in chosen[number]], 0)
            np.testing.assert_allclose(result.draws[number], expected, rtol=1e-13)


def test_multinomial_draws_seeds_of_each_model_alone(models: list[list[Floats]]) -> None:
    found = bootstrap(METRICS, statistics(models), UNITS, "multinomial", resamples=RESAMPLES)
    times = np.random.default_rng(0).multinomial(UNITS, np.full(UNITS, 1 / UNITS), RESAMPLES)
    for result, runs in zip(found, models, strict=True):
        chosen = np.random.default_rng(1).integers(len(runs), size=(len(runs), RESAMPLES))
        each = np.stack([times @ run / UNITS for run in runs])
        expected = each[chosen, np.arange(RESAMPLES)].mean(0)
        np.testing.assert_allclose(result.draws, expected, rtol=1e-13)


@pytest.mark.parametrize("order", ["in turn", "units first", "multinomial"])
def test_blocks_of_draws_change_nothing(
    models: list[list[Floats]], order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, *_ = bootstrap(METRICS, statistics(models[1:2]), UNITS, order, resamples=RESAMPLES)
    monkeypatch.setattr("ensue.evaluation.bootstrap._BLOCK", 3 * UNITS)
    found = bootstrap(METRICS, statistics([models[1], models[0][:1]]), UNITS, order, resamples=RESAMPLES)
    np.testing.assert_allclose(found[0].draws, alone.draws, rtol=1e-13)  # one seed needs no draw


@given(st.lists(st.lists(st.integers(1, 30), max_size=4), min_size=1, max_size=6).filter(any))
def test_means_are_micro_and_macro(ranks: list[list[int]]) -> None:
    at = (1, 3, 10)
    rank = np.array([rank for sequence in ranks for rank in sequence], np.float64)
    units = np.array([number for number, sequence in enumerate(ranks) for _ in sequence], np.int64)
    columns = np.stack([*metrics.rank_metrics(rank, at).values()], axis=1)
    for macro, oracle in ((False, oracles.micro), (True, oracles.macro)):
        statistic = means_over_units(columns, units, len(ranks), macro=macro)
        np.testing.assert_allclose(statistic(np.ones((1, len(ranks))))[0], oracle(ranks, at))


def test_an_example_without_a_metric_does_not_count_for_it() -> None:
    columns = np.array([[1.0, 0.5], [0.0, np.nan], [np.nan, np.nan], [1.0, 0.0]])
    units = np.array([0, 0, 1, 2])
    micro, macro = (means_over_units(columns, units, 3, macro=macro) for macro in (False, True))
    times = np.array([[1.0, 1.0, 1.0], [2.0, 3.0, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(micro(times), [[2 / 3, 1 / 4], [1 / 2, 1 / 2], [0.0, 0.0]])
    np.testing.assert_allclose(macro(times), [[3 / 4, 1 / 4], [1 / 2, 1 / 2], [0.0, 0.0]])


def test_a_result_says_its_means_intervals_and_how_far_it_is_ahead() -> None:
    draws = np.arange(101.0)[:, None] / 100
    ours = BootstrapResult(("mrr",), np.array([[0.4], [0.6]]), draws)
    theirs = BootstrapResult(("mrr",), np.array([[0.25]]), np.full((101, 1), 0.015))
    assert ours.by_name() == {"mrr": 0.5}
    assert ours.interval()["mrr"] == pytest.approx((0.025, 0.975))
    found = ours.against(theirs, "mrr")
    assert (found["difference"], found["ratio"]) == (0.25, 2.0)
    assert found["p_value"] == pytest.approx(2 * (1 + 2) / 102)  # two draws of 101 lie below: 0.00 and 0.01
    moved = BootstrapResult(("mrr",), np.array([[0.9]]), draws).interval(centred=True)
    assert moved["mrr"] == pytest.approx((0.025 + 0.4, 1.0))  # 0.4 is 0.9 - 0.5; beyond 1 there is nothing
    loss = BootstrapResult(("log_loss",), np.array([[0.9]]), draws).interval(centred=True)
    assert loss["log_loss"] == pytest.approx((0.425, 1.375))


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
