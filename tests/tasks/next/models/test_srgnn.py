"""SR-GNN against its equations, and the promises of a session model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ensue.schedule import Schedule
from ensue.tasks.next.models.srgnn import SRGNN, session_graphs
from ensue.tasks.next.settings import SRGNNSettings
from tests.oracles import promises
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS

LOSSES = pytest.mark.parametrize("loss", ["ce", "sampled"])


def small(num_ids: int = NUM_IDS, **changes: Any) -> SRGNN:
    return SRGNN(SRGNNSettings(**{"dim": 5, "negatives": 12, **changes}), num_ids)


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


def test_padding_is_invisible() -> None:
    promises.hides_padding(oracles.ramped(small(max_length=3)))


def test_the_future_changes_nothing_earlier() -> None:
    promises.knows_no_future(oracles.ramped(small(max_length=3)))


def test_pieces_give_the_scores_of_the_whole() -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small(max_length=7)), num_pieces=4)


def test_the_weights_are_distributions_over_what_came_before() -> None:
    oracles.weighs_what_came_before(oracles.ramped(small()))


def test_loss_is_cross_entropy() -> None:
    oracles.loss_is_cross_entropy(oracles.ramped(small()))


@LOSSES
def test_gradients(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = oracles.ramped(small(6, dim=2, max_length=3, loss=loss), size=0.5).train()
    oracles.fix_draws(model, monkeypatch)
    oracles.has_exact_gradients(model)


@LOSSES
def test_learns_a_planted_pattern(loss: str) -> None:
    schedule = Schedule(epochs=25, batch_size=8, learning_rate=0.02, weight_decay=0.0)
    assert oracles.hits(lambda num_ids: small(num_ids, dim=16, loss=loss), schedule) >= 0.95


def test_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(loss="sampled")
    oracles.fix_draws(model, monkeypatch)
    oracles.survives_half_precision(model)


def test_growing_changes_no_old_score() -> None:
    oracles.grows(oracles.ramped(small()))


def test_number_of_parameters() -> None:
    # Table 10 * 100; H and b 100 * 200 + 200; W and U of z, r and o 3 * 300 * 100; W1, W2, c and q; W3 200 * 100.
    expected = 1000 + 20_200 + 90_000 + 20_200 + 20_000
    assert sum(parameter.numel() for parameter in SRGNN(SRGNNSettings(), 10).parameters()) == expected
