"""The ends of a training before its last epoch: a race that is lost, and a time limit."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count

import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.learning import life
from ensue.learning.life import race
from ensue.tasks.classify import train
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.report import LEFT_OUT, OUT_OF_TIME, Report, StopRequest, Trained
from tests.tasks.classify.contract import planted


def training(epochs: int, steps: int = 10) -> Generator[Report, None, Trained]:
    """Report as a training does; it ends after an epoch in which it was asked to."""
    stop = StopRequest()
    for epoch in range(1, epochs + 1):
        yield Report("fit", epoch, epochs, 1, steps, 1.0, 0.0, stop=stop)
        yield Report("fit", epoch, epochs, steps, steps, 1.0, 0.0, valid=0.5, stop=stop)
        if stop.is_made:
            break
    return Trained(epoch, 0.0, improving=False, steps=epoch * steps)


def run(epochs: int, behind_at: int | None, steps: int = 100) -> tuple[list[int], list[str], Trained, bool]:
    """Return the epochs at which the race was decided, the notes, and its result."""
    rungs, notes, epoch = [], [], 0

    def is_behind() -> bool:
        rungs.append(epoch)
        return epoch == behind_at

    def reports() -> Generator[Report, None, Trained]:
        nonlocal epoch
        inner = training(epochs, steps)
        while True:
            try:
                report = next(inner)
            except StopIteration as end:
                trained: Trained = end.value
                return trained
            epoch = report.epoch
            yield report

    racing = race(reports(), is_behind)
    while True:
        try:
            notes.append(next(racing).note)
        except StopIteration as end:
            return rungs, [note for note in notes if note], *end.value


def test_a_network_that_is_never_behind_is_looked_at_at_powers_of_two() -> None:
    rungs, notes, trained, lost = run(20, None)
    assert (rungs, notes, trained.best_epoch, lost) == ([1, 2, 4, 8], [], 20, False)
    assert run(20, None, steps=40)[0] == [3, 6]  # a hundred steps at least


def test_a_network_that_is_behind_is_not_trained_on() -> None:
    rungs, notes, trained, lost = run(20, 2)
    assert (rungs, trained.best_epoch, lost) == ([1, 2], 2, True)
    assert notes == [f"stopped after epoch 2 of at most 20; {LEFT_OUT}"]


def test_best_of_texts_ends_after_one_epoch_where_the_network_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "MIN_STEPS", 1)
    for is_behind, epochs in ((True, [1]), (False, [1, 2, 3, 4])):
        monkeypatch.setattr(train, "adds_nothing", lambda *_, is_behind=is_behind: is_behind)
        made = ClassifyPredictor("best", settings={"dim": 4, "hidden": 4, "epochs": 4}, seed=0, device="cpu")
        reports = [*made.fit(Texts.of(planted(150, 0)), Texts.of(planted(60, 1)))]
        assert [report.epoch for report in reports if report.valid is not None] == epochs
        assert (made.metadata.ended == LEFT_OUT) is is_behind
        assert any("stopped after epoch 1 of at most 4;" in report.note for report in reports) is is_behind


def test_a_fit_ends_within_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))  # each look at the clock takes a second
    made = NextPredictor("sansr", settings={"dim": 4, "epochs": 10_000, "patience": 10_000}, seed=0, device="cpu")
    made.stop_time = 600.0
    reports = [*made.fit(Histories.of([History(tuple("abcabd")), History(tuple("bcabca"))] * 20))]
    assert next(ticks) <= 1.1 * 600
    first = [report for report in reports if report.stage == "fit"]
    assert first[-1].note == OUT_OF_TIME == made.metadata.ended
    assert len(first) > 50 and first[-2].stopped and first[-2].epoch < 10_000
    assert reports[-1].stage == "refit"
