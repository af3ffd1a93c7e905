"""What is looked up for a session: lists take turns, shares are those of the rows, a prefix leaves its completions."""

from __future__ import annotations

import pytest

from ensue.data.histories import Histories
from ensue.records import History
from ensue.tasks.suggest.baselines.shares import GIVEN, SOURCES
from ensue.tasks.suggest.lookup import look_up
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.vocabulary import FIRST
from tests.tasks.suggest.contract import queries

LOG = [("a", "b")] * 3 + [("a", "c")] * 2 + [("d", "bd"), ("be", "d"), ("a x", "y")]


@pytest.fixture
def counted() -> SuggestPredictor:
    made = SuggestPredictor("popular", settings={"min_users": 1, "retrieved": 3})
    list(made.fit(queries([History(values) for values in LOG])))
    return made


def test_lists_take_turns(counted: SuggestPredictor) -> None:
    asked = Histories.of([History(("a",)), History(("new",))])
    one, other = look_up(counted, asked, ["", ""])
    # Retrieval, what followed a, what stood near it and what came after its word begin with b, its place with b as
    # well, all that is typed with a; then c.
    assert one.texts[:3] == ["b", "a", "c"] and len(one.texts) == 6
    assert other.texts[:2] == ["b", "a"] and len(other.texts) <= 6  # a place and what is typed most are known of any


def test_shares_are_those_of_the_rows(counted: SuggestPredictor) -> None:
    asked = Histories.of([History(("d", "a"))])
    (known,) = look_up(counted, asked, [""])
    for name in GIVEN:
        for text, share in counted.shares.suggest(name, asked, 9).of(0):
            place = counted.following.vocabulary.id(text) - FIRST
            assert known.expected([place])[0, SOURCES.index(name)] == pytest.approx(share)
    # Of one more that is not kept: as if typed half a time among all sixteen and one.
    assert known.expected([-1])[0, -1] == pytest.approx(0.5 / 17)


def test_a_prefix_leaves_its_completions(counted: SuggestPredictor) -> None:
    (known,) = look_up(counted, Histories.of([History(("d",))]), ["b"])
    assert known.texts == ["bd", "b", "be"]  # bd followed d, be stood beside it; b is typed most
