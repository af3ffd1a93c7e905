"""Values and ids."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ensue.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary

TEXTS = st.lists(st.text(max_size=4), max_size=20)


def test_by_hand() -> None:
    vocabulary = Vocabulary(["b", "a", "b"])
    assert (PADDING, UNKNOWN, FIRST) == (0, 1, 2)
    assert list(vocabulary.values) == ["b", "a"]
    assert len(vocabulary) == 4
    assert vocabulary.ids(["a", "c", "b"]).tolist() == [3, UNKNOWN, 2]
    assert vocabulary.ids(["a"]).dtype == np.int32
    assert ("a" in vocabulary, "c" in vocabulary) == (True, False)
    assert vocabulary.add(["c", "a", "d", "c"]) == 2
    assert [vocabulary.id(value) for value in "bacd"] == [2, 3, 4, 5]


def test_empty() -> None:
    assert len(Vocabulary()) == FIRST
    assert Vocabulary().ids([]).shape == (0,)
    assert Vocabulary().id("a") == UNKNOWN


@given(TEXTS)
def test_there_and_back(values: list[str]) -> None:
    vocabulary = Vocabulary(values)
    assert [vocabulary.value(id) for id in vocabulary.ids(values).tolist()] == values
    assert len(vocabulary) == len(set(values)) + FIRST
    assert Vocabulary(vocabulary.values) == vocabulary


@given(TEXTS, TEXTS)
def test_ids_are_stable_for_ever(first: list[str], later: list[str]) -> None:
    vocabulary = Vocabulary(first)
    before = {value: vocabulary.id(value) for value in first}
    assert vocabulary.add(later) == len(set(later) - set(first))
    assert {value: vocabulary.id(value) for value in first} == before
    assert vocabulary == Vocabulary([*first, *later])


def test_equal_if_the_ids_are() -> None:
    assert Vocabulary("ab") == Vocabulary("ab")
    assert Vocabulary("ab") != Vocabulary("ba")
    assert Vocabulary("ab") != ["a", "b"]
