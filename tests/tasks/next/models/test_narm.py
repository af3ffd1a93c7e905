"""NARM against its equations, and the promises of a session model."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from ensue import SettingError
from ensue.tasks.next.models.narm import NARM
from ensue.tasks.next.settings import NARMSettings
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS, pad, ragged
from tests.tasks.next.models.contract import LOSSES, SessionModelContract


def small(num_ids: int = NUM_IDS, **changes: Any) -> NARM:
    settings = {"dim": 5, "table_dim": 4, "negatives": 12, "dropout_items": 0.0, "dropout_session": 0.0, **changes}
    return NARM(NARMSettings(**settings), num_ids)


class TestNARM(SessionModelContract):
    tiny: ClassVar[dict[str, Any]] = {"dim": 3, "table_dim": 2}
    learning: ClassVar[dict[str, Any]] = {"dim": 16, "table_dim": 16, "dropout_items": 0.1}
    epochs = 15

    def small(self, num_ids: int = NUM_IDS, **changes: Any) -> NARM:
        return small(num_ids, **changes)


@pytest.mark.parametrize("length", [1, 3, 19])
def test_equals_the_literal_equations(length: int) -> None:
    oracles.equals_the_equations(oracles.ramped(small(max_length=length)), oracles.narm_scores)


def test_a_long_history_is_read_whole() -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small()), num_pieces=1)


PINNED: dict[str, list[float]] = {
    "ce": [2.210085, 2.179649, 2.148977, 2.099625, 2.029935],
    "sampled": [2.277876, 2.230144, 2.194999, 2.134475, 2.032662],
}


@LOSSES
def test_loss_curve(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(loss=loss, negatives=5)
    oracles.fix_draws(model, monkeypatch)
    assert oracles.loss_curve(model) == pytest.approx(PINNED[loss], abs=1e-4)


def test_no_tensor_of_time_by_time_by_dim() -> None:
    # The largest are the three gates of all steps, 3 * 64 * 64; (time, time, dim) would be 262,144.
    assert oracles.largest_tensor(lambda dim: small(dim=dim, table_dim=dim, max_length=64), 64) <= 3 * 64 * 64


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    batch = pad(ragged(2))
    for name in ("dropout_items", "dropout_session"):
        model = oracles.ramped(small(NUM_IDS, **{name: 0.5}))
        assert torch.equal(model(batch).scores, model(batch).scores)
        torch.manual_seed(0)
        first, second = (model.train()(batch).scores for _ in range(2))
        assert not torch.equal(first, second)


def test_number_of_parameters() -> None:
    # Table 10 * 50; GRU 3 * (50 * 100 + 100 * 100 + 2 * 100); A1, A2, v 2 * 100 * 100 + 100; B 50 * 200.
    model = NARM(NARMSettings(), 10)
    assert sum(p.numel() for p in model.parameters()) == 500 + 45_600 + 20_100 + 10_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 0}, "max_length is 0; it must be at least 1"),
        ({"dropout_session": -0.1}, "dropout_session is -0.1; it must be at least 0 and below 1"),
        ({"loss": "bpr"}, "loss 'bpr' is not known; choose from ce, sampled"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        NARMSettings(**changes)
    assert str(error.value) == message
