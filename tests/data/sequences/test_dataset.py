"""Reading: golden files, round trips, and the vectorised reader against a plain loop."""

import csv
import gzip
import json
import lzma
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensue import History
from ensue.data.sequences import read
from tests.data.files import records, write

CLICKS = "session_id,item_id,timestamp\ns2,007,1400000000\ns1,7,1400000005\ns2,7,1400000010\n"
SINCE_1970 = "seconds since 1970 (inferred: values near 1.4e9), 2014-05-13 16:53 to 2014-05-13 16:53"


def test_csv_by_hand(tmp_path: Path) -> None:
    histories, understood = read(write(tmp_path, CLICKS))
    # Sequences in order of first appearance, values in order of first arrival within them, "007" is not "7".
    assert records(histories) == [
        History(("007", "7"), (1400000000.0, 1400000010.0), "s2"),
        History(("7",), (1400000005.0,), "s1"),
    ]
    assert histories.ids.tolist() == [2, 3, 3]
    assert histories.offsets.tolist() == [0, 2, 3]
    assert understood.layout == "csv"
    assert understood.columns == {"session": "session_id", "item": "item_id", "time": "timestamp"}
    assert (understood.unit, understood.absolute, understood.time) == ("s", True, SINCE_1970)
    assert understood.notes == ()


@pytest.mark.parametrize("packed", ["plain", "gzip", "xz", "zst"])
@pytest.mark.parametrize("name", ["clicks.csv", "clicks.txt", "clicks.parquet", "clicks.gz"])
def test_extensions_lie(tmp_path: Path, packed: str, name: str) -> None:
    expected = records(read(write(tmp_path, CLICKS, "plain.csv"))[0])
    packs: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "xz": lzma.compress}
    path = write(tmp_path, packs[packed](CLICKS.encode()) if packed in packs else CLICKS, name)
    if packed == "zst":
        path.write_bytes(zstd.compress(CLICKS.encode()))
    assert records(read(path)[0]) == expected


def test_empty_rows_quotes_and_mark(tmp_path: Path) -> None:
    text = '\ufeffsession,item,ts\r\n\r\n1,"a, ""b""",3\r\n\r\n1,"two\nlines",4.5\r\n'
    histories, understood = read(write(tmp_path, text))
    assert records(histories) == [History(('a, "b"', "two\nlines"), (3.0, 4.5), "1")]
    assert understood.notes == ("2 empty rows skipped",)
    assert understood.time == "seconds (assumed; set the unit with --time-unit), 3 to 4.5"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("user_id,item_id,time", {"session": "user_id", "item": "item_id", "time": "time"}),
        ("user_id,item_id,session_id", {"session": "session_id", "item": "item_id"}),
        ("cascade,user,date", {"session": "cascade", "item": "user", "time": "date"}),
        ("user,url,item", {"session": "user", "item": "item"}),
        ("session,url,ts", {"session": "session", "item": "url", "time": "ts"}),
        ("SessionId,ItemId,Time", {"session": "SessionId", "item": "ItemId", "time": "Time"}),
        (
            "user_id:token,item_id:token,timestamp:float",
            {"session": "user_id:token", "item": "item_id:token", "time": "timestamp:float"},
        ),
    ],
)
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_columns_are_found_by_name(tmp_path: Path, header: str, expected: dict[str, str], separator: str) -> None:
    _, understood = read(write(tmp_path, f"{header}\n1,2,3\n".replace(",", separator)))
    assert understood.columns == expected
    assert understood.layout == ("recbole" if ":" in header else "tsv" if separator == "\t" else "csv")


def test_columns_stated(tmp_path: Path) -> None:
    path = write(tmp_path, "who,what,noted,time\n1,a,5,9\n1,b,6,8\n")
    histories, understood = read(path, columns={"session": "who", "item": "what", "time": "noted"}, time_unit="h")
    assert records(histories) == [History(("a", "b"), (18000.0, 21600.0), "1")]
    assert understood.time == "hours (as stated), 5 to 6"


@pytest.mark.parametrize(
    ("column", "cells", "unit", "seconds", "sentence"),
    [
        ("time", ("1.4e12", "1400000000500"), "ms", [1.4e9, 1400000000.5], "milliseconds since 1970 (inferred:"),
        ("time_ms", ("0", "1500"), "ms", [0, 1.5], "milliseconds from 0 (from the column's name 'time_ms'), 0 to 1500"),
        ("time_h", ("1", "2"), "h", [3600, 7200], "hours (from the column's name 'time_h'), 1 to 2"),
        ("time", ("2014-05-13", "2014-05-14"), "iso", [1399939200, 1400025600], "ISO dates, read as UTC, 2014-05-13"),
        ("time", ("2014-05-13T00:00:00.5Z", "2014-05-14T02:00:00+02:00"), "iso", [1399939200.5, 1400025600], "ISO"),
        ("time", ("2014-05-13", "2014-05-14T00:00"), "iso", [1399939200, 1400025600], "ISO"),
    ],
)
def test_units(tmp_path: Path, column: str, cells: Any, unit: str, seconds: list[float], sentence: str) -> None:
    path = write(tmp_path, f"session,item,{column}\n1,a,{cells[0]}\n1,b,{cells[1]}\n")
    histories, understood = read(path)
    assert histories.times.tolist() == seconds
    assert understood.unit == unit
    assert understood.time.startswith(sentence)


def test_hidan_forest_and_cyan_by_hand(tmp_path: Path) -> None:
    hidan = read(write(tmp_path, "u,v:0.0,1.5\n\nw:0.0\n"))
    assert records(hidan[0]) == [History(("u", "v"), (0.0, 5400.0)), History(("w",), (0.0,))]
    assert hidan[1].time == "hours from 0 (the convention of this layout), 0 to 1.5"
    assert hidan[1].notes == ("1 empty line skipped",)
    forest = read(write(tmp_path, "u,338299.5 v,338300 \nw,338301\n"))
    assert records(forest[0]) == [
        History(("u", "v"), (338299.5 * 3600, 338300.0 * 3600)),
        History(("w",), (1217883600.0,)),
    ]
    assert (forest[1].layout, forest[1].unit, forest[1].absolute) == ("forest", "h", True)
    cyan = read(write(tmp_path, "c1,u,0.0,v,0.5\nc2,w,0.0\n"))
    assert records(cyan[0]) == [History(("u", "v"), (0.0, 0.5), "c1"), History(("w",), (0.0,), "c2")]
    assert cyan[1].layout == "cyan-rnn"


def test_sort_is_stable_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "session,item,time\n1,a,5\n2,x,1\n1,b,3\n1,c,5\n2,y,2\n")
    histories, understood = read(path, sort=True)
    assert records(histories) == [History(("b", "a", "c"), (3.0, 5.0, 5.0), "1"), History(("x", "y"), (1.0, 2.0), "2")]
    assert understood.notes == ("1 of 2 sessions had decreasing times: sorted by time",)


def test_one_line_of_a_hundred_thousand(tmp_path: Path) -> None:
    users = ",".join(map(str, range(100_000)))
    histories, understood = read(write(tmp_path, f"{users}:{users}"))
    assert (len(histories), len(histories.ids), understood.layout) == (1, 100_000, "hidan")


def test_same_file_same_columns(tmp_path: Path) -> None:
    path = write(tmp_path, CLICKS)
    first, second = read(path)[0], read(path)[0]
    assert first.vocabulary == second.vocabulary
    assert first.ids.tobytes() == second.ids.tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_oracle_plain_loop(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = [(f"s{chance.randrange(9)}", f"{chance.randrange(20):02}", chance.randrange(50)) for _ in range(200)]
    path = tmp_path / "clicks.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("session", "item", "time"), *rows])
    found: dict[str, list[tuple[int, str]]] = {}
    for session, item, time in rows:
        found.setdefault(session, []).append((time, item))
    expected = []
    for session, events in found.items():
        events.sort(key=lambda event: event[0])
        expected.append(History(tuple(i for _, i in events), tuple(float(t) for t, _ in events), session))
    assert records(read(path, sort=True)[0]) == expected


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=5).filter(
    lambda text: text == text.strip() and re.fullmatch(r"-?\d+\.0+", text) is None  # others are read as these
)
WORDS = st.text("abc019_-", min_size=1, max_size=4)


@st.composite
def histories_of(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> list[History]:
    rows = draw(st.lists(st.lists(st.tuples(texts, st.integers(10**8, 10**10)), min_size=1, max_size=6), min_size=1))
    made = []
    for number, row in enumerate(rows):
        times = sorted(float(time) for _, time in row)
        made.append(History(tuple(value for value, _ in row), tuple(times), f"n{number}"))
    return made


def write_table(records: list[History], path: Path, form: str) -> None:
    frame = pl.DataFrame(
        {
            "session": [r.id for r in records for _ in r.values],
            "item": [v for r in records for v in r.values],
            "time": [t for r in records for t in r.times],
        }
    )
    if form == "csv":
        frame.write_csv(path)
    elif form == "parquet":
        frame.write_parquet(path)
    elif form == "lists":
        frame.group_by(id="session", maintain_order=True).agg(values="item", times="time").write_parquet(path)
    elif form == "jsonl events":
        frame.write_ndjson(path)
    else:
        path.write_text("".join(r.to_json() + "\n" for r in records), encoding="utf-8", newline="\n")


@pytest.mark.parametrize("form", ["csv", "parquet", "lists", "jsonl events", "jsonl histories"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=histories_of(TEXTS))
def test_round_trip_of_tables(tmp_path: Path, form: str, made: list[History]) -> None:
    path = tmp_path / "round"
    write_table(made, path, form)
    histories, understood = read(path, missing="keep")
    assert records(histories) == made
    assert understood.layout == ("parquet" if form == "lists" else form)


@pytest.mark.parametrize("form", ["hidan", "forest", "cyan-rnn"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=histories_of(WORDS))
def test_round_trip_of_cascades(tmp_path: Path, form: str, made: list[History]) -> None:
    made.append(History(("a", "b", "c", "d"), (1e9, 1e9, 1e9, 1e9), "last"))
    lines = {
        "hidan": lambda r: ",".join(r.values) + ":" + ",".join(map(str, r.times)),
        "forest": lambda r: "".join(f"{v},{t} " for v, t in zip(r.values, r.times, strict=True)),
        "cyan-rnn": lambda r: ",".join([r.id, *(f"{v},{t}" for v, t in zip(r.values, r.times, strict=True))]),
    }
    if form == "cyan-rnn":  # its number of fields must vary, that is its shape
        made.append(History(("a",), (1e9,), "short"))
    path = write(tmp_path, "".join(lines[form](r) + "\n" for r in made), "round")
    histories, understood = read(path)
    names = [r.id if form == "cyan-rnn" else "" for r in made]
    assert records(histories) == [History(r.values, r.times, name) for r, name in zip(made, names, strict=True)]
    assert understood.layout == form


def test_numbers_in_json_are_texts(tmp_path: Path) -> None:
    lines = [{"session": 1, "item": 7, "time": 3}, {"session": 1, "item": "007", "time": 4.5}]
    histories, _ = read(write(tmp_path, "\n".join(map(json.dumps, lines))))
    assert records(histories) == [History(("7", "007"), (3.0, 4.5), "1")]


def test_parquet_dates(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [5, 6], "date": ["2014-05-13", "2014-05-14"]})
    frame.with_columns(pl.col("date").str.to_date()).write_parquet(tmp_path / "clicks")
    histories, understood = read(tmp_path / "clicks", gap=0)
    assert records(histories) == [History(("5", "6"), (1399939200.0, 1400025600.0), "1")]
    assert understood.time == "ISO dates, read as UTC, 2014-05-13 00:00 to 2014-05-14 00:00"
