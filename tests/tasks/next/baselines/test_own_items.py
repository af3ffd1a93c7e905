"""Own items beside rules: by hand, the weight that is likeliest, and rules alone where nothing repeats."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.baselines.counting import SequentialRules
from ensue.tasks.next.baselines.own_items import OwnItems
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import CountingSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.tasks.next.batches import scored


def fitted(data: Histories, kind: type[SequentialRules] = OwnItems, weight: float | None = None) -> SequentialRules:
    model = kind(CountingSettings(window=100), len(data.vocabulary))
    if weight is not None and isinstance(model, OwnItems):
        model.weight = weight
    model.count(data)
    return model


def wandering(again: float, num: int = 400) -> Histories:
    """Histories of 8 values of 300 at random, or, so often, the one two before."""
    random = np.random.default_rng(3)
    ids = random.integers(FIRST, FIRST + 300, (num, 8))
    for place in range(2, 8):
        ids[:, place] = np.where(random.random(num) < again, ids[:, place - 2], ids[:, place])
    return Histories(ids.reshape(-1).astype(np.int32), np.arange(0, 8 * num + 1, 8), Vocabulary(map(str, range(300))))


def test_scores_by_hand() -> None:
    data = wandering(0.5, 20)
    model, rules = fitted(data, weight=0.25), fitted(data, SequentialRules)
    assert isinstance(model, OwnItems)
    batch = Windows(data, None).batch(np.array([0]))
    mixed, ruled = scored(model, batch), scored(rules, batch).scores.softmax(1)
    for step in range(7):
        latest = data.ids[: step + 1][::-1].tolist()
        own = {value: model.repeats.shares(np.array([latest.index(value) + 1])).item() for value in latest}
        expected = 0.75 * ruled[step]
        for value, share in own.items():
            expected[value] += 0.25 * share / sum(own.values())
        torch.testing.assert_close(mixed.scores[step].exp(), expected)
        assert mixed.weights[0][0, step].sum() == pytest.approx(1)
        assert not mixed.weights[0][0, step, step + 1 :].any()


def test_the_weight_is_the_share_of_repeats_and_ranks_them_first() -> None:
    """Of 6 in 7 targets half repeat what stood two before: some .43 of all."""
    data = wandering(0.5)
    model = fitted(data)
    assert isinstance(model, OwnItems) and model.weight == pytest.approx(0.45, abs=0.11)
    batch = Windows(data.select(slice(50)), None).batch(np.arange(50))
    two_before = batch.ids[:, :7][:, :-1]
    first = model(batch).scores.reshape(50, 7, -1)[:, 1:].argmax(2)
    assert (first == two_before).mean() > 0.9
    model = fitted(wandering(0.0))
    assert isinstance(model, OwnItems) and (model.weight or 0.0) <= 0.05


def test_rules_remain_where_nothing_repeats() -> None:
    data = Histories.of([History(tuple(f"v{(start + step) % 9}" for step in range(4))) for start in range(60)])
    model, rules = fitted(data), fitted(data, SequentialRules)
    assert isinstance(model, OwnItems) and model.weight == 0
    batch = Windows(data, None).batch(np.arange(9))
    assert np.array_equal(model(batch).scores, rules(batch).scores)


def test_the_weight_stays_when_more_is_counted() -> None:
    data = wandering(0.5)
    model = fitted(data.select(slice(200)))
    assert isinstance(model, OwnItems)
    before = model.weight
    model.count(data.select(slice(200, None)))
    assert model.weight == before
    whole = OwnItems(CountingSettings(window=100), len(data.vocabulary))
    whole.weight = before
    whole.count(data)
    assert np.array_equal(model.repeats.again, whole.repeats.again) and np.array_equal(model.totals, whole.totals)
