"""Holding out the last histories."""

import pytest

from ensue import DataError, History, SettingError
from ensue.data.histories import Histories, hold_out


def starts(*times: float) -> Histories:
    return Histories.of(History(("a", "b"), (time, time + 100), str(place)) for place, time in enumerate(times))


def names(histories: Histories) -> list[str]:
    return [record.id for record in histories.records()]


def test_by_start_time_keeps_order_and_breaks_ties_by_file() -> None:
    # Start times in order: 1 (4), 2 (1), 3 (0, 2, 3): of the three ties the last two in the file are held out.
    train, held, rule = hold_out(starts(3, 2, 3, 3, 1), 0.4)
    assert (names(train), names(held)) == (["0", "1", "4"], ["2", "3"])
    assert rule == "the last 2 of 5 by start time"


def test_by_time_never_leaks() -> None:
    train, held, _ = hold_out(starts(*[(7 * i) % 30 for i in range(30)]))
    assert train.times[train.offsets[:-1]].max() <= held.times[held.offsets[:-1]].min()
    assert len(held) == 3


def test_file_order_without_a_usable_clock() -> None:
    train, held, rule = hold_out(starts(3, 2, 1), by_time=False)
    assert (names(train), names(held), rule) == (["0", "1"], ["2"], "the last 1 of 3 in file order")
    untimed = Histories.of([History(("a",)), History(("b",))])
    assert hold_out(untimed)[2] == "the last 1 of 2 in file order"


def test_at_least_one_each() -> None:
    assert [len(part) for part in hold_out(starts(1, 2), 0.99)[:2]] == [1, 1]
    with pytest.raises(DataError, match=r"^1 history cannot be split in two; give at least 2$"):
        hold_out(starts(1))
    with pytest.raises(SettingError, match=r"share is 1\.0; it must be a number between 0 and 1"):
        hold_out(starts(1, 2), 1.0)
