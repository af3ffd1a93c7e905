"""Sums of weighted words, by hand."""

from __future__ import annotations

import math

import torch

from ensue.tasks.link.batches import DistinctWords
from ensue.tasks.link.models.network import STEEP, bag

# Two words: (1, 0) of weight 1, and (0, 1) of weight 2; the first number is the encoder's.
VECTORS = torch.tensor([[9.0, 1, 0, 0], [9, 0, 1, math.log(2) / STEEP]]).double()
WORDS = DistinctWords(
    VECTORS, torch.tensor([[0, 1, 0], [1, 0, 0]]), torch.tensor([[True, True, True], [True, False, False]])
)


def test_by_hand() -> None:
    # The first text holds the first word twice: (1 + ln 2, 2), the second one (0, 2).
    first = torch.tensor([1 + math.log(2), 2]).double()
    found = bag(WORDS, 2)
    torch.testing.assert_close(found, torch.stack([first / first.norm(), torch.tensor([0.0, 1]).double()]))
    assert not bag(WORDS._replace(mask=torch.zeros(2, 3, dtype=torch.bool)), 2).any()
