"""Settings that depend on how many texts there are."""

from __future__ import annotations

import pytest

from ensue.tasks.classify.sizes import schedule_for


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
