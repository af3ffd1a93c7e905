"""SR-GNN against its equations, and the promises of a session model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ensue.tasks.next.models.srgnn import SRGNN, session_graphs
from ensue.tasks.next.settings import SRGNNSettings
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS
from tests.tasks.next.models.contract import SessionModelContract


def small(num_ids: int = NUM_IDS, **changes: Any) -> SRGNN:
    return SRGNN(SRGNNSettings(**{"dim": 5, "negatives": 12, **changes}), num_ids)


class TestSRGNN(SessionModelContract):
    def small(self, num_ids: int = NUM_IDS, **changes: Any) -> SRGNN:
        return small(num_ids, **changes)


def test_the_graph_of_the_paper() -> None:
    """The session v1, v2, v3, v2, v4 of figure 2, with a click of padding before it."""
    ids = torch.tensor([[0, 2, 3, 4, 3, 5]])
    nodes, outgoing, incoming = session_graphs(ids, ids > 0, torch.float32)
    assert nodes[0, 1:].tolist() == [1, 2, 3, 2, 5]
    columns = [1, 2, 3, 5]
    half = [0, 0, 0.5, 0.5]
    assert outgoing[0][columns][:, columns].tolist() == [[0, 1, 0, 0], half, [0, 1, 0, 0], [0, 0, 0, 0]]
    assert incoming[0][columns][:, columns].tolist() == [[0] * 4, [0.5, 0, 0.5, 0], [0, 1, 0, 0], [0, 1, 0, 0]]


@pytest.mark.parametrize(("length", "steps"), [(1, 1), (3, 1), (50, 1), (50, 3)])
def test_equals_the_literal_equations(length: int, steps: int) -> None:
    oracles.equals_the_equations(oracles.ramped(small(max_length=length, steps=steps)), oracles.srgnn_scores)


def test_pieces_give_the_scores_of_the_whole() -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small(max_length=7)), num_pieces=4)


def test_number_of_parameters() -> None:
    # Table 10 * 100; H and b 100 * 200 + 200; W and U of z, r and o 3 * 300 * 100; W1, W2, c and q; W3 200 * 100.
    expected = 1000 + 20_200 + 90_000 + 20_200 + 20_000
    assert sum(parameter.numel() for parameter in SRGNN(SRGNNSettings(), 10).parameters()) == expected
