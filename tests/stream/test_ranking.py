"""Ranks of fresh events: as if each was asked alone, before anything of its batch was known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ensue.data.histories import Histories, Index
from ensue.metrics import MISS, Floats
from ensue.stream import metrics
from ensue.stream.metrics import Followers, RecentPopularity, StreamBaselines, model_ranks
from ensue.stream.sessions import Seen, SessionColumns
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary
from tests.stream.conftest import NUM_VALUES

OLD = NUM_VALUES + FIRST


def batch(seed: int, new: int = 0, num: int = 12) -> tuple[Histories, Index]:
    """Sessions with context, some of their values newer than the model."""
    draw, asked = np.random.default_rng(seed), SessionColumns()
    for _ in range(num):
        length = int(draw.integers(2, 9))
        ids = draw.integers(FIRST, OLD + new, length).tolist()
        asked.add(ids, sorted(draw.random(length).tolist()), int(draw.integers(0, length)))
    return asked.histories(Vocabulary(f"v{value}" for value in range(NUM_VALUES + new)))


def one_by_one(predictor: NextPredictor, histories: Histories, known: Index) -> Floats:
    """The literal loop: the scores after each prefix, all higher or equal ones counted."""
    found = []
    for index in range(len(histories)):
        ids = histories.ids[histories.offsets[index] : histories.offsets[index + 1]].tolist()
        for at in range(max(1, int(known[index])), len(ids)):
            context = [value for value in ids[:at] if value < OLD]
            if ids[at] >= OLD:
                found.append(MISS)
                continue
            if context:
                row = Histories(np.array([*context, FIRST], np.int32), np.array([0, len(context) + 1]), Vocabulary())
                held = np.array([len(context)])
                ranked = {}
                for value in range(FIRST, OLD):
                    row.ids[-1] = value
                    ranked[value] = predictor.ranks(row, context=held, exclusion=predictor.metadata.ruled_out)[0][0]
                found.append(float(ranked[ids[at]]))
            else:
                totals = predictor.counting["popularity"].totals.tolist()
                found.append(float(sum(total >= totals[ids[at]] for total in totals[FIRST:])))
    return np.array(found)


@pytest.fixture(scope="module")
def predictor(fitted: Path) -> NextPredictor:
    return NextPredictor.load(fitted, device="cpu")


@pytest.mark.parametrize("new", [0, 15])
def test_ranks_are_those_of_each_event_alone(predictor: NextPredictor, new: int) -> None:
    histories, known = batch(1, new)
    found = model_ranks(predictor, histories, known, OLD)
    expected = one_by_one(predictor, histories, known)
    assert np.array_equal(found, expected)
    assert (new > 0) == bool(np.isinf(found).any())


def test_what_comes_later_changes_no_rank(predictor: NextPredictor) -> None:
    asked, changed = SessionColumns(), SessionColumns()
    asked.add([2, 3, 4, 5], [0.0, 1.0, 2.0, 3.0], 2)
    changed.add([2, 3, 4, 9], [0.0, 1.0, 2.0, 3.5], 2)
    changed.add([OLD, OLD + 1, 6], [0.0, 1.0, 2.0], 0)  # values nobody knew, in the same batch
    before, after = (model_ranks(predictor, *part.histories(predictor.vocabulary), OLD) for part in (asked, changed))
    assert before[0] == after[0] < MISS
    assert after[2] == MISS


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("size", [1, 7, 200])
def test_baselines_count_what_came_just_before_each_event(
    hide: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the events are cut: a literal count for each, by the clock after the one before."""
    draw = np.random.default_rng(5)
    num_events, window, clock = 200, 50.0, -np.inf
    monkeypatch.setattr(metrics, "WINDOWS", (window,))
    monkeypatch.setattr(metrics, "NUM_FOLLOWERS", 6)
    ids = draw.integers(FIRST, OLD, num_events).astype(np.int32)
    ids[20::20] = np.arange(OLD, OLD + 9)  # new values, in order
    # Few items have followers, so that each has more than are counted; some events follow nothing.
    previous = draw.choice([UNKNOWN, FIRST, FIRST + 1, FIRST + 2], num_events).astype(np.int32)
    times = np.cumsum(draw.integers(0, 4, num_events)).astype(float)
    times[::7] -= 60  # late by more than the window
    clocks = np.maximum.accumulate(times)
    excluded = [draw.integers(FIRST, OLD, 3 if hide else 0).astype(np.int32) for _ in range(num_events)]
    baselines = StreamBaselines()
    popular, followers = (list[float]() for _ in range(2))
    for low in range(0, num_events, size):
        part = slice(low, low + size)
        known = max(OLD, int(ids[:low].max(initial=0)) + 1)
        seen = Seen(ids[part], times[part], clocks[part], previous[part])
        ranks = baselines.ranks(seen, known, np.arange(len(ids[part])), excluded[part])
        popular += ranks["popular 0.833333 min"].tolist()
        followers += ranks["followers"].tolist()
        again = StreamBaselines()
        again.restore(baselines.table(), OLD + 9)
        baselines = again
    expected_popular, expected_followers = (list[float]() for _ in range(2))
    for event, value in enumerate(ids.tolist()):
        known = max(OLD, int(ids[:event].max(initial=0)) + 1)
        clock = clocks[event - 1] if event else clock
        earlier = zip(ids[:event], times[:event], clocks[:event], strict=True)
        counted = [other for other, time, then in earlier if time >= clock - window and time >= then - window]
        pairs = zip(previous[:event], ids[:event], strict=True)
        followed = [int(other) for last, other in pairs if last == previous[event] != UNKNOWN][-6:]
        hidden = set(excluded[event].tolist())
        others = [other for other in range(FIRST, known) if other not in hidden]
        missed = value >= known or value in hidden
        count = counted.count(value)
        expected_popular.append(MISS if missed else float(sum(counted.count(other) >= count for other in others)))
        own = followed.count(value), count
        better = sum((followed.count(other), counted.count(other)) >= own for other in others)
        expected_followers.append(MISS if missed else float(better))
    assert popular == expected_popular
    assert followers == expected_followers
    assert MISS in popular
    assert popular != followers


@pytest.mark.parametrize(
    ("items", "offsets", "ids", "message"),
    [
        ([2, 2], [0, 1, 2], [3, 3], "an item occurs twice"),
        ([2, 3], [0, 0, 2], [3, 3], "lengths holds 0"),
        ([2], [0, 1], [9], "ids holds 9"),
        ([1], [0, 1], [3], "items holds 1"),
        ([2, 3], [0, 2], [3, 3], "offsets is"),
    ],
)
def test_followers_that_do_not_fit_are_refused(
    items: list[int], offsets: list[int], ids: list[int], message: str
) -> None:
    columns = np.array(items, np.int32), np.array(offsets, np.int64), np.array(ids, np.int32)
    with pytest.raises(ValueError, match=f"followers: {message}"):
        Followers(RecentPopularity(1.0)).restore(metrics.FollowerTable(*columns), 9)


def test_one_follower_is_forgotten_for_each_pair() -> None:
    followers = Followers(RecentPopularity(1.0))
    for previous, value in [(2, 3), (2, 4), (2, 3), (5, 6)]:
        followers.add(previous, value)
    assert followers.forget([[2, 3, 7], [5, 6], [8]]) == 2
    table = followers.table()
    assert (table.items.tolist(), table.offsets.tolist(), table.ids.tolist()) == ([2], [0, 2], [4, 3])


def test_windows_are_named() -> None:
    assert (RecentPopularity(900).name, RecentPopularity(21600).name) == ("popular 15 min", "popular 6 h")


def test_unknown_is_no_value() -> None:
    assert UNKNOWN < FIRST
