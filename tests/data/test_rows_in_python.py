"""Rows of a table given in Python where sessions are wanted: refused, or warned of where they may be sessions."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime

import numpy as np
import pytest

from ensue import DataError, History, NextEvent, QuerySuggester
from ensue.data.inputs import history_records

NUMBERS = [[number // 4, 100 + number % 7, 1_700_000_000 + 10 * number] for number in range(40)]
DATES = [("u1", "red shoes", "2024-03-01 10:00"), ("u1", "blue shoes", "2024-03-01 10:01")]
MOMENTS = [("s", "a", datetime(2024, 3, 1, tzinfo=UTC)), ("s", "b", datetime(2024, 3, 2, tzinfo=UTC))]


@pytest.mark.parametrize("data", [np.array(NUMBERS), np.array([["s", "a"], ["s", "b"]]), np.zeros((2, 2, 2))])
def test_an_array_of_several_dimensions_is_refused(data: object) -> None:
    with pytest.raises(DataError, match=r"^data is an array of [23] dimensions; give a data frame whose columns have"):
        NextEvent("markov").fit(data)


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        (NUMBERS, "number, number, time"),
        (DATES, "text, text, time"),
        (MOMENTS, "text, text, time"),
        ([(1, "a"), (1, "b")], "number, text"),
        ([["s", "a", 0.5], ["s", "b", 1.5]], "text, text, number"),
        ([[np.int64(7), "a"], [np.int64(7), "b"]], "number, text"),
    ],
)
def test_rows_of_a_table_are_refused(data: object, kinds: str) -> None:
    with pytest.raises(DataError, match=rf"^data: all \d+ rows have \d entries \({kinds}\), as rows of a table have; "):
        history_records(data)


def test_rows_of_a_table_are_refused_where_queries_are_wanted() -> None:
    with pytest.raises(DataError, match="as rows of a table have"):
        QuerySuggester("co-occurrence").fit(DATES)


@pytest.mark.parametrize(
    "data",
    [
        [["a", "b", "c"], ["c", "a", "b"]],
        [["a", "b"], ["a", "b"]] * 20,
        [[1, 2, 3], [4, 5, 6]],
        [[1_700_000_001, 1_700_000_002], [1_700_000_003, 1_700_000_001]],
        [["a", "b"], ["c"]],
        [(["a", "b"], [0.0, 60.0]), (("c", "d"), (0.0, 1.0))],
        [["s", 1_700_000_000]],
        [[], []],
        [History(("s", "a", "1700000000")), History(("s", "b", "1700000010"))],
        np.array([["a", "b"], ["c"]], dtype=object),
    ],
)
def test_sessions_are_read_in_silence(data: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(history_records(data)) == len(list(data))  # type: ignore[call-overload]


def test_pairs_that_may_be_a_session_and_an_item_are_warned_of() -> None:
    pairs = [(f"s{number // 4}", f"p{number % 13}") for number in range(40)]
    with pytest.warns(UserWarning, match="all 40 rows have 2 entries, none in two positions: each row is read as a"):
        assert len(history_records(pairs)) == 40
