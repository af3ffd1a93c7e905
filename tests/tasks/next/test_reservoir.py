"""The bounded memory of past histories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories, concat_histories
from ensue.store.pack import pack, unpack
from ensue.tasks.next.reservoir import LATEST, Reservoir
from ensue.vocabulary import FIRST, Vocabulary

VALUES = Vocabulary(map(str, range(5000)))


def pairs(low: int, high: int) -> Histories:
    """Histories (i, i + 1) at times i and i + 1, so that each can be told apart."""
    return Histories.of(
        [History((str(i), str(i + 1)), (float(i), i + 1.0), f"person {i}") for i in range(low, high)], VALUES
    )


def firsts(histories: Histories) -> list[int]:
    return [int(each) - FIRST for each in histories.ids[histories.offsets[:-1]]]


def filled(*cuts: int, size: int = 50, seed: int = 3) -> Reservoir:
    made = Reservoir(size, seed)
    for low, high in zip((0, *cuts), cuts, strict=False):
        made.add(pairs(low, high))
    return made


def test_it_is_bounded_and_keeps_all_while_there_is_room() -> None:
    assert firsts(filled(30).histories) == list(range(30))
    assert len(filled(1000)) == len(set(firsts(filled(1000).histories))) == 50
    assert len(filled(1000, size=0)) == 0


def test_the_sample_is_that_of_a_literal_loop_over_the_keys() -> None:
    made = filled(1000)
    keys = dict(enumerate(Reservoir(50, 3)._new_keys(1000).tolist()))
    smallest = sorted(keys, key=lambda i: keys[i])[:50]
    assert firsts(made.histories) == sorted(smallest)


def test_it_does_not_matter_in_which_calls_they_came() -> None:
    assert firsts(filled(1000).histories) == firsts(filled(1, 7, 300, 301, 1000).histories)
    assert firsts(filled(1000, seed=4).histories) != firsts(filled(1000).histories)


def test_every_history_has_the_same_chance() -> None:
    """200 seeds keep 50 of 500 each: a tenth of the data holds 1,000 in the mean; the deviation is about 28."""
    counts = np.zeros(500)
    for seed in range(200):
        counts[firsts(filled(250, 500, seed=seed).histories)] += 1
    assert abs(counts.reshape(10, 50).sum(1) - 1000).max() < 4 * 28


def test_a_history_is_kept_to_its_latest_events_without_its_name_and_one_event_teaches_nothing() -> None:
    long = History(tuple(map(str, range(80))), tuple(map(float, range(80))), "somebody")
    made = Reservoir(9, 0)
    made.add(Histories.of([long, History(("1",), (0.0,)), History((), ())], VALUES))
    assert made.histories.lengths.tolist() == [LATEST] and made.histories.record(0) == History(
        long.values[-LATEST:], long.times[-LATEST:]
    )
    assert (len(made.histories.names), made.num_seen) == (0, 1)


def test_draws_are_whole_histories_without_replacement() -> None:
    made = filled(1000)
    drawn = made.draw(20, 7)
    assert len(set(firsts(drawn))) == 20 and set(firsts(drawn)) <= set(firsts(made.histories))
    assert (drawn.ids[1::2] == drawn.ids[::2] + 1).all() and (drawn.times == drawn.ids - FIRST).all()
    assert firsts(made.draw(20, 7)) == firsts(drawn) != firsts(made.draw(20, 8))
    assert firsts(made.draw(999, 0)) == firsts(made.histories)
    assert len(Reservoir(5, 0).draw(3, 0)) == 0


def test_a_part_and_the_rest_are_the_whole() -> None:
    made = filled(1000)
    part, rest = made.part(20, 7)
    assert firsts(part) == firsts(made.draw(20, 7))
    assert sorted(firsts(part) + firsts(rest.histories)) == firsts(made.histories)
    assert len(made) == 50
    rest.add(pairs(1000, 1100))
    assert len(rest) == 50


def test_unpacked_it_goes_on_as_it_was() -> None:
    made = filled(400)
    again = unpack(Reservoir, *pack(made))
    for each in (made, again):
        each.add(pairs(400, 900))
    assert firsts(again.histories) == firsts(made.histories) == firsts(filled(900).histories)
    assert (again.histories.times == made.histories.times).all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"keys": np.zeros(3, np.uint64)}, "3 keys do not fit 50 histories"),
        ({"num_seen": 49}, "50 keys do not fit 50 histories"),
        ({"offsets": np.array([0, 5])}, "offsets does not lead from 0 to 100"),
        ({"offsets": np.zeros(0, np.int64)}, "offsets does not lead from 0 to 100"),
        ({"offsets": np.array([0, 0, *range(4, 101, 2)])}, "a history has no events"),
        ({"times": np.zeros(5)}, "times is float64 of shape"),
        ({"times": np.arange(100.0, 0, -1)}, "times fall within a history"),
        ({"ids": np.zeros(100, np.int64)}, "ids is int64"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(filled(400), **changes)


def test_joined_by_hand() -> None:
    timed = Histories.of([History(("1", "2"), (5.0, 6.0)), History(())], VALUES)
    untimed = Histories.of([History(("3",)), History(("4", "5"))], VALUES)
    both = concat_histories(timed, untimed)
    assert list(both.records()) == [
        History(("1", "2"), (5.0, 6.0)),
        History((), ()),
        History(("3",), (0.0,)),
        History(("4", "5"), (0.0, 0.0)),
    ]
    assert not concat_histories(untimed, untimed).timed
    assert concat_histories(untimed, timed).record(2).times == (5.0, 6.0)
