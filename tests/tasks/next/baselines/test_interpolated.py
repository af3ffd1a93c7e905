"""Interpolated counts: the literal formula, numbers that are the likeliest, a fast count, and what blends read."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from ensue import History
from ensue.data.histories import Histories
from ensue.metrics import Floats
from ensue.tasks.next.baselines.counting import Cooccurrence
from ensue.tasks.next.baselines.interpolated import (
    GAP,
    MIN_NOVEL_SHARE,
    PAST,
    PULL,
    Interpolated,
    Numbers,
    Observed,
    _numbers,
)
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import CountingSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.tasks.next.batches import scored

NUMBERS = (0.6, 0.4, 0.5, 0.3, 1.5, 0.7, 0.01)


def random_data(seed: int, num: int = 40, values: int = 15, *, timed: bool = True) -> Histories:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 30, num)
    ids = (random.integers(0, values, lengths.sum()) ** 2 // values + FIRST).astype(np.int32)
    offsets = np.concatenate([[0], lengths.cumsum()])
    times = np.cumsum(random.exponential(20, len(ids))) if timed else np.empty(0)
    return Histories(ids, offsets, Vocabulary(map(str, range(values))), times)


def fitted(data: Histories, numbers: tuple[float, ...] | None = None) -> Interpolated:
    model = Interpolated(CountingSettings(window=100), len(data.vocabulary))
    if numbers is not None:
        model.numbers = np.array(numbers)
        model.recent.half_life = 100.0
    model.count(data)
    return model


def literal(model: Interpolated, train: Histories, prefix: list[int], times: list[float]) -> list[float]:
    """The module's formula, one candidate at a time."""
    number = dict(zip(Numbers._fields, NUMBERS, strict=True))
    pairs: defaultdict[tuple[int, int], float] = defaultdict(float)
    for low, high in zip(train.offsets[:-1], train.offsets[1:], strict=True):
        own = train.ids[low:high].tolist()
        for place, earlier in enumerate(own):
            for gap, later in enumerate(own[place + 1 : place + 1 + GAP], start=1):
                pairs[earlier, later] += 1 / gap
                pairs[later, earlier] += number["backward"] / gap
    sums: defaultdict[int, float] = defaultdict(float)
    for (earlier, _), count in pairs.items():
        sums[earlier] += count
    weights = [
        (value, sums[value] ** -number["power"] * number["lag"] ** since * np.exp(-number["rate"] * (times[-1] - time)))
        for since, (value, time) in enumerate(zip(prefix[::-1], times[::-1], strict=True))
        if since < PAST and sums[value]
    ]
    total = sum(weight * sums[value] for value, weight in weights) + number["prior"]
    latest = prefix[::-1]
    own_shares = {
        value: number["repeat"] * model.repeats.shares(np.array([latest.index(value) + 1])).item()
        for value in set(latest)
    }
    left = max(1 - sum(own_shares.values()), MIN_NOVEL_SHARE)
    ever, lately = model.totals / model.totals.sum(), model.recent.shares()
    found = []
    for candidate in range(len(train.vocabulary)):
        back = (1 - number["recent"]) * float(ever[candidate]) + number["recent"] * float(lately[candidate])
        counted = sum(weight * pairs[value, candidate] for value, weight in weights)
        found.append(left * (counted + number["prior"] * back) / total + own_shares.get(candidate, 0.0))
    return found


@pytest.mark.parametrize("timed", [True, False])
def test_equals_the_literal_formula(*, timed: bool) -> None:
    train, test = random_data(1, timed=timed), random_data(2, 6, timed=timed)
    model = fitted(train, NUMBERS)
    windows = Windows(test, model.reach)
    output = scored(model, windows.batch(np.arange(len(windows))))
    for row, at in zip(output.scores.exp(), windows.positions(np.arange(len(windows))).tolist(), strict=True):
        start = test.offsets[np.searchsorted(test.offsets, at, side="right") - 1]
        times = (test.times if timed else np.zeros(len(test.ids)))[start : at + 1].tolist()
        expected = torch.tensor(literal(model, train, test.ids[start : at + 1].tolist(), times))
        torch.testing.assert_close(row, expected.float(), rtol=1e-4, atol=1e-7)
    assert (output.weights[0].sum(2) <= 1 + 1e-5).all() and output.weights[0].min() >= 0


def test_scores_are_probabilities() -> None:
    data = random_data(3)
    model = fitted(data)
    windows = Windows(data, model.reach)
    sums = scored(model, windows.batch(np.arange(len(windows)))).scores.exp().sum(1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-4, atol=1e-4)


def test_what_is_observed_of_held_out_targets_is_what_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    train, late = random_data(1), random_data(2, 6)
    model = fitted(train, NUMBERS)
    seen: list[Observed] = []

    def likeliest(self: Observed) -> Floats:
        seen.append(self)
        return np.ones(7)

    monkeypatch.setattr(Observed, "likeliest", likeliest)
    model.likeliest(late)
    windows = Windows(late, model.reach)
    batch = windows.batch(np.arange(len(windows)))
    shares = scored(model, batch).scores.gather(1, torch.from_numpy(batch.targets)[:, None])[:, 0].double()
    seconds = float(np.median(seen[0].seconds[:, 1]))
    assert seconds == pytest.approx(1, rel=0.3)  # in median gaps
    unit = late.times[1] - late.times[0]
    assert len(shares) == len(seen[0].repeat_share)
    model.numbers[-1] = 0
    shares = scored(model, batch).scores.gather(1, torch.from_numpy(batch.targets)[:, None])[:, 0].double()
    numbers = Numbers(*NUMBERS[:-1], 0.0)
    assert unit > 0 and seen[0].likelihood(numbers)[0] == pytest.approx(float(shares.mean()), rel=1e-4)


def test_the_numbers_are_the_likeliest() -> None:
    """No small step from them makes the held-out targets likelier."""
    train, late = random_data(1, 200), random_data(2, 60)
    model, once = fitted(train, NUMBERS), Observed.likeliest
    seen: list[Observed] = []

    def likeliest(self: Observed) -> Floats:
        seen.append(self)
        return once(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Observed, "likeliest", likeliest)
        model.likeliest(late)
    best = once(seen[0])
    reached, _ = seen[0].likelihood(Numbers(*best))
    for place in range(len(best)):
        for factor in (0.9, 1.05):
            moved = best.copy()
            moved[place] *= factor
            if place < 4:
                moved[place] = min(moved[place], 0.999)
            assert seen[0].likelihood(Numbers(*moved))[0] <= reached + 2e-3

    def loss(point: Floats) -> float:
        return PULL * float((point**2).mean()) - seen[0].likelihood(_numbers(point))[0]

    # Simplices need no derivatives; begun at what was found, they find nothing lower.
    point = np.concatenate([np.log(best[:4] / (1 - best[:4])), np.log(best[4:])])
    found = minimize(loss, point, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-15, "maxiter": 3000})
    np.testing.assert_allclose(np.array(_numbers(found.x)), best, rtol=2e-6, atol=1e-6)


def test_derivatives_of_the_likelihood_are_those_of_small_steps() -> None:
    train, late = random_data(1, 60), random_data(2, 20)
    model = fitted(train, NUMBERS)
    seen: list[Observed] = []

    def remember(observed: Observed) -> Floats:
        seen.append(observed)
        return np.ones(7)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Observed, "likeliest", remember)
        model.likeliest(late)
    _, derivatives = seen[0].likelihood(Numbers(*NUMBERS))
    for place, derivative in enumerate(derivatives):
        step = 1e-6 * np.eye(7)[place]
        above, below = (seen[0].likelihood(Numbers(*(np.array(NUMBERS) + s)))[0] for s in (step, -step))
        assert derivative == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)


def test_a_planted_decay_is_found() -> None:
    """What follows is decided by the event three before: co-occurrence must look that far, Markov cannot."""
    random = np.random.default_rng(0)
    values, num = 30, 500
    ids = random.integers(0, values, (num, 12))
    for place in range(3, 12):
        ids[:, place] = np.where(random.random(num) < 0.8, (ids[:, place - 3] + 1) % values, ids[:, place])
    flat = (ids.reshape(-1) + FIRST).astype(np.int32)
    data = Histories(flat, np.arange(0, 12 * num + 1, 12), Vocabulary(map(str, range(values))))
    model = fitted(data)
    assert float(model.numbers[0]) > 0.7  # the lag hardly decays
    plain = Cooccurrence(CountingSettings(window=30), len(data.vocabulary))
    plain.count(data)
    batch = Windows(data.select(slice(60)), None).batch(np.arange(60))
    hits = [float((one(batch).scores.argmax(1) == batch.targets).mean()) for one in (model, plain)]
    assert hits[0] >= hits[1] - 0.02


def test_followers_are_the_counted_part() -> None:
    data = random_data(4)
    model = fitted(data, NUMBERS)
    batch = Windows(data, model.reach).batch(np.arange(8))
    cell, share, _ = model._followers(batch, model.event_weights(batch)[batch.target_mask])
    rows = torch.zeros(batch.num_targets, len(data.vocabulary))
    rows.view(-1).index_add_(0, torch.from_numpy(cell), torch.from_numpy(share))
    assert len(set(cell.tolist())) == len(cell) and (rows.sum(1) < 1).all()
    # Without own values and popularity the scores are these shares.
    model.repeats.again.fill(0)
    model.repeats.offered.fill(1)
    model.totals.fill(0)
    model.recent.lately.fill(0)
    torch.testing.assert_close(scored(model, batch).scores.exp(), rows, rtol=1e-5, atol=1e-6)


def test_halves_add_up_and_the_numbers_stay() -> None:
    data = random_data(5)
    once, twice = fitted(data, NUMBERS), fitted(data.select(slice(15)), NUMBERS)
    batch = Windows(data, once.reach).batch(np.arange(5))
    twice(batch)  # what is kept of the first half must not survive
    twice.count(data.select(slice(15, None)))
    assert np.array_equal(once.numbers, twice.numbers)
    torch.testing.assert_close(scored(twice, batch).scores, scored(once, batch).scores, rtol=1e-4, atol=1e-5)


def test_pieces_of_its_reach_give_the_scores_of_the_whole() -> None:
    data = random_data(6)
    model = Interpolated(CountingSettings(window=4), len(data.vocabulary))
    model.count(data)
    whole, cut = Windows(data, None, last_only=True), Windows(data, model.reach, last_only=True)
    scores = [scored(model, windows.batch(np.arange(len(windows)))).scores for windows in (whole, cut)]
    torch.testing.assert_close(scores[1], scores[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("records", [[], [History(("a",))], [History(("a", "b"))], [History(("a", "b"))] * 2])
def test_too_little_to_hold_out(records: list[History]) -> None:
    data = Histories.of(records, Vocabulary("abc"))
    model = fitted(data)
    batch = Windows(Histories.of([History(("a", "b", "c"))], data.vocabulary), None).batch(np.array([0]))
    assert not scored(model, batch).scores.isnan().any()
