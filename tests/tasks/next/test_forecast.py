"""Forecasts: a walk rolled forward, and RMTPP's own clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.tasks.next.predictor import NextPredictor

HOUR = 3600.0
SMALL = {"dim": 16, "table_dim": 16, "epochs": 12, "learning_rate": 0.02, "batch_size": 8}


def walks(num: int, length: int = 4) -> Histories:
    """a0 -> a1 -> … an hour a step, always as long."""
    random = np.random.default_rng(0)
    return Histories.of(
        History(
            tuple(f"a{(start + step) % 10}" for step in range(length)), tuple(HOUR * step for step in range(length))
        )
        for start in random.integers(0, 10, num).tolist()
    )


def fitted(model: str, data: Histories, **settings: object) -> NextPredictor:
    predictor = NextPredictor(model, settings=settings)
    for _ in predictor.fit(data):
        pass
    return predictor


def test_a_walk_is_rolled_forward(tmp_path: Path) -> None:
    predictor = fitted("markov", walks(60))
    question = History(("a3", "a4"), (0.0, HOUR), "q")
    (found,) = predictor.forecast([question], 3, 2)
    assert [seen.choices[0].value for seen in found.steps] == ["a5", "a6", "a7"]
    assert all(len(seen.choices) == 2 for seen in found.steps)
    assert (found.in_vocabulary, found.events, found.id) == (2, 2, "q")
    for seen in found.steps:
        low, median, high = seen.after
        assert 2896 <= low <= median <= high <= 4096.1  # the class of an hour
    stops = [seen.stop for seen in found.steps]
    assert stops[1] == pytest.approx(1 / 4, abs=0.02) or stops[0] < 0.1  # two of four events have come
    assert stops[0] < 0.05 and stops[1] < 0.05 and stops[2] > 0.9
    # The first step is what predict says, and what has come is no choice.
    (answer,) = predictor.predict([question], 2)
    assert [c.value for c in answer.choices] == [c.value for c in found.steps[0].choices]
    predictor.save(tmp_path / "m")
    assert NextPredictor.load(tmp_path / "m").forecast([question], 3, 2) == [found]


def test_records_do_not_look_at_each_other() -> None:
    predictor = fitted("markov", walks(60))
    asked = [
        History(("a3", "a4"), (0.0, HOUR)),
        History(()),
        History(("zz",)),
        History(("a1",)),
        History(("a0",), (9.0,)),
    ]
    together = predictor.forecast(asked, 3, 2)
    assert together == [predictor.forecast([record], 3, 2)[0] for record in asked]
    assert [bool(found.steps[0].after) for found in together] == [True, True, False, False, True]


def test_nobody_is_left() -> None:
    data = Histories.of([History(("a", "b"), (0.0, 1.0))] * 5)
    (found,) = fitted("markov", data).forecast([History(("a",), (0.0,))], 5, 3)
    assert [[choice.value for choice in seen.choices] for seen in found.steps] == [["b"]]


def test_rmtpp_knows_the_time_itself() -> None:
    predictor = fitted("rmtpp", walks(60), **SMALL, refit=False)
    (own,) = predictor.forecast([History(("a3", "a4"), (0.0, HOUR))], 2, 1)
    assert own.steps[0].after[0] < own.steps[0].after[1] < own.steps[0].after[2]
    counted = fitted("markov", walks(60)).forecast([History(("a3", "a4"), (0.0, HOUR))], 2, 1)[0]
    assert own.steps[0].after != counted.steps[0].after
    assert own.steps[0].stop == pytest.approx(counted.steps[0].stop, abs=0.01)  # of nine tenths of the data


def test_updates_are_counted() -> None:
    predictor = fitted("markov", walks(60))
    before = predictor.forecast([History(("a3", "a4"), (0.0, HOUR))], 1, 1)[0].steps[0].stop
    predictor.update(walks(300, 2))
    assert predictor.forecast([History(("a3", "a4"), (0.0, HOUR))], 1, 1)[0].steps[0].stop > 0.5 > before


def test_bad_steps_are_refused() -> None:
    predictor = fitted("markov", walks(20))
    with pytest.raises(SettingError, match="steps is 0; give at least 1"):
        predictor.forecast([History(("a1",))], 0)
