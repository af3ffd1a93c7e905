"""Histories in columns: there and back, choosing, dropping, recoding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import History
from ensue.data.histories import Histories, ranges
from ensue.vocabulary import UNKNOWN, Vocabulary


@st.composite
def record_lists(draw: st.DrawFn) -> list[History]:
    """All timed, or none; some empty."""
    lists = draw(st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), max_size=6))
    timed = draw(st.booleans())
    seconds = st.floats(0, 1e9)
    return [
        History(
            tuple(values),
            tuple(sorted(draw(st.lists(seconds, min_size=len(values), max_size=len(values))))) if timed else (),
            str(place),
        )
        for place, values in enumerate(lists)
    ]


@given(record_lists())
def test_records_and_back(records: list[History]) -> None:
    data = Histories.of(records)
    assert list(data.records()) == records
    assert len(data) == len(records)
    assert data.lengths.tolist() == [len(record.values) for record in records]
    assert data.sequence_index().tolist() == [i for i, record in enumerate(records) for _ in record.values]
    assert [str(column.dtype) for column in (data.ids, data.offsets, data.times)] == ["int32", "int64", "float64"]


@given(record_lists(), st.data())
def test_select_takes_the_chosen_in_their_order(records: list[History], choice: st.DataObject) -> None:
    data = Histories.of(records)
    picked = choice.draw(st.lists(st.sampled_from(range(len(records))), max_size=9)) if records else []
    chosen = data.select(np.array(picked, np.int64))
    assert [record.values for record in chosen.records()] == [records[i].values for i in picked]
    assert [record.id for record in chosen.records()] == [records[i].id for i in picked]
    flags = np.array([i in picked for i in range(len(records))], np.bool_)
    assert list(data.select(flags).records()) == [record for record, keep in zip(records, flags, strict=True) if keep]
    assert list(data.select(slice(1, None)).records()) == records[1:]


@given(record_lists(), st.data())
def test_keep_drops_events_with_their_times(records: list[History], choice: st.DataObject) -> None:
    data = Histories.of(records)
    flags = choice.draw(st.lists(st.booleans(), min_size=len(data.ids), max_size=len(data.ids)))
    found = list(data.keep(np.array(flags, np.bool_)).records())
    start = 0
    for before, after in zip(records, found, strict=True):
        own = flags[start : start + len(before.values)]
        start += len(before.values)
        kept = [place for place, keep in enumerate(own) if keep]
        assert after.values == tuple(before.values[place] for place in kept)
        assert after.times == (tuple(before.times[place] for place in kept) if before.times else ())
        assert after.id == before.id


@given(record_lists())
def test_encode_changes_ids_and_no_value(records: list[History]) -> None:
    other = Vocabulary("fedcba")
    coded = Histories.of(records).encode(other)
    assert coded.vocabulary is other
    assert list(coded.records()) == records


@pytest.mark.parametrize("same", [False, True])
def test_encode_marks_or_drops_what_is_unknown(same: bool) -> None:
    records = [History(("a", "x", "b"), (1.0, 2.0, 3.0), "p"), History(("x",), (4.0,), "q")]
    few = Vocabulary("ab")
    data = Histories.of(records, few if same else None)
    assert data.encode(few).ids.tolist() == [2, UNKNOWN, 3, UNKNOWN]
    dropped = data.encode(few, drop_unknown=True)
    assert list(dropped.records()) == [History(("a", "b"), (1.0, 3.0), "p"), History((), (), "q")]


def test_a_record_leaves_out_events_that_lost_their_value() -> None:
    histories = Histories.of([History(("a", "b", "c"), (0.0, 1.0, 2.0), "x")]).encode(Vocabulary(["c", "a", "z"]))
    assert histories.ids.tolist() == [3, UNKNOWN, 2]
    assert histories.record(0) == History(("a", "c"), (0.0, 2.0), "x")


def test_encode_in_the_same_vocabulary_copies_nothing() -> None:
    data = Histories.of([History(("a", "b"))])
    assert data.encode(data.vocabulary) is data


def test_an_unknown_stays_unknown_in_a_wider_vocabulary() -> None:
    data = Histories.of([History(("a", "x"))], Vocabulary("a"))
    assert data.encode(Vocabulary("xa")).ids.tolist() == [3, UNKNOWN]


def test_times_are_kept_only_if_all_have_them() -> None:
    timed, untimed, empty = History(("a",), (1.0,)), History(("a",)), History(())
    assert Histories.of([timed, empty]).timed
    assert not Histories.of([timed, untimed]).timed
    assert not Histories.of([]).timed


def test_without_names() -> None:
    data = Histories(np.array([2, 2], np.int32), np.array([0, 1, 2]), Vocabulary("a"))
    assert [record.id for record in data.select(slice(1)).records()] == [""]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=12))
def test_ranges_equal_the_loop(parts: list[tuple[int, int]]) -> None:
    starts, lengths = (np.array([part[side] for part in parts], np.int64) for side in (0, 1))
    expected = [value for start, length in parts for value in range(start, start + length)]
    assert ranges(starts, lengths).tolist() == expected


def test_what_stays_as_it_is_is_not_copied() -> None:
    data = Histories.of([History((value, "z"), (at, at + 1.0), value) for at, value in enumerate("abcd")])
    most = data.select(np.array([1, 2, 3]))
    assert [record.id for record in most.records()] == ["b", "c", "d"]
    assert most.offsets.tolist() == [0, 2, 4, 6]
    same = [data.keep(data.ids > 0), data.encode(Vocabulary(data.vocabulary.values), drop_unknown=True), most]
    for found in same:
        assert np.shares_memory(found.ids, data.ids)
        assert np.shares_memory(found.times, data.times)
    few, apart = data.select(np.array([2])), data.select(np.array([0, 2, 3]))
    assert not np.shares_memory(few.ids, data.ids)
    assert not np.shares_memory(apart.ids, data.ids)
