"""Sums of weighted words, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ensue.tasks.link.batch import Words
from ensue.tasks.link.models.bag import STEEP, bag, bag_parts, bag_shares

# Two words: (1, 0) of weight 1, and (0, 1) of weight 2; the first number is the encoder's.
VECTORS = torch.tensor([[9.0, 1, 0, 0], [9, 0, 1, math.log(2) / STEEP]]).double()
WORDS = Words(VECTORS, torch.tensor([[0, 1, 0], [1, 0, 0]]), torch.tensor([[True, True, True], [True, False, False]]))


def test_by_hand() -> None:
    # The first text holds the first word twice: (1 + ln 2, 2), the second one (0, 2).
    first = torch.tensor([1 + math.log(2), 2]).double()
    found = bag(WORDS, 2)
    torch.testing.assert_close(found, torch.stack([first / first.norm(), torch.tensor([0.0, 1]).double()]))
    assert not bag(WORDS._replace(mask=torch.zeros(2, 3, dtype=torch.bool)), 2).any()


def test_what_words_add() -> None:
    length = math.hypot(1 + math.log(2), 2)
    others = torch.tensor([[[1.0, 10]], [[1, 10]]]).double()
    once = (1 + math.log(2)) / 2 / length
    assert bag_parts(WORDS, 2, others)[0, 0].tolist() == pytest.approx([once, 20 / length, once])
    assert bag_parts(WORDS, 2, others)[1, 0].tolist() == [10, 0, 0]
    total = 1 + math.log(2) + 2
    assert bag_shares(WORDS, 2)[0].tolist() == pytest.approx(
        [(1 + math.log(2)) / 2 / total, 2 / total, (1 + math.log(2)) / 2 / total]
    )
