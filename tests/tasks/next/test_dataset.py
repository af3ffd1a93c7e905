"""Windows, plans, groups, and what was seen."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.dataset import STEPS, Windows, hide_seen, repeats
from ensue.vocabulary import FIRST, Vocabulary


def counting_up(*lengths: int) -> Histories:
    """Histories whose every event has an id of its own, so that an id tells its place; one event an hour."""
    total = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    times = np.arange(total, dtype=np.float64) * 3600
    return Histories(np.arange(total, dtype=np.int32) + FIRST, offsets, Vocabulary(map(str, range(total))), times)


LENGTHS = (5, 0, 1, 2, 400, 129, 130)
EVERY_TARGET = sorted(
    place + FIRST
    for start, length in zip(np.cumsum((0, *LENGTHS[:-1])).tolist(), LENGTHS, strict=True)
    for place in range(start + 1, start + length)
)


@pytest.mark.parametrize("reach", [None, 0, 7, 58])
@pytest.mark.parametrize("way", ["plan", "groups", "one"])
def test_every_event_after_the_first_is_a_target_once(reach: int | None, way: str) -> None:
    windows = Windows(counting_up(*LENGTHS), reach)
    alone = [np.array([number]) for number in range(len(windows))]
    indices = {"plan": windows.plan(3, 0), "groups": list(windows.groups(150)), "one": alone}[way]
    found: list[int] = []
    for index in indices:
        batch = windows.batch(index)
        assert batch.num_targets == int(batch.target_mask.sum())
        assert (batch.targets == batch.ids[batch.target_mask] + 1).all()  # ids count up
        assert (windows.positions(index) + FIRST == batch.ids[batch.target_mask]).all()
        found += batch.targets.tolist()
    assert sorted(found) == EVERY_TARGET
    assert windows.targets == len(EVERY_TARGET)


@pytest.mark.parametrize("reach", [0, 7, 58])
def test_a_piece_holds_its_reach_and_no_more(reach: int) -> None:
    windows = Windows(counting_up(*LENGTHS), reach)
    starts = windows.histories.offsets[
        np.searchsorted(windows.histories.offsets, windows.target_starts, side="right") - 1
    ]
    assert (windows.target_starts - windows.starts == np.minimum(reach, windows.target_starts - starts)).all()
    assert (windows.stops - windows.target_starts).max() == STEPS


def test_a_question_asks_after_the_last_event_alone() -> None:
    data = counting_up(5, 0, 1, 3)
    windows = Windows(data, 1, last_only=True)
    batch = windows.batch(np.arange(len(windows)))
    assert batch.ids[batch.target_mask].tolist() == [4 + FIRST, 5 + FIRST, 8 + FIRST]
    assert batch.ids.tolist() == [[5, 6], [7, 0], [9, 10]]  # reach 1: the event before, if there is one
    assert (batch.times[:, 1] - batch.times[:, 0]).tolist() == [3600, 0, 3600] and batch.num_targets == 0


@pytest.mark.parametrize("reach", [None, 0, 7, 58])
def test_only_fresh_events_are_targets_and_all_before_them_is_context(reach: int | None) -> None:
    data = counting_up(*LENGTHS)
    known = np.array([2, 0, 1, 0, 150, 129, 128])
    windows = Windows(data, reach, context=known)
    found: list[int] = []
    for number in range(len(windows)):
        batch = windows.batch(np.array([number]))
        found += batch.targets.tolist()
        first = int(batch.targets[0])  # ids count up, so what precedes a target is known without looking
        start = int(data.offsets[np.searchsorted(data.offsets, first - FIRST, side="right") - 1])
        reached = first - FIRST - start if reach is None else min(reach + 1, first - FIRST - start)
        assert batch.ids[0, :reached].tolist() == list(range(first - reached, first))
    expected = [
        start + place + FIRST
        for start, length, old in zip(data.offsets[:-1].tolist(), LENGTHS, known.tolist(), strict=True)
        for place in range(max(old, 1), length)
    ]
    assert sorted(found) == sorted(expected) and windows.targets == len(expected)


def test_nothing_known_is_as_without() -> None:
    data = counting_up(*LENGTHS)
    one, other = Windows(data, 7), Windows(data, 7, context=np.zeros(len(data), np.int64))
    assert all((getattr(one, name) == getattr(other, name)).all() for name in ("starts", "target_starts", "stops"))


def test_a_batch_by_hand() -> None:
    data = Histories.of([History(("a", "b", "c"), (10.0, 15.0, 99.0)), History(("c", "a"), (7.0, 7.0))])
    batch = Windows(data, None).batch(np.array([1, 0]))
    # The last event of a history is a target and never asked, so it stays out: rows are (c) and (a, b).
    assert batch.ids.tolist() == [[4, 0], [2, 3]]
    assert batch.mask.tolist() == batch.target_mask.tolist() == [[True, False], [True, True]]
    assert batch.times[1].tolist() == [10.0, 15.0]
    assert batch.targets.tolist() == [2, 3, 4]


def test_without_a_clock_all_times_are_zero() -> None:
    batch = Windows(Histories.of([History(("a", "b", "c"))]), None).batch(np.array([0]))
    assert batch.times.tolist() == [[0.0, 0.0]]


def test_times_keep_their_seconds_after_years() -> None:
    years = 40 * 365 * 86400.0
    data = Histories.of([History(("a", "b", "c", "d"), (0.0, years, years + 1.0, years + 2.0))])
    times = Windows(data, None).batch(np.array([0])).times
    assert (times[0, 2] - times[0, 1]).item() == 1.0


def test_the_same_seed_gives_the_same_plan() -> None:
    windows = Windows(counting_up(*range(2, 40)), 7)

    def plan(seed: int | tuple[int, ...]) -> list[list[int]]:
        return [index.tolist() for index in windows.plan(4, seed)]

    assert plan(3) == plan(3) and plan((3, 1)) == plan((3, 1))
    assert plan(3) != plan(4) and plan((3, 1)) != plan((3, 2))
    assert {len(index) for index in plan(3)} == {4, len(windows) % 4}


def test_a_plan_batches_like_lengths() -> None:
    windows = Windows(counting_up(*[2, 60] * 20), 7)
    for index in windows.plan(4, 0):
        assert len(set((windows.stops - windows.starts)[index].tolist())) == 1


def test_groups_hold_about_as_many_targets_as_told() -> None:
    windows = Windows(counting_up(*[6] * 100), None)
    sizes = [int((windows.stops - windows.target_starts)[index].sum()) for index in windows.groups(50)]
    assert sum(sizes) == 500 and max(sizes) <= 55
    assert len(list(windows.groups(0))) == len(list(windows.groups(1))) == 100


def test_no_histories_no_pieces() -> None:
    for data in (counting_up(), counting_up(0), counting_up(1, 1)):
        windows = Windows(data, 3)
        assert (len(windows), windows.targets, windows.plan(4, 0), list(windows.groups(9))) == (0, 0, [], [])


def test_hide_seen_by_hand() -> None:
    data = Histories.of([History(("a", "b")), History(()), History(("c", "a", "c"))])
    positions = np.array([0, 1, 3])  # after a; after a, b; after c, a
    scores = hide_seen(np.ones((3, 5), np.float32), data, positions)
    hidden = [[2], [2, 3], [4, 2]]
    for row, ids in zip(scores, hidden, strict=True):
        assert {0, *np.flatnonzero(row == -np.inf).tolist()} == {0, *ids}


@pytest.mark.parametrize(
    ("sequences", "expected"),
    [(("ab", "ba"), False), (("ab", "aa"), True), (("aba", "c"), True), (("", "a"), False), ((), False)],
)
def test_repeats_by_hand(sequences: tuple[str, ...], expected: bool) -> None:
    assert repeats(Histories.of([History(tuple(values)) for values in sequences])) is expected
