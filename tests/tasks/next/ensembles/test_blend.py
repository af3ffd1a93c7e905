"""Blend: the sum of its parts, with a weight that the held-out part chose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ensue import History, SettingError
from ensue.data.histories import Histories, Index
from ensue.learning import life
from ensue.tasks.next.batch import (
    Batch,
    PaddedBatch,
)
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles import blend_counts
from ensue.tasks.next.ensembles.blend import NEIGHBOUR_WEIGHTS, PRIOR, SPREAD, Blend
from ensue.tasks.next.ensembles.blend_counts import FLOOR, REPEATS, STEP_FLOOR
from ensue.tasks.next.ensembles.memory import BlendMemory
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.settings import BlendSettings
from ensue.topk import Scores
from ensue.vocabulary import FIRST, Vocabulary
from tests.tasks.next.batches import scored
from tests.tasks.next.contract import network_of

VALUES = "abcdef"
NETWORK, NEIGHBOURS, FOLLOWERS, INTERPOLATED = range(4)
"""Indices in the weights of the parts; those of repeats come after them."""
PAST = [History(tuple(text)) for text in ("abc", "abd", "cab", "fed", "abc")]


def blend(weight: float) -> tuple[Blend, Vocabulary]:
    torch.manual_seed(1)
    vocabulary = Vocabulary(VALUES)
    made = Blend(BlendSettings(dim=8, neighbours=3), len(vocabulary)).eval()
    made.memory.sessions.count(Histories.of(PAST, vocabulary))
    made.part_weights[NEIGHBOURS] = weight
    return made, vocabulary


def _neighbour_shares(model: Blend, batch: Batch) -> torch.Tensor:
    """What the neighbours hold, without popularity."""
    sessions = model.memory.sessions
    popularity = torch.from_numpy(sessions.settings.popularity * sessions.shares())
    return scored(sessions, batch.arrays()).scores.exp() - popularity


def test_adds_the_logarithm_of_the_neighbours_share() -> None:
    model, vocabulary = blend(0.7)
    windows = Windows(Histories.of([History(("a", "b", "e", "d"))], vocabulary), model.reach)
    batch = windows.batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        scores = model(batch).scores
        own = model.network(batch).scores
        shares = _neighbour_shares(model, batch)
    torch.testing.assert_close(shares.sum(1), torch.ones(len(shares)))
    torch.testing.assert_close(scores[:, FIRST:], own[:, FIRST:] + 0.7 * (1 + shares[:, FIRST:] / FLOOR).log())
    assert bool(scores[:, :FIRST].isneginf().all())


def test_adds_the_logarithm_of_the_followers_share() -> None:
    model, vocabulary = blend(0.0)
    model.memory.following.count(Histories.of(PAST, vocabulary))
    model.part_weights[FOLLOWERS] = 1.5
    batch = Windows(Histories.of([History(("a", "b", "e"))], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        (scores, (weights,)), (own, (heard,)) = model(batch), model.network(batch)
    # After a came b four times of four; after b came c twice and d once.
    for row, shares in enumerate(({"b": 1.0}, {"c": 2 / 3, "d": 1 / 3})):
        for value in VALUES:
            at = vocabulary.id(value)
            gained = 1.5 * np.log(1 + shares.get(value, 0.0) / STEP_FLOOR)
            assert float(scores[row, at] - own[row, at]) == pytest.approx(gained, abs=1e-5)
    # The event it followed has all of the third part.
    torch.testing.assert_close(weights[0, 1], (heard[0, 1] + torch.tensor([0.0, 1.5])) / 2.5)


def test_candidates_lean_towards_what_was_held_beside_them() -> None:
    model, vocabulary = blend(0.0)
    model.lean.fill_(1.5)
    model.remember(Histories.of([History(("a", "f", "a"))], vocabulary))
    own = torch.nn.functional.normalize(model.network.items.weight.detach(), dim=1)
    sessions = [*(set(record.values) for record in PAST), {"a", "f"}]
    expected = own.clone()
    for value in VALUES:
        id = vocabulary.id(value)
        others = [own[vocabulary.id(other)] for held in sessions if value in held for other in held - {value}]
        leaning = own[id] + 1.5 * torch.stack(others).mean(0)
        expected[id] = leaning / leaning.norm()
    with torch.no_grad():
        found, plain = model.table(), model.network.table()
    torch.testing.assert_close(found[:, :8], expected / model.settings.temperature)
    assert torch.equal(found[:, 8:], plain[:, 8:])


def test_the_table_follows_what_is_learned() -> None:
    model, vocabulary = blend(0.0)
    model.lean.fill_(1.0)
    model.remember(Histories.of(PAST, vocabulary))
    with torch.no_grad():
        first = model.table()
        assert model.table() is first
        model.train()
        model.network.items.weight.data[FIRST] *= -1  # as an optimiser's step does, without a trace
        model.eval()
        second = model.table()
        model.lean.fill_(2.0)
        third = model.table()
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


def test_without_a_weight_it_is_the_network() -> None:
    model, vocabulary = blend(0.0)
    batch = Windows(Histories.of([History(("a", "b", "e"))], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        torch.testing.assert_close(model(batch).scores, model.network(batch).scores, rtol=1e-5, atol=1e-5)


def test_heeded_events_are_shares_of_both_parts() -> None:
    model, vocabulary = blend(1.0)
    batch = Windows(Histories.of([History(("a", "b", "e"))], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        (weights,), (own,) = model(batch).weights, model.network(batch).weights
        (heard,) = scored(model.memory.sessions, batch.arrays()).weights
    torch.testing.assert_close(weights[0, 1], (own[0, 1] + heard[0, 1]) / 2)


def test_adds_a_number_by_how_far_back_an_item_stands() -> None:
    model, vocabulary = blend(0.0)
    model.part_weights[INTERPOLATED + 1 :] = torch.tensor([0.5, -1.0, 2.0, 3.0, 4.0, 0.0, 0.0])
    record = History(("a", "b", "a", "c", "d", "e", "a", "f"))
    batch = Windows(Histories.of([record], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        scores, own = model(batch).scores, model.network(batch).scores
    # After a b a: a at 1, b at 2. After a b a c d e: e at 1, d at 2, c at 3, a at 4, b at 5 (4 and 5 are one class).
    for row, gains in {2: {"a": 0.5, "b": -1.0}, 5: {"e": 0.5, "d": -1.0, "c": 2.0, "a": 3.0, "b": 3.0}}.items():
        expected = torch.tensor([gains.get(value, 0.0) for value in VALUES])
        torch.testing.assert_close(scores[row, FIRST:] - own[row, FIRST:], expected, atol=1e-5, rtol=0)


def test_interpolated_counts_are_one_of_its_parts() -> None:
    model, vocabulary = blend(0.0)
    model.memory.interpolated.count(Histories.of(PAST, vocabulary))
    model.part_weights[INTERPOLATED] = 1.0
    batch = Windows(Histories.of([History(("a", "b", "e"))], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        (scores, (weights,)), (own, (heard,)) = model(batch), model.network(batch)
        counted, (counted_heard,) = scored(model.memory.interpolated, batch.arrays())
        torch.testing.assert_close(scores.log_softmax(1), (own + counted).log_softmax(1))
        both = heard + counted_heard
        torch.testing.assert_close(weights[0, :2], (both / both.sum(-1, keepdim=True))[0, :2])
        model.part_weights[NETWORK] = 1e-9
        torch.testing.assert_close(model(batch).scores.log_softmax(1), counted.log_softmax(1))  # the floor itself
    assert bool(scores[:, :FIRST].isneginf().all())


def test_what_never_came_has_a_place() -> None:
    model, vocabulary = blend(0.0)
    model.part_weights[INTERPOLATED] = 1.0
    model.memory.interpolated.count(Histories.of([History(("a", "b", "a"))] * 3, vocabulary))
    batch = Windows(Histories.of([History(("a", "b", "e"))], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    with torch.no_grad():
        assert bool(model(batch).scores[:, FIRST:].isfinite().all())


def test_the_network_has_its_own_number() -> None:
    model, vocabulary = blend(0.0)
    batch = Windows(Histories.of([History(("a", "b", "e"))], vocabulary), model.reach).batch(np.arange(1)).to("cpu")
    model.part_weights[NETWORK] = 0.3
    with torch.no_grad():
        torch.testing.assert_close(model(batch).scores[:, FIRST:], 0.3 * model.network(batch).scores[:, FIRST:])


def test_the_numbers_are_the_likeliest_on_the_held_out_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.tasks.next.ensembles.blend.MIN_TARGETS", 0)
    model, vocabulary = blend(0.0)
    held = Histories.of([History(tuple(text)) for text in ("abcab", "baacd", "feda", "abdda", "cabcb")], vocabulary)
    model.finish(Histories.of([*PAST, History(("a", "a"))], vocabulary), held, None)  # a repeat: nothing is ruled out
    assert float(model.lean) in NEIGHBOUR_WEIGHTS
    windows = Windows(held, model.reach)
    batch = windows.batch(np.arange(len(windows))).to("cpu")
    numbers = model.part_weights.clone()

    def chance(numbers: torch.Tensor) -> float:
        model.part_weights.copy_(numbers)
        with torch.no_grad():
            scores = model(batch).scores.double()
        prior = ((numbers - torch.tensor(PRIOR)) / SPREAD).square().sum() / 2
        return float(scores.log_softmax(1).gather(1, batch.targets[:, None]).sum() - prior)

    best = chance(numbers)
    assert best > chance(torch.tensor(PRIOR))
    for place in range(4 + len(REPEATS)):
        for change in (-0.05, 0.05):
            other = numbers.clone()
            other[place] += change
            if place >= 4 or other[place] > 0.02:
                assert chance(other) < best, (place, change)


def test_what_is_ruled_out_is_no_candidate() -> None:
    """Where no session holds an item twice, none of a session's own items is looked at."""
    model, vocabulary = blend(0.0)
    model.finish(
        Histories.of(PAST, vocabulary), Histories.of([History(tuple("abcd")), History(tuple("fed"))], vocabulary), None
    )
    assert model.part_weights[-len(REPEATS) :].tolist() == [0.0] * len(REPEATS)


def test_the_second_training_keeps_the_weight_and_remembers_everything() -> None:
    random = np.random.default_rng(0)
    data = [History(tuple(f"v{(start + step) % 30}" for step in range(3))) for start in random.integers(0, 30, 200)]
    made = NextPredictor("blend", settings={"dim": 8, "epochs": 1}, seed=0, device="cpu")
    for _ in made.fit(Histories.of(data)):
        pass
    alone = NextPredictor("blend", settings={"dim": 8, "epochs": 1, "refit": False}, seed=0, device="cpu")
    for _ in alone.fit(Histories.of(data)):
        pass
    for name in ("part_weights", "lean"):
        assert torch.equal(getattr(network_of(made), name), getattr(network_of(alone), name))
    assert float(network_of(made).part_weights[NEIGHBOURS]) > 0
    assert float(network_of(made).memory.sessions.totals.sum()) == 600
    assert float(network_of(made).memory.following.totals.sum()) == 600
    assert float(network_of(made).memory.following.counts.sum()) == 400


def test_update_reaches_the_memory() -> None:
    made = NextPredictor("blend", settings={"dim": 8, "epochs": 1}, seed=0, device="cpu")
    for _ in made.fit(Histories.of(PAST * 4)):
        pass
    before = network_of(made).memory.sessions.num_sessions
    made.update(Histories.of([History(("a", "new")), History(("b", "new", "a"))]))
    assert network_of(made).memory.sessions.num_sessions == before + 2
    (new,) = made.vocabulary.ids(["new"])
    assert float(network_of(made).memory.sessions.totals[new]) == 2
    first, last = network_of(made).memory.following.rows[new : new + 2].tolist()
    assert network_of(made).memory.following.columns[first:last].tolist() == [made.vocabulary.id("a")]


def test_settings_that_cannot_be() -> None:
    with pytest.raises(SettingError, match="neighbours is 0"):
        BlendSettings(neighbours=0)
    with pytest.raises(SettingError, match="dim is 0"):
        BlendSettings(dim=0)


def pairs_of(seed: int, num: int) -> list[History]:
    """Two events, either of 20 values, drawn apart: nothing follows from anything."""
    drawn = np.random.default_rng(seed).integers(0, 20, (num, 2))
    return [History((f"v{first}", f"v{second}")) for first, second in drawn]


def test_a_network_that_adds_nothing_is_left_out() -> None:
    torch.manual_seed(1)
    learned = Histories.of(pairs_of(0, 400))
    model = Blend(BlendSettings(dim=8, neighbours=3), len(learned.vocabulary)).eval()
    model.finish(learned, Histories.of(pairs_of(1, 40), learned.vocabulary), None)
    assert model.idle and float(model.part_weights[NETWORK]) == 0
    batch = Windows(learned, model.reach).batch(np.arange(3)).to("cpu")
    with torch.no_grad():
        before = model(batch).scores
        model.network.items.weight.mul_(-1)
        torch.testing.assert_close(model(batch).scores, before)
    assert bool(before[:, :FIRST].isneginf().all()) and bool(before[:, FIRST:].isfinite().all())


def test_a_network_that_alone_knows_what_comes_stays() -> None:
    torch.manual_seed(1)
    learned = Histories.of(pairs_of(0, 400))
    model = Blend(BlendSettings(dim=8, neighbours=3), len(learned.vocabulary)).eval()
    with torch.no_grad():  # v0 and v1 alike, v2 and v3, ...
        for number in range(0, 20, 2):
            first, second = learned.vocabulary.ids([f"v{number}", f"v{number + 1}"]).tolist()
            model.network.items.weight[first] = model.network.items.weight[second]
    twins = Histories.of([History((f"v{number}", f"v{number ^ 1}")) for number in range(20)], learned.vocabulary)
    model.finish(learned, twins, None)
    assert not model.idle and float(model.part_weights[NETWORK]) > 0


def test_a_training_ends_early_where_the_network_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "MIN_STEPS", 5)
    settings = {"dim": 8, "min_steps": 20}
    made = NextPredictor("blend", settings=settings, seed=0, device="cpu")
    reports = list(made.fit(Histories.of(pairs_of(0, 300))))
    first = [report for report in reports if report.stage == "fit"]
    checks = [report for report in first if report.valid is not None]
    assert len(checks) < checks[-1].epochs and len(first) < 40
    assert checks[-1].note == "" and first[-1].note.startswith(f"stopped after epoch {checks[-1].epoch} of at most")
    assert {report.stage for report in reports} == {"fit"}  # weights that count for nothing are not trained on
    assert "left out" in made.metadata.ended
    assert float(network_of(made).part_weights[NETWORK]) == 0


def test_chances_are_those_of_the_whole_catalogue() -> None:
    """Of 300 values one follows another three times in four; with other numbers held-out targets are less likely."""
    random = np.random.default_rng(0)
    walks = []
    for start in random.integers(0, 300, 900):
        walks.append(History((f"v{start}", f"v{start ^ 1 if random.random() < 0.75 else random.integers(0, 300)}")))
    learned = Histories.of(walks[:800])
    torch.manual_seed(1)
    model = Blend(BlendSettings(dim=8, neighbours=3), len(learned.vocabulary)).eval()
    held = Histories.of(walks[800:]).encode(learned.vocabulary, drop_unknown=True)
    model.finish(learned, held, None)
    windows = Windows(held, model.reach)
    batch = windows.batch(np.arange(len(windows))).to("cpu")
    with torch.no_grad():
        scores = model(batch).scores
    found = [float((power * scores).log_softmax(1).gather(1, batch.targets[:, None]).sum()) for power in (0.8, 1, 1.25)]
    assert found[1] == max(found)


def test_a_second_network_finds_the_held_out_targets_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials of a network during its training choose the same numbers as one that counts for itself."""
    walks = [History(tuple(np.random.default_rng(row).permutation(list(VALUES))[:4].tolist())) for row in range(120)]
    learned = Histories.of(walks[:80])
    held = Histories.of(walks[80:]).encode(learned.vocabulary)
    counted: list[PaddedBatch] = []
    recalled = blend_counts.recalled

    def counting(memory: BlendMemory, batch: PaddedBatch) -> tuple[Index, Scores, Scores]:
        counted.append(batch)
        return recalled(memory, batch)

    monkeypatch.setattr(blend_counts, "recalled", counting)
    made = []
    calls = []
    for seed, others in ((1, held), (2, held), (2, Histories.of(walks[80:]).encode(learned.vocabulary))):
        counted.clear()
        torch.manual_seed(seed)
        made.append(Blend(BlendSettings(dim=8, neighbours=3), len(learned.vocabulary)).eval())
        made[-1].finish(learned, others, None)
        calls.append(len(counted))
    assert calls[1] < calls[2]
    assert made[1].members == made[2].members
    made[1].remember(held)
    made[1].finish(learned, held, None)
    assert made[1].members == made[2].members


def test_where_little_is_held_out_counts_are_weighed_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All learned sessions come back to what was two before; the few held-out ones end before they could."""
    monkeypatch.setattr("ensue.tasks.next.ensembles.blend.LIKELIHOOD_RATIO", float("inf"))
    random = np.random.default_rng(0)
    pairs = [(f"v{first}", f"v{second}") for first, second in random.integers(0, 30, (205, 2)) if first != second]
    learned = Histories.of([History((*pair, pair[0])) for pair in pairs[:190]])
    torch.manual_seed(1)
    model = Blend(BlendSettings(dim=8, neighbours=3), len(learned.vocabulary)).eval()
    model.finish(learned, Histories.of([History(pair) for pair in pairs[190:]], learned.vocabulary), None)
    assert model.idle and float(model.part_weights[INTERPOLATED + 2]) > 1
