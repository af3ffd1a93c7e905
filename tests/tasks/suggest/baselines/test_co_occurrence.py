"""What stands beside each query, by hand; two logs together are one log; and tables that do not fit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.suggest.baselines.co_occurrence import REACH, count_pairs, scaled
from ensue.tasks.suggest.baselines.counting import added
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.baselines.table import QueryTable


def table(beside: QueryTable, row: int) -> dict[int, float]:
    part = slice(*beside.rows[row : row + 2])
    return dict(zip(beside.others[part].tolist(), beside.weights[part].tolist(), strict=True))


def test_weights_by_hand() -> None:
    # Sessions 0 1 2 0 and 1 0, and then without the fourth of the first.
    places, owners = np.array([0, 1, 2, 0, 1, 0]), np.array([0, 0, 0, 0, 1, 1])
    beside = count_pairs(places, owners, 3)
    # 0 and 1: next to each other twice, and with one query between once: 2 + 0.8. 0 and 2: with one between, and next
    # to each other: 0.8 + 1. 1 and 2: next to each other. Never 0 and 0.
    assert table(beside, 0) == pytest.approx({1: 2.8, 2: 1.8})
    assert table(beside, 1) == pytest.approx({0: 2.8, 2: 1.0}) and table(beside, 2) == pytest.approx({0: 1.8, 1: 1.0})
    # 0 was typed 3 times and 1 twice: 2.8 / (2.8 + 1.8)^(1/2) / 2^(1/4) is 1's share beside 0.
    assert scaled(beside, np.array([3, 2, 1]))[0] == pytest.approx(2.8 / 4.6**0.5 / 2**0.25)
    without = count_pairs(np.array([0, 1, 2, -1, 1, 0]), owners, 3)
    assert table(without, 0) == pytest.approx({1: 2.0, 2: 0.8})  # what is not kept still stands between


def test_reach() -> None:
    places = np.arange(REACH + 2)
    beside = count_pairs(places, np.zeros_like(places), len(places))
    assert [*table(beside, 0)] == list(range(1, REACH + 1))
    assert table(beside, 0)[REACH] == pytest.approx(0.8 ** (REACH - 1))


def test_nothing_at_all() -> None:
    none = np.empty(0, np.int64)
    beside = count_pairs(none, none, 0)
    assert (len(beside.rows), len(beside.others), len(scaled(beside, none))) == (1, 0, 0)
    alone = count_pairs(np.array([0]), np.array([0]), 2)
    assert table(alone, 0) == table(alone, 1) == {}


def sessions(*values: str) -> Histories:
    return Histories.of(History(tuple(own.split())) for own in values)


def test_two_logs_together_are_one() -> None:
    old, new = ("a b c", "b d"), ("d a b", "e a", "c b")
    one, other, both = (Retrieval.fit(sessions(*part)) for part in (old, new, old + new))
    merged = one.with_(other, added(one.following, other.following))
    assert merged.following.queries.to_list() == both.following.queries.to_list()
    assert merged.co_occurrence.rows.tolist() == both.co_occurrence.rows.tolist()
    assert merged.co_occurrence.others.tolist() == both.co_occurrence.others.tolist()
    assert merged.co_occurrence.weights == pytest.approx(both.co_occurrence.weights)
    asked = sessions("a", "b d", "c x")
    assert merged.candidates(asked, 5).tolist() == both.candidates(asked, 5).tolist()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("others", [0, 9], "co_occurrence.others holds 9, outside [0, 3)"),
        ("rows", [0, 2, 1, 2], "rows falls somewhere"),
        ("weights", [1.0], "1 weights for 2 pairs"),
        ("weights", [1.0, -1.0], "weights is -1, outside"),
        ("rows", [0, 2], "co_occurrence.rows is int64 of shape (2,)"),
    ],
)
def test_arrays_that_do_not_belong_together(name: str, value: list[float], message: str) -> None:
    model = Retrieval.fit(sessions("a b", "c"))
    table = model.co_occurrence
    with pytest.raises(ValueError, match=re.escape(message)):
        Retrieval(model.following, replace(table, **{name: np.array(value, getattr(table, name).dtype)}), model.after)
