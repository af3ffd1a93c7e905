"""One id, whatever its type."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from ensue import DataError, History


def id_of(value: object) -> str:
    """The text that a record makes of an id."""
    (text,) = History((value,)).values  # type: ignore[arg-type]
    return text


@pytest.mark.parametrize(
    "value", ["110", 110, 110.0, np.int64(110), np.uint8(110), np.float32(110), np.str_("110"), Decimal("110.00")]
)
def test_types_of_one_id_have_one_text(value: object) -> None:
    text = id_of(value)
    assert (text, type(text)) == ("110", str)


@pytest.mark.parametrize("text", ["", "007", "7.0", "nan", " 7"])
def test_texts_stay_as_they_are(text: str) -> None:
    assert id_of(text) == text


def test_integers_of_any_size_are_exact() -> None:
    assert id_of(12345678901234567890) == "12345678901234567890"
    assert id_of(2.0**53 - 1) == "9007199254740991"
    assert id_of(-3.0) == "-3"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "None is not an id; leave out events whose id is missing"),
        (float("nan"), "NaN is not an id; leave out events whose id is missing"),
        (np.float32("nan"), "NaN is not an id; leave out events whose id is missing"),
        (Decimal("NaN"), "NaN is not an id; leave out events whose id is missing"),
        (1.5, "1.5 is not an id; ids are texts or whole numbers"),
        (float("inf"), "inf is not an id; ids are texts or whole numbers"),
        (2.0**53, "9007199254740992.0 is a float beyond 2^53, where ids are rounded; give ids as texts or integers"),
        (True, "True is not an id but of type bool; ids are texts or whole numbers"),
        (b"110", "b'110' is not an id but of type bytes; ids are texts or whole numbers"),
        (("a",), "('a',) is not an id but of type tuple; ids are texts or whole numbers"),
    ],
)
def test_other_values_are_refused(value: object, message: str) -> None:
    with pytest.raises(DataError) as error:
        id_of(value)
    assert str(error.value) == f"history '': values[0]: {message}"
