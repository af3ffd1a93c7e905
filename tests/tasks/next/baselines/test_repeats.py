"""Values that a history holds already: their distances, and how often they come again, by hand and by a loop."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.baselines.length_delay import PRIOR
from ensue.tasks.next.baselines.repeats import RepeatShares, own_values
from ensue.tasks.next.dataset import Windows
from ensue.vocabulary import FIRST, Vocabulary
from tests.tasks.next.batches import everywhere, pad, ragged

# 5 7 5 9: before 7 stands 5 (1); before 5 stand 7 (1), 5 (2); before 9 stand 5 (1), 7 (2). 5 comes again at 2.
# 8 8: before the second 8 stands 8 (1), and comes again at 1.
TINY = Histories.of([History(("5", "7", "5", "9")), History(("8", "8")), History(("9",)), History(())])


def test_own_values_by_hand() -> None:
    batch = everywhere(pad([([5, 7, 5, 9], [0.0] * 4), ([8, 8], [0.0] * 2)])).arrays()
    cell, distance = own_values(batch, 10, 99)
    rows: list[list[tuple[int, int]]] = [[] for _ in range(6)]
    for at, away in zip(cell.tolist(), distance.tolist(), strict=True):
        rows[at // 10].append((at % 10, away))
    assert rows == [[(5, 1)], [(7, 1), (5, 2)], [(5, 1), (7, 2)], [(9, 1), (5, 2), (7, 3)], [(8, 1)], [(8, 1)]]


@pytest.mark.parametrize("window", [1, 2, 4, 50])
def test_own_values_are_those_of_a_loop(window: int) -> None:
    cascades = ragged(3)
    batch = pad(cascades, extra=2).arrays()
    expected, row = [], 0
    for ids, _ in cascades:
        for step in range(len(ids) - 1):
            latest = ids[: step + 1][::-1][:window]
            expected += [(row * 11 + value, latest.index(value) + 1) for value in dict.fromkeys(latest)]
            row += 1
    cell, distance = own_values(batch, 11, window)
    assert list(zip(cell.tolist(), distance.tolist(), strict=True)) == expected


def counted(data: Histories) -> RepeatShares:
    model = RepeatShares()
    model.count(data, np.bincount(data.ids, minlength=len(data.vocabulary)).astype(np.float32))
    return model


def test_shares_by_hand() -> None:
    model = counted(TINY)
    assert model.again[1:4].tolist() == [1, 1, 0]
    assert model.offered[1:4].tolist() == [4, 2, 0]
    # 5, 7 and 8 are in one history alone, 9 in two: the same without the events of 9, before which nothing follows.
    assert model.lone_again[1:3].tolist() == [1, 1] and model.lone_offered[1:3].tolist() == [4, 2]
    shares = model.shares(np.array([1, 2, 3]))
    expected = [(1 + PRIOR * 2 / 6) / (4 + PRIOR), (1 + PRIOR * 2 / 6) / (2 + PRIOR), 2 / 6]
    assert shares.tolist() == pytest.approx(expected)
    lone = (1 + PRIOR * expected[1]) / (2 + PRIOR)
    assert model.shares(np.array([2]), lone=True).tolist() == pytest.approx([lone])


def test_shares_are_those_of_a_loop_and_halves_add_up() -> None:
    random = np.random.default_rng(1)
    lengths = random.integers(0, 40, 30)
    ids = random.integers(FIRST, FIRST + 12, lengths.sum()).astype(np.int32)
    data = Histories(ids, np.concatenate([[0], lengths.cumsum()]), Vocabulary(map(str, range(12))))
    offered, again = np.zeros(64), np.zeros(64)
    for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        own = ids[low:high].tolist()
        for place in range(1, len(own)):
            latest = own[:place][::-1]
            for value in set(latest):
                away = latest.index(value) + 1
                at = away if away < 16 else 16 + int(8 * np.log2(away / 16))
                offered[at] += 1
                again[at] += value == own[place]
    once, twice = counted(data), counted(data.select(slice(9)))
    twice.count(data.select(slice(9, None)), np.bincount(ids, minlength=14).astype(np.float32))
    for model in (once, twice):
        assert model.offered.tolist() == offered.tolist() and model.again.tolist() == again.tolist()


def test_a_value_of_one_history_alone_is_told_apart() -> None:
    # x and y are in one history each and come again at once; a and b are in all and never do.
    model = counted(Histories.of([History(("a", "b", value, value)) for value in "xy"]))
    near = np.array([1])
    assert model.shares(near, lone=True) > model.shares(near)
    assert model.lone_again[1] == model.lone_offered[1] == model.again[1] == 2 and model.offered[1] == 6


def test_a_row_scores_what_stands_before_its_target() -> None:
    model = counted(TINY)
    batch = Windows(TINY, None).batch(np.array([0, 1]))
    cell, share = model.score(batch, len(TINY.vocabulary), 1)
    assert (cell % len(TINY.vocabulary)).tolist() == batch.ids[batch.target_mask].tolist()
    assert share.tolist() == pytest.approx([model.shares(np.array([1])).item()] * len(cell))
