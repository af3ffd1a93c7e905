"""How long and in which steps a log of some size is learned."""

from __future__ import annotations

import pytest

from ensue import SettingError
from ensue.schedule import Schedule, require_fixed
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor

FITTED = MODELS["core"].schedule


@pytest.mark.parametrize(
    ("rows", "each", "size", "epochs"),
    [
        (168_003, 3.85, 256, 8),  # Diginetica without the last tenth: 657 steps an epoch
        (104_550, 3.18, 256, 8),  # Yoochoose 1/64 likewise: 409
        (409_599, 3.18, 256, 8),
        (102_400, 3.18, 256, 8),  # 400, to the row
        (102_399, 3.18, 128, 8),
        (12_800, 3.18, 32, 8),
        (12_799, 3.18, 16, 8),
        (6_400, 3.18, 16, 8),
        (1_800, 3.18, 16, 28),  # no smaller ones, 8 have 25 targets: 113 steps an epoch, 3,164 in all
        (450, 3.18, 16, 32),  # 29 steps an epoch, and no more than four times the epochs
        (1_800, 1.0, 32, 32),  # a target each
        (850, 105.0, 2, 8),  # long histories: 425 steps of 210 targets
        (90, 500.0, 1, 32),  # no smaller batch than one of them
    ],
)
def test_the_batch_is_the_largest_with_enough_steps_an_epoch(rows: int, each: float, size: int, epochs: int) -> None:
    assert FITTED is not None
    expected = Schedule(**vars(FITTED) | {"batch_size": size, "epochs": epochs, "patience": epochs})
    assert FITTED.fitted(rows, int(rows * each)) == expected


@pytest.mark.parametrize(("rows", "size"), [(409_600, 512), (819_199, 512), (819_200, 1024), (10**8, 1024)])
def test_a_large_log_has_larger_batches_and_steps_that_grow_with_their_root(rows: int, size: int) -> None:
    assert FITTED is not None
    found = FITTED.fitted(rows, 3 * rows)
    assert (found.batch_size, found.epochs) == (size, 8) and rows // size >= 800
    assert found.learning_rate == pytest.approx(2e-3 * (size / 256) ** 0.5)
    assert FITTED.sized(64).learning_rate == 2e-3
    assert Schedule(batch_size=256, largest_batch=1024).fitted(rows, rows).batch_size == 256


def test_a_schedule_without_least_steps_fits_every_log() -> None:
    schedule = Schedule(batch_size=64)
    assert schedule.fitted(1, 1) == schedule


def test_more_epochs_leave_a_patience_that_was_set() -> None:
    assert Schedule(epochs=8, min_steps=400, max_epochs=32, patience=3).fitted(100, 320).patience == 3


def test_a_batch_below_the_least_stays() -> None:
    assert Schedule(batch_size=24, min_steps=400).fitted(100, 100).batch_size == 24


def test_the_step_size_rises_in_a_tenth_of_the_steps_at_most() -> None:
    schedule = Schedule(decay=True, learning_rate=1.0)
    assert [schedule.rising(steps) for steps in (5, 40, 2000, 5256)] == [1, 4, 200, 200]
    # Of 40 steps the first four rise, 1/4 each, while the cosine falls: at step 3 it is (1 + cos(3 pi / 40)) / 2.
    assert schedule.rate(3, 40) == pytest.approx(0.9861849, abs=1e-6)
    assert schedule.rate(1, 40) == pytest.approx(0.5 * 0.998459, abs=1e-6)
    assert schedule.rate(99, 5256) == pytest.approx(0.5, rel=1e-3)
    assert Schedule(warm_up=30).rising(40) == 30
    assert Schedule().rising(40) == 0


def test_what_a_person_sets_is_not_fitted_to_the_log() -> None:
    by_hand = NextPredictor("core", settings={"batch_size": "128"}).schedule
    assert by_hand is not None and by_hand.fitted(100, 320).batch_size == 128
    by_hand = NextPredictor("core", settings={"epochs": 3}).schedule
    assert by_hand is not None and (by_hand.fitted(100, 320).epochs, by_hand.fitted(100, 320).batch_size) == (3, 16)
    by_hand = NextPredictor("core", settings={"learning_rate": 1e-4}).schedule
    assert by_hand is not None and by_hand.fitted(10**6, 10**7) == by_hand
    both = NextPredictor("core", settings={"batch_size": 128, "min_steps": 10}).schedule
    assert both is not None and both.fitted(640, 2048).batch_size == 64


def test_a_task_that_does_not_fit_its_schedules_says_so() -> None:
    only = Schedule(monitor="mrr", refit=False, replay=0)
    require_fixed(only, "link", "mrr")
    with pytest.raises(SettingError, match="min_steps is 9; task link allows only 0"):
        require_fixed(Schedule(monitor="mrr", refit=False, replay=0, min_steps=9), "link", "mrr")
