"""Small models of task ``next`` whose folders are mutated, and every way in which a loaded one is used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue import Answer, History
from ensue.data.histories import Histories, Items
from ensue.evaluation.comparison import evaluate
from ensue.tasks.next import state as next_state
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.spreaders import leaned_on, spreaders
from tests.mutations import Family

VALUES, HOUR = 30, 3600.0
SMALL = {"dim": 8, "table_dim": 8, "epochs": 2, "negatives": 8, "batch_size": 16, "refit": False}


def walks(num: int, seed: int, *, repeats: bool = True) -> list[History]:
    """Sessions that walk along the values, about an hour a step."""
    chance, records = np.random.default_rng(seed), []
    for number in range(num):
        steps = np.cumsum(chance.integers(0 if repeats else 1, 4, int(chance.integers(3, 7))))
        values = tuple(f"v{(number + step) % VALUES}" for step in steps.tolist())
        records.append(History(values, tuple(HOUR * (number + step) for step in range(len(values)))))
    return records


RECORDS = [
    *walks(4, 5),
    History(()),
    History(("v3",)),
    History(("nobody knows this", "v3", "nobody knows this")),
    History(tuple(f"v{step % VALUES}" for step in range(150))),
]


ITEMS = Items(
    pl.Series([f"v{number}" for number in range(VALUES + 2)]),
    pl.DataFrame(
        {
            "title": [f"the {'red' if number % 2 else 'blue'} one" for number in range(VALUES + 2)],
            "kind": [f"{number % 5}|{number % 3}" for number in range(VALUES + 2)],
            "size": [str(number / 2) for number in range(VALUES + 2)],
        }
    ),
    {"title": "text", "kind": "category", "size": "number"},
    "title",
    "item",
)
"""Two items more than the walks have."""


def save_model(
    folder: Path, *, model: str, repeats: bool = True, indexed: bool = False, items: Items | None = None
) -> None:
    """Train a model on walks and write its folder; with ``indexed`` the few values count as a large catalogue."""
    known = NextPredictor(model)
    names = {*known.settings.__dataclass_fields__, *(known.schedule.__dataclass_fields__ if known.schedule else ())}
    predictor = NextPredictor(
        model, settings={key: value for key, value in SMALL.items() if key in names}, device="cpu"
    )
    with pytest.MonkeyPatch.context() as patch:
        if indexed:
            patch.setattr(next_state, "LARGE", 10)
        data = replace(Histories.of(walks(60, 0, repeats=repeats)), items=items)
        list(predictor.fit(data, Histories.of(walks(20, 1, repeats=repeats))))
    predictor.save(folder)


def exercise(predictor: NextPredictor, scratch: Path) -> None:
    """Predict, explain, forecast, evaluate, list spreaders, update, predict again, and save."""
    require_answers(predictor, predictor.predict(RECORDS, 3), RECORDS)
    require_answers(predictor, predictor.predict(RECORDS, 1000, evidence=False), RECORDS)
    lists = predictor.predict(RECORDS, 1, exclude={"v1", "v2"}, allow={"v1", "v5", "v6"}, rank_unknown=True)
    require_answers(predictor, lists, RECORDS)
    for explanation in predictor.explain(RECORDS[:3], 2):
        require_answers(predictor, [explanation.answer], RECORDS[:1])
    for forecast in predictor.forecast(RECORDS[:4], 2, 3):
        for step in forecast.steps:
            assert math.isfinite(step.stop) and all(map(math.isfinite, step.after)), step
    data = Histories.of(walks(12, 7))
    for row in evaluate(predictor, data).rows:
        assert all(math.isfinite(number) for number in row.figures.values()), row
    encoded = data.encode(predictor.vocabulary, drop_unknown=True)
    if len(encoded.ids):
        for spreader in spreaders(encoded, leaned_on(predictor, encoded), by="credit"):
            assert math.isfinite(spreader.followed.total), spreader
    predictor.update(Histories.of([*walks(6, 8), History(("new", "v1", "newer"), (1.0, 2.0, 3.0))]))
    require_answers(predictor, predictor.predict(RECORDS, 3), RECORDS)
    predictor.save(scratch / "saved")
    NextPredictor.load(scratch / "saved")


def require_answers(predictor: NextPredictor, answers: Sequence[Answer], records: Sequence[History]) -> None:
    """Check that each answer holds values of the vocabulary or of its record, with finite probabilities, falling."""
    assert len(answers) == len(records)
    for record, answer in zip(records, answers, strict=True):
        scores = [choice.score for choice in answer.choices]
        assert all(math.isfinite(score) and 0 <= score <= 1.001 for score in scores), answer
        values = [choice.value for choice in answer.choices]
        assert all(value in predictor.vocabulary or value in record.values for value in values), answer
        assert len(set(values)) == len(values), answer
        for attribution in (attribution for choice in answer.choices for attribution in choice.attributions):
            assert math.isfinite(attribution.weight) and math.isfinite(attribution.score_drop or 0.0), answer


FAMILIES: dict[str, Family] = {
    **{
        model: Family(partial(save_model, model=model), exercise)
        for model in ("blend", "core", "sansr", "gru4rec", "rmtpp", "vsknn", "interpolated", "markov")
    },
    "cascade-blend": Family(partial(save_model, model="cascade-blend", repeats=False), exercise),
    "core-items": Family(partial(save_model, model="core", items=ITEMS), exercise),
    "hidan": Family(partial(save_model, model="hidan", repeats=False), exercise),
    **{
        f"{model}-index": Family(partial(save_model, model=model, indexed=True), exercise)
        for model in ("blend", "fpmc")
    },
    **{
        model: Family(partial(save_model, model=model), exercise) for model in ("narm", "stamp", "cyan-rnn", "att-lstm")
    },
}
