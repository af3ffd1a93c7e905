"""A trained predictor goes on: growing, learning online, replaying."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.learning.state import module_of
from ensue.tasks.next import update
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.optimizer import optimizer_tensors
from tests.tasks.next.contract import network_of

SMALL = {"dim": 8, "epochs": 1, "batch_size": 8}
TRAINED = sorted(name for name, (_, _, schedule) in MODELS.items() if schedule is not None)
NEW = ["new", "newer", "newest"]


def circles(num: int, seed: int, *, step: int = 1, length: int = 5) -> list[History]:
    """Walks around a circle of ten values, all by the same step."""
    starts = np.random.default_rng(seed).integers(0, 10, num)
    return [History(tuple(f"a{(start + step * t) % 10}" for t in range(length))) for start in starts.tolist()]


def fitted(model: str = "sansr", num: int = 40, **settings: object) -> NextPredictor:
    made = NextPredictor(model, settings={**SMALL, "refit": False, **settings}, seed=5, device="cpu")
    for _ in made.fit(Histories.of(circles(num, 0)), Histories.of(circles(4, 1))):
        pass
    return made


def encoded(predictor: NextPredictor, records: list[History]) -> Histories:
    return Histories.of(records, predictor.vocabulary)


def state(predictor: NextPredictor, folder: Path) -> dict[str, bytes]:
    predictor.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def moments_of(predictor: NextPredictor) -> dict[str, torch.Tensor]:
    assert predictor.optimizer is not None
    return optimizer_tensors(network_of(predictor), predictor.optimizer)


def same(one: NextPredictor, other: NextPredictor, place: Path) -> bool:
    return state(one, place / "one") == state(other, place / "other")


@pytest.mark.parametrize("model", TRAINED)
def test_growth_is_what_the_networks_own_grow_makes_of_it(model: str) -> None:
    """Old rows stay bit for bit; biases start at the lowest; moments of old rows stay, those of new ones are 0."""
    made = fitted(model)
    old = len(made.vocabulary)
    grown = module_of(made.network.grow(old + 3)).state_dict()
    moments = {name: t.clone() for name, t in moments_of(made).items()}
    network, optimizer = made.network, made.optimizer
    made.add_values([*NEW, "a1"])
    assert list(made.vocabulary.values)[-3:] == NEW and len(made.vocabulary) == old + 3
    assert made.network is network and made.optimizer is optimizer, "nothing is made anew"
    for name, tensor in module_of(made.network).state_dict().items():
        assert tensor.shape == grown[name].shape, name
        assert torch.equal(tensor[:old], grown[name][:old]) or name.endswith("sampler.totals"), name
        if tensor.dim() == 1 and "sampler" not in name:
            assert torch.equal(tensor, grown[name]), name
    for name, tensor in moments_of(made).items():
        before = moments[name]
        assert torch.equal(tensor[: len(before)] if before.dim() else tensor, before), name
        assert not before.dim() or not tensor[len(before) :].any(), name


@pytest.mark.parametrize("model", ["sansr", "hidan", "gru4rec"])
def test_what_a_new_id_starts_from_does_not_depend_on_when_it_came(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "BLOCK", 8)  # several blocks, the borders among them
    made = [fitted(model) for _ in range(3)]
    values = [f"new{number}" for number in range(20)]
    made[0].add_values(values)
    for value in values:
        made[1].add_values([value])
    made[2].add_values(values[:5])
    made[2].save(tmp_path / "between")
    loaded = NextPredictor.load(tmp_path / "between", device="cpu")
    loaded.add_values(values)
    assert same(made[0], made[1], tmp_path) and same(made[0], loaded, tmp_path)
    table = network_of(made[0]).users if model == "hidan" else network_of(made[0]).items
    rows = table.weight[-20:].detach()
    assert len(torch.unique(rows, dim=0)) == 20 and 0.01 < float(rows.std()) < 1


def test_a_table_that_has_room_grows_where_it_stands() -> None:
    made = fitted()
    made.add_values(f"x{number}" for number in range(800))
    place = network_of(made).items.weight.data_ptr()
    for number in range(90):  # an eighth of 812 rows was spare
        made.add_values([f"y{number}"])
    assert network_of(made).items.weight.data_ptr() == place
    assert network_of(made).items.num_embeddings == len(network_of(made).items.weight) == len(made.vocabulary)


def test_learning_with_nothing_fresh_changes_nothing(tmp_path: Path) -> None:
    made, data = fitted(), circles(9, 2)
    before = state(made, tmp_path / "before")
    assert made.learn(encoded(made, data), np.full(9, 5)) == 0.0
    assert made.learn(encoded(made, [History(("a1",)), History(())])) == 0.0
    assert state(made, tmp_path / "after") == before


def test_learning_takes_the_fresh_events_alone_as_targets() -> None:
    """The loss that comes back is that of the fresh targets, here from the scores of the state before."""
    made = fitted(dropout=0.0, loss="ce", batch_size=100)
    data = encoded(made, circles(9, 2))
    known = np.array([0, 1, 2, 3, 4, 5, 0, 4, 2])
    expected = []
    for row, record in enumerate(data.records()):
        for place in range(max(1, known[row]), len(record.values)):
            (answer,) = made.predict(
                [History(record.values[:place])], 99, evidence=False, exclude_seen=False
            )  # a loss is over all
            expected.append(-np.log({c.value: c.score for c in answer.choices}[record.values[place]]))
    assert len(expected) == 4 + 4 + 3 + 2 + 1 + 0 + 4 + 1 + 3
    assert made.learn(data, known) == pytest.approx(np.mean(expected), abs=1e-5)


@pytest.mark.parametrize("model", ["sansr", "hidan", "gru4rec"])
def test_the_state_is_complete(model: str, tmp_path: Path) -> None:
    """Learning goes on after a round trip through a folder as without it, byte for byte, growth in between."""
    made = fitted(model)
    made.learn(encoded(made, circles(20, 2)))
    made.save(tmp_path / "m")
    loaded = NextPredictor.load(tmp_path / "m", device="cpu")
    more = [*circles(20, 3), History(("a1", "new", "a2"))]
    for each in (made, loaded):
        each.add_values(NEW)
        each.learn(encoded(each, more), np.arange(21) % 3)
        update.count(each, encoded(each, more))
        each.update(Histories.of(circles(5, 4)))
    assert made.metadata.steps == 3 + 3  # 20 and 21 histories in batches of 8
    assert same(made, loaded, tmp_path)


def test_each_call_draws_anew() -> None:
    """The seed goes with the number of the step: dropout and negatives differ from call to call."""
    made = fitted(dropout=0.5)
    data = encoded(made, circles(8, 2))
    weights = module_of(made.network).state_dict()
    kept = {name: tensor.clone() for name, tensor in weights.items()}
    losses = set()
    for _ in range(3):
        losses.add(made.learn(data))
        network_of(made).load_state_dict(kept)
    assert len(losses) == 3


def test_learning_online_learns() -> None:
    made = fitted(learning_rate=0.02)
    made.add_values(NEW)
    data = encoded(made, [History(("a1", "new"))] * 16)
    losses = [made.learn(data) for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]
    assert made.predict([History(("a1",))], 1)[0].choices[0].value == "new"


def test_a_loss_that_is_no_number_is_said() -> None:
    made = fitted()
    with torch.no_grad():
        network_of(made).items.weight[3:] = torch.nan
    with pytest.raises(SettingError, match="the loss became nan"):
        made.learn(encoded(made, circles(8, 2)))


def test_counting_models_take_no_steps_and_are_counted() -> None:
    made = NextPredictor("markov", device="cpu")
    for _ in made.fit(Histories.of([History(("a", "b"))] * 3)):
        pass
    made.add_values(["c"])
    data = encoded(made, [History(("a", "c"))] * 5)
    assert made.learn(data) == 0.0
    assert made.predict([History(("a",))], 1)[0].choices[0].value == "b"
    update.count(made, data)
    assert made.predict([History(("a",))], 1)[0].choices[0].value == "c"
    assert len(made.reservoir) == 0


def test_the_ranks_of_fresh_events_are_those_among_all_ranks() -> None:
    made = fitted()
    data = encoded(made, [*circles(9, 2), History(("a1",)), History(())])
    rank, sequence, event = made.ranks(data)
    assert (data.sequence_index()[event] == sequence).all()
    assert sorted(event.tolist()) == [place for place in range(45) if place % 5]
    known = np.array([0, 1, 2, 3, 4, 5, 0, 4, 2, 1, 0])
    whole = dict(zip(event.tolist(), rank.tolist(), strict=True))
    some, owners, fresh = made.ranks(data, context=known)
    assert dict(zip(fresh.tolist(), some.tolist(), strict=True)) == {
        place: whole[place] for place in whole if place % 5 >= known[place // 5]
    }
    assert (owners == fresh // 5).all()


def hits(predictor: NextPredictor, records: list[History]) -> float:
    """How often the first choice after three events is the fourth."""
    asked = [History(record.values[:3]) for record in records]
    found = predictor.predict(asked, 1, evidence=False)
    return float(np.mean([a.choices[0].value == r.values[3] for a, r in zip(found, records, strict=True)]))


def test_replay_keeps_what_was_learned_before() -> None:
    """One way around the circle is learned, then only the other way comes: without replay the first is forgotten."""
    later = Histories.of(circles(60, 2, step=3))
    old, new = circles(40, 3), circles(40, 3, step=3)
    kept = {}
    for replay in (0, 100):
        made = fitted(num=100, replay=replay, epochs=12, learning_rate=0.02, loss="ce", dropout=0.0, dim=16)
        assert hits(made, old) == 1.0 and len(made.reservoir) == replay
        for _ in range(10):
            made.update(later)
        assert hits(made, new) == 1.0
        kept[replay] = hits(made, old)
    assert kept[100] - kept[0] >= 0.5, kept  # measured: 0.78 to 0.88 beside 0


def test_as_many_old_histories_as_new_ones_are_replayed_and_the_new_ones_remembered() -> None:
    made = fitted(num=40)
    reports = list(update.passes(made, Histories.of([History(("a1", "new"))] * 12)))
    assert reports[-1].stopped and reports[0].steps == 3  # 12 + 12 in batches of 8
    assert len(made.reservoir) == 52 and made.reservoir.num_seen == 52
    few = made.reservoir.part(50, 0)[1]
    assert next(update.passes(made, Histories.of(circles(30, 1)), few)).steps == 4  # 30 + 2
    assert made.metadata.updates == 2 and made.metadata.values == 11
