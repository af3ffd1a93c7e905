"""Settings that depend on how many texts there are."""

from __future__ import annotations

import pytest

from ensue.tasks.classify.sizes import schedule_for


@pytest.mark.parametrize(
    ("texts", "batch", "smallest", "epochs", "patience"),
    [
        # 450 texts: 4 a step would make a hundred steps, 16 is the least; 29 steps, so 60 epochs at most of 104, and
        # eighteen would be 500 steps.
        (450, 16, 16, 60, 12),
        (4500, 32, 16, 22, 4),  # 45 -> 32: 141 steps; 3,000 / 141 = 21.3; 500 / 141 = 3.5
        (6920, 64, 16, 28, 5),  # 109 steps
        (22500, 128, 32, 18, 3),  # 176 steps
        (500_000, 128, 32, 4, 3),  # 3,907 steps
        (1, 16, 16, 60, 12),
    ],
)
def test_an_epoch_has_about_a_hundred_steps(texts: int, batch: int, smallest: int, epochs: int, patience: int) -> None:
    assert schedule_for(texts) == {
        "batch_size": batch, "smallest_batch": smallest, "epochs": epochs, "patience": patience, "learning_rate": 1e-3,
    }  # fmt: skip
