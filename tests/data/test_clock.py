"""The unit of a column of times, by hand."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from ensue import DataError
from ensue.data.clock import TimeOptions, format_time, read_clock
from ensue.data.dates import parse_dates
from ensue.data.sequences import read


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
    clock = read_clock(pl.Series(name, times), layout, place, TimeOptions(unit=stated))
    assert (clock.format.unit, clock.format.absolute) == (unit, absolute)
    factor = {"s": 1, "ms": 0.001, "h": 3600}[unit]
    assert clock.seconds.tolist() == pytest.approx([time * factor for time in times], rel=1e-15)


def test_sentence() -> None:
    clock = read_clock(pl.Series("ts", [1225472880.0, 1233446340.0]), "csv", place)
    assert (
        clock.format.sentence
        == "seconds since 1970 (inferred: values near 1.2e9), 2008-10-31 17:08 to 2009-01-31 23:59"
    )


def test_mixture_names_the_first_that_disagrees() -> None:
    with pytest.raises(
        DataError, match=r"^file:2: time 1400000000 looks like seconds since 1970, but others, such as 14"
    ):
        read_clock(pl.Series("ts", [1.4e12, 1.4e9, 1.4e12]), "csv", place)


def test_time_as_text() -> None:
    assert format_time(1225472880.0, "s", True) == "2008-10-31 17:08"
    assert format_time(5400.0, "h", False) == "1.5"
    assert format_time(1.5, "ms", False) == "1500"


@pytest.mark.parametrize(
    ("texts", "iso", "order"),
    [
        (["31.12.2023", "1.2.2024 13:05"], ["2023-12-31", "2024-02-01T13:05"], "day.month.year"),
        (["01.02.2024"], ["2024-02-01"], "day.month.year"),  # no number above 12: points mean the day first
        (["1/2/2024", "31/12/2023 00:00:07"], ["2024-02-01", "2023-12-31T00:00:07"], "day/month/year"),
        (["1/2/2024", " 12/31/2023"], ["2024-01-02", "2023-12-31"], "month/day/year"),
        (["12/31/2023 1:05 PM", "1/2/2024 12:10 a.m."], ["2023-12-31T13:05", "2024-01-02T00:10"], "month/day/year"),
        (["1-2-2024 12:00pm", "31-1-2024"], ["2024-02-01T12:00", "2024-01-31"], "day-month-year"),
    ],
)
def test_dates_as_people_write_them(texts: list[str], iso: list[str], order: str) -> None:
    clock = read_clock(pl.Series("time", texts), "csv", place)
    expected = [datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in iso]
    assert clock.seconds.tolist() == expected
    assert clock.format.sentence.startswith(f"dates as {order}, read as UTC, 20")
    assert (clock.format.unit, clock.format.absolute) == ("iso", True)


@pytest.mark.parametrize(
    "text",
    [
        "14/Nov/2023:22:13:20 +0000",
        "Nov 14, 2023 @ 22:13:20.000",
        "November 14, 2023 at 10:13:20 PM",
        "Tue, 14 Nov 2023 22:13:20 GMT",
        "Tue Nov 14 23:13:20 +0100 2023",
        "Tue Nov 14 2023 22:13:20 GMT+0000 (Greenwich Time)",
        "2023-11-14 22:13:20 +0000 UTC",
        "20231114T221320Z",
    ],
)
def test_dates_as_programs_write_them(text: str) -> None:
    assert parse_dates(pl.Series([text]), place).numbers.tolist() == [1_700_000_000]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["5/6/2023", "1/2/2024"],
            "file:1: time '5/6/2023' may be day-first or month-first, and no time in the file decides it; set "
            "--day-first or --month-first, or write ISO dates, such as 2023-12-31",
        ),
        (
            ["1/2/2024", "13/2/2023", "1/20/2024"],
            "file:3: time '1/20/2024' swaps day and month, unlike '13/2/2023' before it; write ISO dates, such as "
            "2023-12-31",
        ),
        (
            ["1.2.2024", "30.2.2024"],
            "file:2: time '30.2.2024' is not a date written as day.month.year, like the others",
        ),
        (
            ["2024-02-01", "1.2.2024"],
            "file:1: time '2024-02-01' is not a date written as day.month.year, like the others",
        ),
        (["1.2.24"], "file:1: time '1.2.24' is not a time; use seconds since 1970, ISO 8601, or --time-unit"),
    ],
)
def test_dates_that_nobody_can_tell(texts: list[str], message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_clock(pl.Series("time", texts), "csv", place)
    assert str(caught.value) == message


@pytest.mark.parametrize("separator", [",", ";"])
def test_hour_and_minute_in_two_columns_are_one_time(tmp_path: Path, separator: str) -> None:
    rows = ["session,item,date,hour,minute", "a,x,2023-11-14,13,5", "a,y,2023-11-14,13,50", "a,z,2023-11-14,13,7"]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows).replace(",", separator) + "\n")
    histories, understood = read(path)
    assert histories.record(0).values == ("x", "z", "y")
    assert understood.notes[0] == "time is the day 'date' plus 'hour', 'minute'"
