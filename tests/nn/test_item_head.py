"""A score an id, and its loss."""

from __future__ import annotations

import math

import torch
from torch import nn

from ensue.nn.item_head import item_loss, item_scores, table_loss
from ensue.nn.sampling import Sampler

HIDDEN = torch.tensor([[1.0, 2.0]])
WEIGHT = torch.tensor([[9.0, 9.0], [9.0, 9.0], [1.0, 0.0], [0.0, 1.0]])
BIAS = torch.tensor([0.0, 0.0, 0.5, 0.0])


def test_padding_and_unknown_are_no_choices() -> None:
    assert item_scores(HIDDEN, WEIGHT).tolist() == [[-math.inf, -math.inf, 1.0, 2.0]]
    assert item_scores(HIDDEN, WEIGHT, BIAS).tolist() == [[-math.inf, -math.inf, 1.5, 2.0]]


def test_the_loss_is_that_of_the_scores() -> None:
    # -log(exp(2) / (exp(1.5) + exp(2))) = log(1 + exp(-0.5))
    loss = item_loss(HIDDEN, WEIGHT, torch.tensor([3]), BIAS)
    torch.testing.assert_close(loss, torch.tensor(math.log1p(math.exp(-0.5))))


def test_a_table_has_the_same_loss_and_one_over_drawn_ids() -> None:
    items, targets = nn.Embedding(4, 2, _weight=WEIGHT), torch.tensor([3])
    whole = table_loss(HIDDEN, items, targets, Sampler(4), None)
    torch.testing.assert_close(whole, torch.tensor(math.log1p(math.exp(-1.0))))
    # One draw of two ids: id 2 counts exp(1) / (1 x 1/2), and the target itself is left out.
    for seed in range(4):
        torch.manual_seed(seed)
        drawn = int((Sampler(4).draw(1) == 2).sum())
        torch.manual_seed(seed)
        sampled = table_loss(HIDDEN, items, targets, Sampler(4), 1)
        torch.testing.assert_close(sampled, torch.tensor(math.log1p(drawn * 2 * math.exp(-1.0))))
    exact = table_loss(HIDDEN, items, targets, Sampler(4), 8)  # more draws than ids: all of them, once
    torch.testing.assert_close(exact, whole)
