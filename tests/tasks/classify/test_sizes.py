"""Settings that depend on how many texts there are."""

from __future__ import annotations

import pytest

from ensue.data.texts import Texts
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.classify.settings import MAX_EPOCHS_OF_BEST, schedule_for
from tests.tasks.classify.contract import planted


@pytest.mark.parametrize(
    ("texts", "batch", "epochs", "patience"),
    [
        # 450 texts: 4 a step would make a hundred steps, 16 is the least; 29 steps, 1,000 / 29 = 34.5, and eighteen
        # epochs would be 500 steps, of which eight are waited for.
        (450, 16, 35, 8),
        (4500, 32, 8, 4),  # 45 -> 32: 141 steps; 1,000 / 141 = 7.1; 500 / 141 = 3.5
        (6200, 64, 11, 6),  # 62 -> 64: 97 steps
        (22500, 128, 6, 3),  # 176 steps
        (500_000, 128, 4, 3),  # 3,907 steps
        (1, 16, 60, 8),
    ],
)
def test_an_epoch_has_about_a_hundred_steps(texts: int, batch: int, epochs: int, patience: int) -> None:
    assert schedule_for(texts) == {
        "batch_size": batch, "smallest_batch": batch, "epochs": epochs, "patience": patience, "learning_rate": 1e-3,
        "decay": True, "decay_rate": 1.0,
    }  # fmt: skip


def test_epochs_are_few_where_most_is() -> None:
    assert [schedule_for(texts, MAX_EPOCHS_OF_BEST)["epochs"] for texts in (100, 6200, 10**6)] == [8, 8, 4]


def test_best_trains_words_without_vectors_for_few_epochs() -> None:
    epochs = {}
    for model in ("best", "blend"):
        made = ClassifyPredictor(model, settings={"hidden": 4, "dim": 4, "head": 4, "learning_rate": 1e-9})
        reports = [*made.fit(Texts.of(planted(40, 0)))]
        epochs[model] = reports[-1].epochs
    assert epochs == {"best": 8, "blend": 60}
