"""GRU4Rec against its equations, and the promises of a session model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ensue import SettingError
from ensue.schedule import Schedule
from ensue.tasks.next.models.gru4rec import GRU4Rec, bpr_max
from ensue.tasks.next.settings import GRU4RecSettings
from ensue.vocabulary import FIRST
from tests.oracles import promises
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS, everywhere, pad, ragged

LOSSES = pytest.mark.parametrize("loss", ["bpr-max", "ce"])


def small(num_ids: int = NUM_IDS, **changes: Any) -> GRU4Rec:
    settings = {"dim": 4, "negatives": 12, "dropout_items": 0.0, "dropout_state": 0.0, **changes}
    return GRU4Rec(GRU4RecSettings(**settings), num_ids)


def test_equals_the_literal_equations() -> None:
    oracles.equals_the_equations(oracles.ramped(small()), oracles.gru4rec_scores)


def test_padding_is_invisible() -> None:
    promises.hides_padding(oracles.ramped(small()))


def test_the_future_changes_nothing_earlier() -> None:
    promises.knows_no_future(oracles.ramped(small()))


def test_a_long_history_is_read_whole() -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small()), num_pieces=1)


def test_the_weight_lies_on_the_latest_click() -> None:
    oracles.weighs_what_came_before(oracles.ramped(small()))
    batch = everywhere(pad(ragged(6)))
    (weights,) = small()(batch).weights
    assert (weights.diagonal(dim1=1, dim2=2) == batch.mask).all()


@pytest.mark.parametrize("regularisation", [0.0, 0.9])
def test_bpr_max_equals_the_literal_equation(regularisation: float) -> None:
    torch.manual_seed(2)
    target, others = torch.randn(7, 1).double(), 2 * torch.randn(7, 5).double()
    hidden = torch.rand(7, 5) < 0.3
    hidden[0] = torch.tensor([False, True, True, True, True])
    expected = [
        oracles.bpr_max_loss(float(target[row]), others[row][~hidden[row]].tolist(), regularisation) for row in range(7)
    ]
    found = bpr_max(target, others, hidden, regularisation).item()
    assert found == pytest.approx(sum(expected) / 7, abs=1e-12)


def test_a_negative_that_is_the_target_does_not_count() -> None:
    target, others = torch.randn(3, 1), torch.randn(3, 4)
    hidden = torch.zeros(3, 4, dtype=torch.bool)
    hidden[:, 1] = True
    changed = others.clone()
    changed[:, 1] = 1e4
    assert torch.equal(bpr_max(target, others, hidden, 0.9), bpr_max(target, changed, hidden, 0.9))


@pytest.mark.parametrize("logq", [0.0, 0.5, 1.0])
def test_sampled_cross_entropy_by_hand(logq: float) -> None:
    model = oracles.ramped(small(loss="ce", logq=logq, power=0.5)).train()
    model.items.sampler.count(torch.arange(float(NUM_IDS)))
    batch = pad(ragged(8))
    torch.manual_seed(1)
    found = model.loss(batch).item()
    torch.manual_seed(1)
    drawn = model.items.sampler.draw(12).tolist()
    counts = [math.sqrt(id) if id >= FIRST else 0.0 for id in range(NUM_IDS)]
    scores, total = model(batch).scores.tolist(), 0.0
    for row, target in zip(scores, batch.targets.tolist(), strict=True):
        others = [id for id in drawn if id != target]
        corrected = [row[id] - logq * math.log(12 * counts[id] / sum(counts)) for id in others]
        total += math.log(sum(math.exp(score) for score in [row[target], *corrected])) - row[target]
    assert found == pytest.approx(total / batch.num_targets, abs=1e-6)  # shares are float32


def test_cross_entropy_outside_training_is_over_all_items() -> None:
    oracles.loss_is_cross_entropy(oracles.ramped(small(loss="ce")))


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_negatives_are_drawn_by_count_to_the_power(power: float) -> None:
    sampler = small(6, power=power).items.sampler
    sampler.count(torch.tensor([9.0, 9.0, 1.0, 4.0, 0.0, 2.0]))
    weights = [0.0, 0.0, 1.0, 4.0**power, 1.0, 2.0**power]
    assert sampler.shares().tolist() == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-6)


@LOSSES
def test_a_catalogue_of_one_is_no_loss(loss: str) -> None:
    model = small(FIRST + 1, loss=loss)
    found = model.loss(pad([([FIRST] * 3, [0.0] * 3)]))
    torch.autograd.backward(found)
    assert found.item() == 0 and all(p.grad is not None and not p.grad.any() for p in model.parameters())


@LOSSES
def test_gradients(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = oracles.ramped(small(6, dim=2, loss=loss, logq=1.0), size=0.5).train()
    oracles.fix_draws(model, monkeypatch)
    oracles.has_exact_gradients(model)


@LOSSES
def test_learns_a_planted_pattern(loss: str) -> None:
    schedule = Schedule(epochs=15, batch_size=8, learning_rate=0.02, weight_decay=0.0)
    assert oracles.hits(lambda num_ids: small(num_ids, dim=16, loss=loss, dropout_items=0.1), schedule) >= 0.95


PINNED: dict[str, list[float]] = {
    "bpr-max": [0.8609, 0.80047, 0.760513, 0.731121, 0.707864],
    "ce": [2.622396, 2.555624, 2.493174, 2.434528, 2.378782],
}


@LOSSES
def test_loss_curve(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(loss=loss)
    oracles.fix_draws(model, monkeypatch)
    assert oracles.loss_curve(model) == pytest.approx(PINNED[loss], abs=1e-4)


@LOSSES
def test_half_precision(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(loss=loss)
    oracles.fix_draws(model, monkeypatch)
    oracles.survives_half_precision(model)


def test_growing_changes_no_old_score() -> None:
    model = oracles.ramped(small())
    oracles.grows(model)
    assert torch.equal(model.grow(NUM_IDS + 2).bias[NUM_IDS:], model.bias[FIRST:].min().expand(2))


def test_no_tensor_of_time_by_time_by_dim() -> None:
    # The largest are the three gates of all steps, 3 * 64 * 64; (time, time, dim) would be 262,144.
    assert oracles.largest_tensor(lambda dim: small(dim=dim), 64) <= 3 * 64 * 64


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    batch = pad(ragged(2))
    for name in ("dropout_items", "dropout_state"):
        model = oracles.ramped(small(NUM_IDS, **{name: 0.5}))
        assert torch.equal(model(batch).scores, model(batch).scores)
        torch.manual_seed(0)
        first, second = (model.train()(batch).scores for _ in range(2))
        assert not torch.equal(first, second)


def test_number_of_parameters() -> None:
    # A table and its bias, 10 * 513; a GRU, 3 gates of 512 * 512 from the click and from the state, and two biases.
    model = GRU4Rec(GRU4RecSettings(), 10)
    assert sum(p.numel() for p in model.parameters()) == 10 * 513 + 3 * (2 * 512 * 512 + 2 * 512)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim is 0; it must be at least 1"),
        ({"dropout_state": 1.0}, "dropout_state is 1.0; it must be at least 0 and below 1"),
        ({"logq": -1.0}, "logq is -1.0; it must be 0 or more"),
        ({"loss": "top1"}, "loss 'top1' is not known; choose from bpr-max, ce"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        GRU4RecSettings(**changes)
    assert str(error.value) == message
