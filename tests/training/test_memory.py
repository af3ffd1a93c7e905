"""What a training will hold: counted by hand, and what the system says there is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ensue.nn.item_head import ItemLayer
from ensue.tasks.next.sizing import free_bytes, gigabytes, ranks_here, training_bytes


class Tables(nn.Module):
    """A table by rows, an output layer by rows or whole, and a matrix."""

    def __init__(self, num_ids: int, negatives: int | None) -> None:
        super().__init__()
        self.items, self.matrix = nn.Embedding(num_ids, 4, sparse=True), nn.Linear(3, 5, bias=False)
        self.output = ItemLayer(8, num_ids, negatives)


@pytest.mark.parametrize("negatives", [None, 7])
def test_a_network_that_is_not_made_is_counted(negatives: int | None) -> None:
    # 1,000 ids: the table 4,000 numbers three times; the layer 8,000 and 1,000 biases three times by rows, four times
    # whole; the matrix 15 four times; the counts of the sampler 1,000 once; and the largest table, 8,000, once more.
    layer = 9_000 * (4 if negatives is None else 3) + (0 if negatives is None else 1_000)
    expected = 4 * (3 * 4_000 + layer + 4 * 15 + 8_000)
    assert training_bytes(lambda num: Tables(num, negatives), 1_000, least=3) == expected


def test_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < free_bytes(torch.device("cpu")) < 2**50
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert ranks_here() == 3
    assert gigabytes(3_140_000_000) == "3.1 GB"
