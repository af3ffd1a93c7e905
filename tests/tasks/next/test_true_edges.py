"""The strongest weight against the true edges, by hand."""

from __future__ import annotations

import pytest

from ensue import Answer, Explanation
from ensue.tasks.next.true_edges import Compared, compare, true_pairs

# c leaned most on a, d on c, e on d.
WAY = Explanation(
    values=("a", "b", "c", "d", "e"),
    times=(),
    dependency=((0.0,) * 5, (1.0, 0, 0, 0, 0), (0.7, 0.3, 0, 0, 0), (0.1, 0.3, 0.6, 0, 0), (0.1, 0.2, 0.3, 0.4, 0)),
    influence=(0.2,) * 5,
    answer=Answer(()),
)
EDGES = {("a", "b"), ("a", "c"), ("b", "d"), ("a", "d"), ("d", "a"), ("x", "e")}


def test_events_with_a_true_edge_from_some_are_counted() -> None:
    # b has one earlier person, with an edge: nothing to tell. c: a true of {a, b}, leaned on; the latest, b, is none.
    # d: a and b of {a, b, c}, leaned on c, which is also the latest. e has no edge from anybody before.
    assert compare(WAY, EDGES) == Compared(2, 1, 1 / 2 + 2 / 3, 0)
    assert true_pairs(WAY, EDGES) == [(0, 1), (0, 2), (0, 3), (1, 3)]
    both = compare(WAY, EDGES) + compare(WAY, EDGES)
    assert both.sentence() == (
        "true edges: 2 of 4 events attended most to a true source (50.0 %; random earlier user 58.3 %, latest user "
        "0.0 %)"
    )


def test_nothing_compares() -> None:
    flat = Explanation(WAY.values, (), (), WAY.influence, WAY.answer)
    assert compare(flat, EDGES) == compare(WAY, set()) == Compared()
    assert Compared().sentence() == "true edges: no event has earlier users both with and without an edge to it"
    assert compare(WAY, EDGES).chance == pytest.approx(1.1667, abs=1e-4)
