"""Lines to events: every name and unit, and a reason for every line that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ensue import SettingError
from ensue.data.schema import DataSchema
from ensue.stream.events import LONGEST, EventReader, Events

GOOD = b'{"session": "s1", "item": "a", "time": 1700000000}'


def read(*lines: bytes, **options: Any) -> tuple[Events, list[tuple[int, str]]]:
    return EventReader("log", **options).read(lines, [f"byte {n}" for n in range(len(lines))])


def reason(line: bytes, *before: bytes, **options: Any) -> str:
    """Why the last of some lines is put aside, all others being good."""
    found, rejects = read(*before, line, **options)
    assert len(found) == len(before)
    ((number, why),) = rejects
    assert number == len(before)
    return why


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ('{"session_id": 7, "item_id": 12, "timestamp": 1700000000.5}', ("7", "12", 1700000000.5, "")),
        ('{"session_id": 7.0, "item_id": 12.0, "timestamp": 1.5, "id": 3.0}', ("7", "12", 1.5, "3")),
        ('{"SessionId": "7", "url": "/a", "ts": "1700000000", "event_id": 3}', ("7", "/a", 1.7e9, "3")),
        ('{"session": "s", "item": "a", "time": 1700000000123}', ("s", "a", 1700000000.123, "")),
        ('{"session": "s", "item": "a", "time_ms": 1500}', ("s", "a", 1.5, "")),
        ('{"session": "s", "item": "a", "time": 1700000000123456}', ("s", "a", 1700000000.123456, "")),
        ('{"session": "s", "item": "a", "time": "1700000000500000000"}', ("s", "a", 1700000000.5, "")),
        ('{"session": "s", "item": "a", "time_us": 1500000}', ("s", "a", 1.5, "")),
        ('{"session": "s", "item": "a", "time": "2023-11-14T22:13:20Z"}', ("s", "a", 1.7e9, "")),
        ('{"session": "s", "item": "a", "time": "2023-11-14 22:13:20"}', ("s", "a", 1.7e9, "")),
        ('{"session": "s", "item": "a", "date": "2023-11-14", "time": "22:13:20"}', ("s", "a", 1.7e9, "")),
        ('{"session": "s", "item": "a", "date": 20231114, "hour": 22}', ("s", "a", 1.7e9 - 800, "")),
        ('\ufeff{"session": "s", "item": "é", "time": 5, "id": "x"}\r', ("s", "é", 5.0, "x")),
    ],
)
def test_an_event_by_any_name(line: str, event: tuple[str, str, float, str]) -> None:
    found, rejects = read(line.encode())
    assert rejects == []
    assert (found.sessions, found.values, found.times, found.marks) == tuple([part] for part in event)


def test_stated_columns_and_unit_come_first() -> None:
    line = b'{"who": "u", "what": "a", "session": "s", "item": "b", "at": 2}'
    stated = {"session": "who", "item": "what", "time": "at"}
    found, rejects = read(line, columns=stated, unit="h")
    assert (rejects, found.sessions, found.values, found.times) == ([], ["u"], ["a"], [7200.0])


def test_a_whole_history_is_its_events() -> None:
    lines = [b'{"values": ["a", 5], "times": [1, 2], "id": "s"}', b'{"values": ["c"], "times": [3]}']
    found, rejects = read(*lines)
    assert rejects == []
    assert found.sessions == ["s", "s", "byte 1"]  # one without a name is a session of its own
    assert (found.values, found.times, found.marks) == (["a", "5", "c"], [1.0, 2.0, 3.0], ["", "", ""])


def test_empty_lines_are_passed_over() -> None:
    found, rejects = read(b"", b"  \r", GOOD)
    assert (len(found), rejects) == (1, [])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not JSON (Expecting property name"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"5", "not a JSON object"),
        (b'{"session": "s"} {}', "not JSON (Extra data"),
        (b'{"session": "\xff"}', "not UTF-8 (invalid start byte at byte 13)"),
        (b"[" * 100_000, "not JSON (maximum recursion"),
        (
            json.dumps(dict.fromkeys(map(str, range(60_000)), 1)).encode(),
            "an event of 60,000 fields, more than the 1,000",
        ),
        (
            b'{"session": "s", "item": "NaN", "time": 1}',
            "field 'item' (item) holds 'NaN', a word for a missing id; fit",
        ),
        (b" " * (LONGEST + 1), "longer than 1,048,576 bytes"),
        (
            b'{"session": "s", "item": "%s", "time": 1}' % (b"y" * 1001),
            "an id has 1,001 characters, more than the 1,000 that one may have",
        ),
        (b'{"values": ["%s"], "times": [1]}' % (b"y" * 5000), "an id has 5,000 characters"),
        (b'{"session": "s", "item": "a"}', "field 'time' (time) is missing"),
        (b'{"session": "s", "item": "a", "time": null}', "field 'time' (time) is missing"),
        (b'{"session": "s", "time": 1700000000}', "field 'item' (item) is missing"),
        (b'{"session": "", "item": "a", "time": 1700000000}', "field 'session' (session) is missing"),
        (
            b'{"session": "s", "item": true, "time": 1700000000}',
            "field 'item' (item): True is not an id but of type bool; ids are",
        ),
        (
            b'{"session": 1.5, "item": "a", "time": 1}',
            "field 'session' (session): 1.5 is not an id; ids are texts or whole numbers",
        ),
        (b'{"session": "s", "item": "\\ud800", "time": 1700000000}', "field 'item' holds half a character"),
        (b'{"session": "s", "item": "a", "time": true}', "field 'time' (time) must be a number or a date"),
        (b'{"session": "s", "item": "a", "time": "noon"}', "time 'noon' is not a number or an ISO date"),
        (b'{"session": "s", "item": "a", "time": NaN}', "time nan is not a finite number"),
        (b'{"session": "s", "item": "a", "time": 1' + b"0" * 400 + b"}", "field 'time' (time) is too large"),
        (
            b'{"session": "s", "item": "a", "time": 1700000000123}',
            "looks like milliseconds, but the stream is in seconds",
        ),
        (
            b'{"session": "s", "item": "a", "time": "2023-11-14"}',
            "time '2023-11-14' is not in the stream's unit, seconds",
        ),
        (b'{"values": ["a", "b"]}', 'field "times" is missing; a stream needs one time per value'),
        (b'{"values": ["a", "b"], "times": [2, 1]}', "history: history '': times[1] = 1.0 comes after 2.0"),
        (b'{"values": ["a"], "times": [1700000000123]}', "times[0] cannot be seconds, a history's unit"),
    ],
)
def test_a_bad_line_is_named_and_the_others_go_on(line: bytes, why: str) -> None:
    assert why in reason(line, GOOD)


@pytest.mark.parametrize(
    "line",
    [
        {"session": "s", "item": "a", "time": "x" * 5000},
        {"session": "s", "item": "a", "time": "\x1b[2J" * 5000},
        {"f\x1b[2J" * 3000: 1},
        {f"field {number}": 1 for number in range(5000)},
    ],
)
def test_what_a_reason_quotes_of_a_line_is_short_and_harmless(line: dict[str, object]) -> None:
    found = reason(json.dumps(line).encode())
    assert len(found) < 2000 and found.isprintable()


def test_a_stream_in_milliseconds_refuses_seconds() -> None:
    first = b'{"session": "s", "item": "a", "time": 1700000000123}'
    assert reason(GOOD, first) == "time 1700000000 looks like seconds, but the stream is in milliseconds"


def test_before_the_first_event_nothing_is_taken_for_granted() -> None:
    assert "no column is recognised as the session" in reason(b'{"item": "a", "time": 1}')
    assert "no field is recognised as the time" in reason(b'{"session": "s", "item": "a"}')
    found, rejects = read(b'{"session": "s", "item": "a"}', b'{"user": "u", "item": "a", "time": 1}', GOOD)
    assert found.sessions == ["u"]  # the first good line says that a sequence is a user
    assert [number for number, _ in rejects] == [0, 2]


def test_what_was_understood_survives_a_restart() -> None:
    one, other = EventReader("log"), EventReader("log")
    one.read([b'{"session": "s", "item": "a", "time": 1700000000123}'], [""])
    other.restore(one.state())
    assert other.understood == "session=session, item=item, time=time; times in milliseconds"
    _, rejects = other.read([GOOD], [""])
    assert "looks like seconds" in rejects[0][1]


def test_options_without_meaning() -> None:
    with pytest.raises(SettingError, match="--time-unit 'min' is not known; choose from s, ms, us, ns, h, days, iso"):
        EventReader("log", unit="min")
    with pytest.raises(SettingError, match="role 'user' is not known"):
        EventReader("log", columns={"user": "x"})


@pytest.mark.parametrize(
    ("schema", "time", "seconds"),
    [
        (DataSchema(time_unit="h"), 472_222, 1_699_999_200.0),
        (DataSchema(time_unit="ms"), 1500, 1.5),
        (DataSchema(time_unit="ms"), 1_700_000_000_123, 1_700_000_000.123),
        (DataSchema(time_unit="days"), 45_000.5, 1_678_924_800.0 - 3600 * 12),
        (DataSchema(time_unit="iso"), 1_700_000_000, 1.7e9),
        (DataSchema(day_first=True), "03/04/2024 10:00", 1_712_138_400.0),
        (DataSchema(day_first=False), "03/04/2024 10:00", 1_709_546_400.0),
        (DataSchema(), "Tue, 14 Nov 2023 22:13:20 GMT", 1.7e9),
    ],
)
def test_times_are_read_as_those_of_the_training_data(schema: DataSchema, time: object, seconds: float) -> None:
    line = json.dumps({"session": "s", "item": "a", "time": time}).encode()
    found, rejects = read(line, schema=schema)
    assert (found.times, rejects) == ([seconds], [])


@pytest.mark.parametrize(
    ("schema", "time", "why"),
    [
        (DataSchema(time_unit="ms"), 1_700_000_000, "looks like seconds, but the stream is in milliseconds"),
        (DataSchema(time_unit="h"), 1_700_000_000, "cannot be hours"),
        (DataSchema(), "03/04/2024 10:00", "may be day-first or month-first, and the training data does not"),
        (DataSchema(day_first=True), "03/14/2024", "is not a number or an ISO date"),
        (DataSchema(day_first=True), "1/" * 100_000, "is not a number or an ISO date"),
    ],
)
def test_a_time_that_contradicts_the_training_data_is_rejected(schema: DataSchema, time: object, why: str) -> None:
    assert why in reason(json.dumps({"session": "s", "item": "a", "time": time}).encode(), schema=schema)


def test_columns_and_missing_ids_are_those_of_the_training_data() -> None:
    line = b'{"user": "u", "session": "s", "item": "NA", "product": "p", "time": 1, "date": 2}'
    schema = DataSchema(columns={"session": "user", "item": "item", "time": "date"}, missing="keep")
    found, rejects = read(line, schema=schema)
    assert (found.sessions, found.values, found.times, rejects) == (["u"], ["NA"], [2.0], [])


def test_events_of_types_that_the_model_was_not_fitted_on_are_passed_over() -> None:
    columns = {"session": "session", "item": "item", "time": "time", "event": "kind"}
    reader = EventReader("clicks", schema=DataSchema(columns=columns, events="view, cart"))
    records = [{"session": "s", "item": kind, "time": 1_700_000_000, "kind": kind} for kind in ("view", "buy", "cart")]
    events, rejects = reader.read([json.dumps(record).encode() for record in records], ["", "", ""])
    assert (events.values, events.lines, rejects) == (["view", "cart"], [0, 2], [])


def test_stated_event_types_come_before_those_of_the_training_data() -> None:
    schema = DataSchema(columns={"session": "session", "item": "item", "time": "time"}, events="view")
    reader = EventReader("clicks", schema=schema, events="buy")
    records = [{"session": "s", "item": kind, "time": 1_700_000_000, "action": kind} for kind in ("view", "buy")]
    records.append({"session": "s", "item": "x", "time": 1_700_000_000})
    events, rejects = reader.read([json.dumps(record).encode() for record in records], ["", "", ""])
    assert events.values == ["buy"]
    assert rejects == [(2, "no field holds the event type; the fields are 'session', 'item', 'time'")]


def test_a_day_with_its_hour_and_minute_or_milliseconds_is_one_time() -> None:
    rows: list[dict[str, object]] = [
        {"session": "a", "item": "x", "date": "2023-11-14", "hour": 13, "minute": minute} for minute in (5, 50)
    ]
    assert _times(rows) == [1_699_967_100.0, 1_699_969_800.0]
    visits: list[dict[str, object]] = [
        {"sessionId": 1, "itemId": 2, "timeframe": offset, "eventdate": "2016-05-09"} for offset in (1234, 99_000)
    ]
    assert _times(visits) == [1_462_752_001.234, 1_462_752_099.0]


def _times(rows: list[dict[str, object]]) -> list[float]:
    lines = [json.dumps(row).encode() for row in rows]
    events, rejects = EventReader("stream").read(lines, ["line"] * len(lines))
    assert not rejects
    return events.times
