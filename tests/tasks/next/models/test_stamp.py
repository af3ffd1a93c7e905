"""STAMP against its equations, and the promises of a session model."""

from __future__ import annotations

from typing import Any

import pytest

from ensue import SettingError
from ensue.tasks.next.models.stamp import STAMP
from ensue.tasks.next.settings import STAMP_SCHEDULE, STAMPSettings
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS
from tests.tasks.next.models.contract import LOSSES, SessionModelContract


def small(num_ids: int = NUM_IDS, **changes: Any) -> STAMP:
    return STAMP(STAMPSettings(**{"dim": 5, "negatives": 12, **changes}), num_ids)


class TestSTAMP(SessionModelContract):
    def small(self, num_ids: int = NUM_IDS, **changes: Any) -> STAMP:
        return small(num_ids, **changes)


@pytest.mark.parametrize("length", [1, 3, 50])
def test_equals_the_literal_equations(length: int) -> None:
    oracles.equals_the_equations(oracles.ramped(small(max_length=length)), oracles.stamp_scores)


def test_pieces_give_the_scores_of_the_whole() -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small(max_length=7)), num_pieces=4)


PINNED: dict[str, list[float]] = {
    "ce": [2.207476, 2.198474, 2.19154, 2.184701, 2.176136],
    "sampled": [2.265179, 2.252573, 2.244496, 2.2374, 2.229081],
}


@LOSSES
def test_loss_curve(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(loss=loss, negatives=5)
    oracles.fix_draws(model, monkeypatch)
    assert oracles.loss_curve(model) == pytest.approx(PINNED[loss], abs=1e-4)


def test_no_tensor_of_time_by_time_by_dim() -> None:
    assert oracles.largest_tensor(lambda dim: small(dim=dim, max_length=64), 64) <= 64 * 64


def test_number_of_parameters() -> None:
    # Table 10 * 100; W1, W2, W3 and b 3 * 100 * 100 + 100; W0 100; two cells 2 * (100 * 100 + 100).
    model = STAMP(STAMPSettings(), 10)
    assert sum(p.numel() for p in model.parameters()) == 1000 + 30_100 + 100 + 20_200
    assert STAMP_SCHEDULE.learning_rate == 3e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 0}, "max_length is 0; it must be at least 1"),
        ({"loss": "bpr"}, "loss 'bpr' is not known; choose from ce, sampled"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        STAMPSettings(**changes)
    assert str(error.value) == message
