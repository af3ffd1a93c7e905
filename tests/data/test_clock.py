"""The unit of a column of times, by hand."""

import polars as pl
import pytest

from ensue.data.clock import format_time, read_clock
from ensue.errors import DataError


def place(event: int) -> str:
    return f"file:{event + 1}"


@pytest.mark.parametrize(
    ("name", "layout", "stated", "times", "unit", "absolute"),
    [
        ("", "forest", None, [338299.7, 341233.5], "h", True),
        ("", "forest", None, [1.285452422e12], "ms", True),
        ("", "forest", None, [3.0, 5.0], "s", False),
        ("", "hidan", None, [0.0, 355.1], "h", False),
        ("", "hidan", None, [1226496568.0], "s", True),
        ("", "jsonl histories", None, [0.0, 5.0], "s", False),
        ("time", "csv", None, [0.0, 2e8], "s", False),
        ("time", "csv", "ms", [0.0, 2e8], "ms", False),
        ("TIME_MS", "csv", None, [1.0], "ms", False),
        ("time_s", "csv", "h", [1.0], "h", False),
        ("items", "csv", None, [1.0], "s", False),
    ],
)
def test_unit(name: str, layout: str, stated: str | None, times: list[float], unit: str, absolute: bool) -> None:
    clock = read_clock(pl.Series(name, times), layout, place, stated)
    assert (clock.unit, clock.absolute) == (unit, absolute)
    factor = {"s": 1, "ms": 0.001, "h": 3600}[unit]
    assert clock.seconds.tolist() == pytest.approx([time * factor for time in times], rel=1e-15)


def test_sentence() -> None:
    clock = read_clock(pl.Series("ts", [1225472880.0, 1233446340.0]), "csv", place)
    assert clock.sentence == "seconds since 1970 (inferred: values near 1.2e9), 2008-10-31 17:08 to 2009-01-31 23:59"


def test_mixture_names_the_first_that_disagrees() -> None:
    with pytest.raises(
        DataError, match=r"^file:2: time 1400000000 looks like seconds since 1970, but the file begins in"
    ):
        read_clock(pl.Series("ts", [1.4e12, 1.4e9, 1.4e12]), "csv", place)


def test_time_as_text() -> None:
    assert format_time(1225472880.0, "s", True) == "2008-10-31 17:08"
    assert format_time(5400.0, "h", False) == "1.5"
    assert format_time(1.5, "ms", False) == "1500"
