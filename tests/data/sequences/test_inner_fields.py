"""Events as trackers export them: fields of inner objects, items in lists, and a number that orders a session."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ensue.data.sequences import read
from ensue.data.sequences.prepare import prepare
from ensue.data.table import ReadOptions, flat
from ensue.errors import DataError
from ensue.stream.events import EventReader
from tests.data.files import write

START = 1_700_000_000
SESSIONS = {"u1": ("a", "b", "c"), "u2": ("b", "c")}
EVENTS = [
    (name, item, START + 20 * place + 5000 * (name == "u2"))
    for place in range(3)
    for name, items in SESSIONS.items()
    for item in items[place : place + 1]
]
EXPORTS: dict[str, list[dict[str, object]]] = {
    "segment": [
        {"anonymousId": name, "userId": None, "timestamp": time, "properties": {"product_id": item, "price": 2.5}}
        for name, item, time in EVENTS
    ],
    "mixpanel": [
        {"event": "view", "properties": {"distinct_id": name, "item_id": item, "time": time}}
        for name, item, time in EVENTS
    ],
    "objects": [{"user": {"id": name}, "item": {"id": item}, "time": time} for name, item, time in EVENTS],
    "google analytics": [
        {"event_timestamp": 1_000_000 * time, "user_pseudo_id": name, "items": [{"item_id": item, "price": 1.0}]}
        for name, item, time in EVENTS
    ],
}


def read_sessions(path: Path) -> dict[str, tuple[str, ...]]:
    return {history.id.split("#")[0]: history.values for history in read(path)[0].records()}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", EXPORTS)
def test_inner_fields_are_columns(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / f"events.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(event) + "\n" for event in EXPORTS[name]))
    else:
        pl.DataFrame(EXPORTS[name]).write_parquet(path)
    histories, _ = read(path)
    assert read_sessions(path) == SESSIONS
    assert histories.times.tolist() == [time for _, _, time in sorted(EVENTS, key=lambda event: (event[0], event[2]))]


def test_an_inner_field_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, '{"who": {"name": {"first": "u"}}, "a.b": "x", "a": {"b": "y"}}\n')
    columns = {"session": "who.name.first", "item": "a.b"}
    assert [history.values for history in read(path, columns=columns)[0].records()] == [("x",)]
    with pytest.raises(DataError, match=r"column 'who' \(session\) is missing"):
        read(path, columns={**columns, "session": "who"})


def test_an_event_with_several_items_is_as_many_events(tmp_path: Path) -> None:
    views = [("u", 5, ["a", "b"]), ("v", 6, ["b"]), ("u", 7, ["c"]), ("w", 8, [])]
    lines = [{"user_id": u, "time": t, "items": [{"item_id": item} for item in items]} for u, t, items in views]
    path = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))
    histories, report = read(path)
    assert {record.id: (record.values, record.times) for record in histories.records()} == {
        "u": (("a", "b", "c"), (5, 5, 7)),
        "v": (("b",), (6,)),
    }
    assert report.columns == {"session": "user_id", "item": "item_id", "time": "time"}
    # A session a row may have one time as a whole, which says nothing of its events.
    one = read(write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines[:2])))[1]
    assert "time 'time' is not in the lists and is not read" in one.notes and "time" not in one.columns


def test_a_stream_has_inner_fields(tmp_path: Path) -> None:
    reader = EventReader("events")
    lines = [json.dumps(event).encode() for event in EXPORTS["mixpanel"]]
    events, rejects = reader.read(lines, [""] * len(lines))
    assert not rejects and reader.columns["item"] == "properties.item_id"
    assert list(zip(events.sessions, events.values, events.times, strict=True)) == EVENTS


def test_flat_objects() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": [{"e": 2}]}, "f": None, "g": {}}) == {
        "f": None,
        "a.d": [{"e": 2}],
        "a.b.c": 1,
    }
    assert flat({"a": {"b": 1}, "a.b": 2}) == {"a.b": 2}


# --- order without times ----------------------------------------------------------------------------------------------


def test_sessions_without_times_are_ordered_by_their_positions(tmp_path: Path) -> None:
    path = write(tmp_path, "session,item,position\nu,c,3\nv,y,1\nu,a,1\nv,x,0\nu,b,2\n")
    histories, report = read(path)
    assert [record.values for record in histories.records()] == [("a", "b", "c"), ("x", "y")]
    assert "events have no times and are in order of 'position'" in report.notes
    assert not histories.timed and "turn" not in report.columns
    with pytest.raises(DataError, match=r"'position' may be their order.*--columns time=position"):
        prepare([path], tmp_path / "prepared", ReadOptions())


@pytest.mark.parametrize("positions", [(1, 1, 2), (1, 5, 3), (3, "", 1), ("last", 2, 1)])
def test_other_numbers_order_nothing(tmp_path: Path, positions: tuple[object, ...]) -> None:
    rows = "".join(f"u,{item},{position}\n" for item, position in zip("abc", positions, strict=True))
    histories, report = read(write(tmp_path, "session,item,position\n" + rows))
    assert histories.record(0).values == ("a", "b", "c")
    assert not any("in order of" in note for note in report.notes)


def test_times_come_before_positions(tmp_path: Path) -> None:
    path = write(tmp_path, "session,item,position,time\nu,a,2,1\nu,b,1,2\n")
    assert read(path)[0].record(0).values == ("a", "b")
