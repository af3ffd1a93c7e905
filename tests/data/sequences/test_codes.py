"""Numbers for values: the same for a whole number and its text, in whatever order they come."""

from __future__ import annotations

import polars as pl
import pytest

from ensue.data.sequences.codes import Codes

PIECES = {
    "numbers": pl.Series([7, 3, 7, 2**40, -5]),
    "texts": pl.Series(["3", "x", "11", "7"]),
    "categories": pl.Series(["x", "11", "late"], dtype=pl.Categorical),
    "near": pl.Series([3, 11, 12, 7], dtype=pl.Int16),
    "near again": pl.Series([12, 13], dtype=pl.Int64),
}


@pytest.mark.parametrize(
    "order",
    [
        ("near", "near again", "numbers"),
        ("near", "near again", "texts", "near", "categories"),
        ("texts", "near", "categories", "near again"),
        ("near", "categories", "near again", "texts", "numbers"),
    ],
)
def test_each_value_has_one_number_in_order_of_arrival(order: tuple[str, ...]) -> None:
    codes, expected, taken = Codes(), dict[str, int](), list[str]()
    for name in order:
        piece = PIECES[name]
        texts = piece.cast(pl.String).to_list()
        wanted = [expected.setdefault(text, len(expected)) for text in texts]
        assert codes.of(piece).tolist() == wanted
        taken += codes.taken().to_list()
    assert codes.count == len(expected)
    assert taken == codes.every().to_list() == [*expected]
