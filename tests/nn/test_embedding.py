"""Tables of ids: their start, and room for more ids."""

from __future__ import annotations

import torch
from torch import nn

from ensue.nn.item_head import start_normal, with_rows_of
from ensue.vocabulary import PADDING


class Scores(nn.Module):
    def __init__(self, num_ids: int) -> None:
        super().__init__()
        self.items = nn.Embedding(num_ids, 3)
        self.inner = nn.Linear(3, 3)
        self.bias = nn.Parameter(torch.rand(num_ids))


def test_rows_are_normal_and_padding_is_nothing() -> None:
    torch.manual_seed(0)
    table = nn.Embedding(2001, 50)
    start_normal(table, std=0.1)
    assert not table.weight[PADDING].any()
    assert abs(float(table.weight.detach().std()) - 0.1) < 0.002  # 100,000 draws: the deviation is known to 0.0003


def test_a_larger_network_keeps_the_rows_of_before() -> None:
    torch.manual_seed(0)
    small, large = Scores(4), Scores(6)
    with torch.no_grad():
        small.bias.copy_(torch.tensor([-9.0, -8.0, 2.0, 1.0]))  # of padding, unknown, and two ids
    drawn = large.items.weight[4:].clone()
    grown = with_rows_of(small, large)
    assert grown is large
    assert torch.equal(grown.items.weight[:4], small.items.weight) and torch.equal(grown.items.weight[4:], drawn)
    assert torch.equal(grown.inner.weight, small.inner.weight)
    assert grown.bias.tolist() == [-9.0, -8.0, 2.0, 1.0, 1.0, 1.0]
