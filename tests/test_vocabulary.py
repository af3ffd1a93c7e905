"""Values and ids."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
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


@given(TEXTS, TEXTS, st.sets(st.text(max_size=4)), st.booleans())
def test_those_of_some_values_that_are_known_are_found_by_hash_as_one_by_one(
    values: list[str], later: list[str], asked: set[str], hashed: bool
) -> None:
    vocabulary = Vocabulary(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ensue.vocabulary.MIN_VALUES", 0 if hashed else 256)
        patch.setattr("ensue.vocabulary.MIN_TABLE", 0)
        for more in ((), later):
            vocabulary.add(more)
            lists = [asked, [], [*values, *later, *values]]
            for found, own in zip(vocabulary.known_each(lists), lists, strict=True):
                assert found.dtype == np.int32
                assert found.tolist() == [vocabulary.id(value) for value in own if value in vocabulary]
            assert vocabulary.known_each([]) == []


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


def test_ids_of_a_long_column_are_those_of_its_values() -> None:
    """Words that arrived after the table was made, and some that never did."""
    values = [f"word {number}" for number in range(4000)]
    vocabulary = Vocabulary(values[:3000])
    for known in (3000, 3100, 4000):
        vocabulary.add(values[:known])
        column = pl.Series([*values[::-1], "", "never", values[5]])
        assert vocabulary.ids_of(column).tolist() == vocabulary.ids(column.to_list()).tolist()
        assert vocabulary.ids_of(column[:0]).tolist() == []
    assert Vocabulary().ids_of(pl.Series(["a", "b"])).tolist() == [1, 1]


@pytest.mark.parametrize("id", [-1, PADDING, UNKNOWN])
def test_placeholders_stand_for_no_value(id: int) -> None:
    with pytest.raises(IndexError, match=f"id {id} is a placeholder"):
        Vocabulary(["a", "b"]).value(id)
