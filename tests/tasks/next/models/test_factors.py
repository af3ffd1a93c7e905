"""BPR-MF and FPMC against their equations, and the promises of a session model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ensue import SettingError
from ensue.schedule import Schedule
from ensue.tasks.next.models.factors import BPRMF, FPMC
from ensue.tasks.next.settings import FACTORS_SCHEDULE, FPMC_SCHEDULE, BPRMFSettings, FPMCSettings
from tests.oracles import promises
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS, everywhere, pad, ragged

MODELS: dict[str, Any] = {"bpr-mf": BPRMF, "fpmc": FPMC}
SETTINGS: dict[str, Any] = {"bpr-mf": BPRMFSettings, "fpmc": FPMCSettings}
SCORES: dict[str, Any] = {"bpr-mf": oracles.bprmf_scores, "fpmc": oracles.fpmc_scores}
BOTH = pytest.mark.parametrize("name", MODELS)


def small(name: str, num_ids: int = NUM_IDS, **changes: Any) -> Any:
    return MODELS[name](SETTINGS[name](**{"dim": 4, **changes}), num_ids)


@BOTH
@pytest.mark.parametrize("length", [1, 3, 50])
def test_equals_the_literal_equations(name: str, length: int) -> None:
    oracles.equals_the_equations(oracles.ramped(small(name, max_length=length)), SCORES[name])


@BOTH
def test_padding_is_invisible(name: str) -> None:
    promises.hides_padding(oracles.ramped(small(name, max_length=3)))


@BOTH
def test_the_future_changes_nothing_earlier(name: str) -> None:
    promises.knows_no_future(oracles.ramped(small(name, max_length=3)))


@BOTH
def test_pieces_give_the_scores_of_the_whole(name: str) -> None:
    oracles.reads_pieces_as_the_whole(oracles.ramped(small(name, max_length=7)), num_pieces=4)


@BOTH
def test_the_weights_are_distributions_over_what_came_before(name: str) -> None:
    oracles.weighs_what_came_before(oracles.ramped(small(name)))


def test_weights_by_hand() -> None:
    batch = everywhere(pad(ragged(1, [3])))
    (mean,) = small("bpr-mf", max_length=2)(batch).weights
    assert mean.tolist() == [[[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]]
    (both,) = small("fpmc", max_length=2)(batch).weights  # half the mean, half the latest
    assert both.tolist() == [[[1, 0, 0], [0.25, 0.75, 0], [0, 0.25, 0.75]]]


@BOTH
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = oracles.ramped(small(name, 6, dim=2, max_length=3), size=0.5).train()
    oracles.fix_draws(model, monkeypatch)
    oracles.has_exact_gradients(model)


def test_loss_of_fpmc_by_hand() -> None:
    model = oracles.ramped(small("fpmc", negatives=6, regularisation=0.2))
    batch = pad(ragged(8))
    torch.manual_seed(1)
    found = model.loss(batch).item()
    torch.manual_seed(1)
    drawn = model.items.sampler.draw(batch.num_targets, 6).tolist()
    sessions, table = model.encode(batch)[0].detach(), model.items.weight.detach()
    pairs, touched = [], 0.0
    for session, target, negatives in zip(sessions, batch.targets.tolist(), drawn, strict=True):
        for negative in negatives:
            touched += float(table[negative] @ table[negative]) / 6
            if negative != target:
                pairs.append(math.log1p(math.exp(float(session @ table[negative] - session @ table[target]))))
        touched += float(session @ session + table[target] @ table[target])
    assert len(pairs) < 6 * batch.num_targets
    assert found == pytest.approx(sum(pairs) / len(pairs) + 0.1 * touched / batch.num_targets, abs=1e-10)


@BOTH
def test_learns_a_planted_pattern(name: str) -> None:
    schedule = Schedule(epochs=30, batch_size=8, learning_rate=0.02, weight_decay=0.0)
    crowd = name == "bpr-mf"  # products of one table cannot tell before from after
    found = oracles.hits(lambda num_ids: small(name, num_ids, dim=16), schedule, crowd=crowd)
    assert found >= 0.95


PINNED: dict[str, list[float]] = {
    "bpr-mf": [0.679747, 0.67029, 0.660324, 0.649901, 0.63906],
    "fpmc": [0.662572, 0.640369, 0.617406, 0.593824, 0.569789],
}


@BOTH
def test_loss_curve(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(name)
    oracles.fix_draws(model, monkeypatch)
    assert oracles.loss_curve(model) == pytest.approx(PINNED[name], abs=1e-4)


@BOTH
def test_half_precision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(name)
    oracles.fix_draws(model, monkeypatch)
    oracles.survives_half_precision(model)


@BOTH
def test_growing_changes_no_old_score(name: str) -> None:
    oracles.grows(oracles.ramped(small(name)))


@BOTH
def test_no_tensor_of_time_by_time_by_dim(name: str) -> None:
    assert oracles.largest_tensor(lambda dim: small(name, dim=dim), 64) <= 2 * 64 * 64


def test_sizes() -> None:
    count = {name: sum(p.numel() for p in MODELS[name](SETTINGS[name](), 10).parameters()) for name in MODELS}
    assert count == {"bpr-mf": 10 * 100, "fpmc": 10 * (64 + 32)}
    assert (FACTORS_SCHEDULE.learning_rate, FPMC_SCHEDULE.learning_rate, FPMC_SCHEDULE.monitor) == (0.001, 0.01, "mrr")


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        (BPRMFSettings, {"dim": 0}, "dim is 0; it must be at least 1"),
        (FPMCSettings, {"negatives": 0}, "negatives is 0; it must be at least 1"),
        (FPMCSettings, {"regularisation": -1.0}, "regularisation is -1.0; it must be 0 or more"),
    ],
)
def test_refused_settings(settings: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        settings(**changes)
    assert str(error.value) == message
