"""Popularity lately: by hand, its half-life by a loop, in halves, and where nothing can be held out."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.baselines.recent import EVER, SHORTEST, Recent, chronological, latest_tenth
from ensue.tasks.next.settings import CountingSettings
from ensue.vocabulary import FIRST, Vocabulary

DAY = 1e9


def fitted(data: Histories, half_life: float = 0.0) -> Recent:
    model = Recent(CountingSettings(), len(data.vocabulary))
    model.half_life = half_life
    model.count(data)
    return model


def test_shares_by_hand() -> None:
    # a b b c at a half-life of 1: 1/8, 1/4 + 1/2, 1 of 15/8.
    model = fitted(Histories.of([History(("a", "b")), History(("b", "c"))]), 1.0)
    lately, ever = np.array([1, 6, 8]) / 15, np.array([1, 2, 1]) / 4
    assert model.shares()[FIRST:].tolist() == pytest.approx(((1 - EVER) * lately + EVER * ever).tolist())


def test_halves_add_up() -> None:
    data = Histories.of([History(tuple("abcab")), History(tuple("ccb")), History(tuple("ab"))])
    once, twice = fitted(data, 3.0), fitted(data.select(slice(1)), 3.0)
    twice.count(data.select(slice(1, None)))
    assert twice.lately.tolist() == pytest.approx(once.lately.tolist())


def test_the_order_is_that_of_a_clock_that_all_share() -> None:
    records = [History(("c", "a"), (DAY + 5, DAY + 9)), History(("b",), (DAY + 7,))]
    data = Histories.of(records)
    assert [data.vocabulary.value(int(one)) for one in chronological(data)] == ["c", "b", "a"]
    alone = Histories.of([History(one.values, tuple(time - DAY for time in one.times)) for one in records])
    assert [alone.vocabulary.value(int(one)) for one in chronological(alone)] == ["c", "a", "b"]


def drifting(every: int, num: int = 3000, seed: int = 0) -> Histories:
    """Histories of 2 of 20 values in fashion, some more than others; after ``every`` of them one comes for one."""
    random = np.random.default_rng(seed)
    ids = FIRST + (np.repeat(np.arange(num) // every, 2) + (20 * random.random(2 * num) ** 3).astype(np.int64)) % 200
    return Histories(ids.astype(np.int32), np.arange(0, 2 * num + 1, 2), Vocabulary(map(str, range(200))))


def test_the_half_life_follows_the_log() -> None:
    fast, slow = fitted(drifting(30)), fitted(drifting(3000))
    assert float(fast.half_life) < 1024 < float(slow.half_life)
    # The best of all powers of two, by the mean of 1 / rank over the later part; of equals the longest.
    early, late = latest_tenth(drifting(30)) or pytest.fail("nothing is held out")
    found = {}
    for power in range(6, 17):
        weights = np.zeros(202)
        for age, value in enumerate(early.ids[::-1].tolist()):
            weights[value] += 0.5 ** (age / 2**power)
        found[2**power] = np.mean([1 / (weights >= weights[value]).sum() for value in late.ids[1::2].tolist()])
    assert float(fast.half_life) == max(found, key=lambda half: (found[half], half))


def test_too_little_to_hold_out() -> None:
    for records in ([History(("a",))], [History(("a", "b"))], [History(("a", "b")), History(("c",))]):
        model = fitted(Histories.of(records))
        assert latest_tenth(Histories.of(records)) is None and float(model.half_life) >= SHORTEST
        assert model.shares().sum() == pytest.approx(1)
