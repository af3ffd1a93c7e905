"""Rules that learn nothing profit from each leak."""

from __future__ import annotations

import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.demo.cascades import make_cascades
from ensue_studies.untrained import untrained_with_leaks


def test_an_untrained_rule_with_and_without_each_leak_by_hand() -> None:
    train = Histories.of([History(tuple("ab")), History(tuple("ac")), History(tuple("ab")), History(tuple("xyz"))])
    test = Histories.of([History(tuple("acb")), History(tuple("xyz"))])
    rows = {row.leak: row for row in untrained_with_leaks(train, test)}
    near = rows["adjacent prefixes in one batch"]
    # Targets: c after a (b, b and c followed it: rank 2), b after c (nothing did), y after x and z after y (rank 1).
    assert (near.targets, near.share) == (4, 0.5)
    assert near.without == {"hit@20": 3 / 4, "mrr": (1 / 2 + 0 + 1 + 1) / 4}
    # The prefix a c, whose target is b, holds the pair a c beside the prefix a: rank 1.
    assert near.with_leak == {"hit@20": 3 / 4, "mrr": (1 + 0 + 1 + 1) / 4}
    copies = rows["copies of training sessions"]
    # x y z stands in training; without it a c b is left.
    assert copies.share == 0.5 and copies.without == {"hit@20": 1 / 2, "mrr": (1 / 2) / 2}
    assert copies.with_leak == {"hit@20": 3 / 4, "mrr": (1 / 2 + 0 + 1 + 1) / 4}
    assert "later training data" not in rows


def test_batches_end_where_they_end() -> None:
    train, test = Histories.of([History(tuple("zz"))]), Histories.of([History(tuple("abcd"))])
    # Prefixes a, ab, abc: in one batch the answers of the first two stand beside them; in batches of two (a, ab) and
    # (abc) that of the first alone; one by one none does.
    for batch, found in ((100, 2 / 3), (2, 1 / 3), (1, 0.0)):
        (row,) = untrained_with_leaks(train, test, batch)
        assert row.with_leak["hit@20"] == pytest.approx(found) and row.without["hit@20"] == 0.0


def test_later_training_data_is_left_out() -> None:
    late = 1.5e9
    train = Histories.of([History(tuple("ab"), (late, late + 1)), History(tuple("ac"), (late + 50, late + 51))])
    test = Histories.of([History(tuple("ac"), (late + 20, late + 21))])
    rows = {row.leak: row for row in untrained_with_leaks(train, test)}
    later = rows["later training data"]
    assert later.share == 1.0
    assert (later.with_leak["mrr"], later.without["mrr"]) == (1 / 2, 0.0)  # b and c tie, against the target


def test_rows_go_into_json() -> None:
    world = make_cascades(seed=3, num_cascades=200)
    rows = [row.to_dict() for row in untrained_with_leaks(world.train, world.test)]
    assert rows[0]["with_leak"]["mrr"] > rows[0]["without"]["mrr"]  # type: ignore[index]
