"""What is looked up for a session: lists take turns, shares are those of the rows, a prefix leaves its completions."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.suggest.baselines.shares import CONDITIONS, SOURCES
from ensue.tasks.suggest.infer import look_up
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.vocabulary import FIRST
from tests.tasks.suggest.contract import queries

LOG = [("a", "b")] * 3 + [("a", "c")] * 2 + [("d", "bd"), ("be", "d"), ("a x", "y")]


@pytest.fixture
def counted() -> SuggestPredictor:
    made = SuggestPredictor("popular", settings={"min_users": 1, "retrieved": 3})
    list(made.fit(queries([History(values) for values in LOG])))
    return made


def texts_of(counted: SuggestPredictor, queries: list[int]) -> list[str]:
    return [counted.following.vocabulary.value(query + FIRST) for query in queries]


def test_lists_take_turns(counted: SuggestPredictor) -> None:
    asked = Histories.of([History(("a",)), History(("new",))])
    looked_up = look_up(counted, asked, ["", ""])
    one, other = (texts_of(counted, queries) for queries in looked_up.queries)
    # Retrieval, what followed a, what stood near it and what came after its word begin with b, its place with b as
    # well, all that is typed with a; then c.
    assert one[:3] == ["b", "a", "c"] and len(one) == 6
    assert other[:2] == ["b", "a"] and len(other) <= 6  # a place and what is typed most are known of any


def test_shares_are_those_of_the_rows(counted: SuggestPredictor) -> None:
    asked = Histories.of([History(("d", "a"))])
    known, first = look_up(counted, asked, [""]), np.array([0])
    for name in CONDITIONS:
        for text, share in counted.shares.suggest(name, asked, 9).of(0):
            place = counted.following.vocabulary.id(text) - FIRST
            assert known.expected(first, np.array([place]))[0, SOURCES.index(name)] == pytest.approx(share)
    # Of one more that is not kept: as if typed half a time among all sixteen and one.
    assert known.expected(first, np.array([-1]))[0, -1] == pytest.approx(0.5 / 17)


def test_ranks_and_values_of_pairs(counted: SuggestPredictor) -> None:
    known = look_up(counted, Histories.of([History(("new",)), History(("a",))]), ["", ""])
    b, c = (counted.following.vocabulary.id(text) - FIRST for text in ("b", "c"))
    assert known.ranks(np.array([0, 1, 1, 1]), np.array([b, b, c, -1])).tolist() == [-1, 0, 1, -1]
    assert known.followed(np.array([1, 1, 0]), np.array([b, -1, b])).tolist() == [3, 0, 0]


def test_a_prefix_leaves_its_completions(counted: SuggestPredictor) -> None:
    (queries,) = look_up(counted, Histories.of([History(("d",))]), ["b"]).queries
    assert texts_of(counted, queries) == ["bd", "b", "be"]  # bd followed d, be stood beside it; b is typed most
