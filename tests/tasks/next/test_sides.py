"""Both sides of a product: scores of ids that all histories share, and of ids of each."""

from __future__ import annotations

from functools import partial

import torch

from ensue.nn.embedding import rows_of
from ensue.nn.item_head import Product
from ensue.tasks.next.sides import Sides
from ensue.vocabulary import FIRST


def test_scores_of_the_same_ids_are_those_of_each_and_hide_what_was_seen() -> None:
    draw = torch.Generator().manual_seed(0)
    table, queries = torch.randn(30, 4, generator=draw), torch.randn(3, 4, generator=draw)
    seen = torch.tensor([[5, 7, 0, 0], [29, 5, 6, 28], [0, 0, 0, 0], [9, 9, 2, 0]])
    product = Product(queries, partial(rows_of, table), torch.randn(30, generator=draw))
    sides = Sides(product=product, rows=torch.tensor([0, 1, -1, 2]), counts=torch.arange(30) + 1.0, seen=seen)
    for ids in (torch.tensor([0, 1, 2, 5, 6, 9, 28]), torch.arange(30), torch.tensor([], dtype=torch.int64)):
        found = sides.score(ids)
        torch.testing.assert_close(found, sides.score(ids.expand(4, -1)))
        torch.testing.assert_close(found, sides.score(ids, table[ids]))
        hidden = (ids < FIRST) | (ids[:, None] == seen[:, None]).any(2)
        assert torch.equal(found == -torch.inf, hidden)
