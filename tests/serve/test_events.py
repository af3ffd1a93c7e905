"""Events over HTTP: checked, brought to one form, queued, and learned by a stream."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, SettingError
from ensue.serve import events
from ensue.serve.bodies import Limits, limited
from ensue.serve.events import EventList, open_queue, put, read_events
from ensue.serve.problems import RequestError
from ensue.serve.settings import ServeSettings
from ensue.stream import SQLiteQueue
from tests.cli.conftest import run
from tests.serve.conftest import running
from tests.stream.conftest import Server, server, streamed

__all__ = ["server"]  # the fixture of a Redis server

SETTINGS = ServeSettings(events=100, fields=20, history=50, value_characters=200)
BODY = limited("Events", EventList, Limits(SETTINGS))
PLAIN = {"session": "s1", "item": "v3", "time": 1_700_000_000}
UBI = {
    "application": "shop",
    "action_name": "click",
    "client_id": "c1",
    "session_id": "s2",
    "query_id": "q1",
    "timestamp": "2023-11-14T22:13:20Z",
    "event_attributes": {"object": {"object_id": "v4", "object_id_field": "sku"}, "position": {"ordinal": 3}},
}


def queued(path: Path) -> list[dict[str, Any]]:
    with sqlite3.connect(path) as database:
        return [json.loads(line) for (line,) in database.execute("SELECT line FROM events ORDER BY position")]


def lines(found: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_events(found, BODY, SETTINGS).lines]


def test_one_many_and_wrapped() -> None:
    expected = {"session": "s1", "item": "v3", "time": 1.7e9}
    assert lines(PLAIN) == [expected]
    assert lines([PLAIN, PLAIN]) == [expected] * 2
    assert lines({"events": [PLAIN]}) == [expected]
    assert lines([]) == []


def test_names_units_and_ids_come_to_one_form() -> None:
    """Each client may name its fields as it likes; milliseconds and dates become seconds."""
    given = [
        {"session_id": 7, "article_id": "n1", "timestamp_ms": 1_700_000_000_500, "event_id": "e1"},
        {"sid": "x", "session": "s", "item": "a", "time": "2023-11-14T22:13:20Z"},
        {"values": ["a", "b"], "times": [5, 6.5], "id": "h"},
    ]
    assert lines(given) == [
        {"session": "7", "item": "n1", "time": 1_700_000_000.5, "id": "e1"},
        {"session": "s", "item": "a", "time": 1.7e9},
        {"session": "h", "item": "a", "time": 5.0},
        {"session": "h", "item": "b", "time": 6.5},
    ]


def test_histories_without_a_name_are_sessions_of_their_own() -> None:
    given = [{"values": ["a"], "times": [1]}, {"values": ["b"], "times": [2]}]
    first, second = (line["session"] for line in lines(given))
    assert first != second


def test_ubi_events() -> None:
    """Clicks on objects are taken; searches, and objects that were only shown, are passed over and counted."""
    search = {"action_name": "on_search", "client_id": "c1", "timestamp": "2023-11-14T22:13:20Z"}
    shown = {**UBI, "action_name": "impression"}
    alone = {name: value for name, value in UBI.items() if name != "session_id"}
    taken = read_events([UBI, search, shown, {**alone, "event_id": "e7"}], BODY, SETTINGS)
    assert [json.loads(line) for line in taken.lines] == [
        {"session": "s2", "item": "v4", "time": 1.7e9},
        {"session": "c1", "item": "v4", "time": 1.7e9, "id": "e7"},
    ]
    assert taken.passed_over == 2


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (3, r"^events\[0\]: must be an object such as"),
        ([PLAIN, {}], r"^events\[1\]: must be an object such as"),
        ({"events": 3}, r"^events\[0\]: must be an object"),
        ({"events": [], "more": 1}, r"^field 'more' is not known"),
        ([PLAIN, {**PLAIN, "item": ""}], r"^events\[1\]: field 'item' \(item\) is missing$"),
        ([{**PLAIN, "time": "noon"}], r"^events\[0\]: .*noon"),
        ([{"session": "s", "item": "a"}], r"^events\[0\]: no field is recognised as the time"),
        ([{"who": "s", "what": "a", "time": 3}], r"^events\[0\]: no column is recognised as the session"),
        ([{**PLAIN, "item": "\ud800"}], r"^events\[0\]: field 'item' holds half a character"),
        ([{**UBI, "session_id": None, "client_id": None}], r"^events\[0\]: fields \"session_id\" and \"client_id\""),
        ([{**UBI, "timestamp": None}], r"^events\[0\]: field 'time' \(time\) is missing$"),
        ([{**UBI, "action_name": []}], r"^events\[0\]: field \"action_name\" must be a text$"),
        ([{"values": ["a"]}], r"^events\[0\]: field \"times\" is missing"),
        ([PLAIN] * 101, r"^101 events exceed the limit of 100 per request"),
        (
            [{**PLAIN, **{f"c{at}": 1 for at in range(50)}}],
            r"^events\[0\]: 53 fields are more than the 20 of an event; ",
        ),
        *(
            ([PLAIN, {**PLAIN, field: "é" * 201}], r"^events\[1\]: 201 characters are more than the 200 of a value; ")
            for field in ("session", "item", "id")
        ),
        (
            [{**PLAIN, f"c{at}": 1} for at in range(11)],
            r"^events\[10\]: the events before have 10 different sets of fields; send events of the",
        ),
        (
            {"values": ["a"] * 51, "times": list(range(51))},
            r"^events\[0\]: 51 values are more than the 50 of a history; send the latest$",
        ),
        (
            {"values": ["a"], "times": [1], "id": "x" * 201},
            r"^events\[0\]: 201 characters are more than the 200 of a value; shorten it, or start the service",
        ),
    ],
)
def test_what_is_no_event_is_said(found: Any, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_KINDS", 10)
    with pytest.raises(DataError, match=error):
        read_events(found, BODY, SETTINGS)


def test_all_or_none_go_into_the_queue(fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with running({"counted": fitted / "counted"}, queue=open_queue(f"sqlite:{path}")) as service:
        refused = service.post("/v1/events", [PLAIN, {"item": "v1"}])
        assert (refused.status_code, refused.json()["error"][:10]) == (422, "events[1]:")
        assert queued(path) == []
        found = service.post("/v1/events", [PLAIN, UBI, {"action_name": "login", "client_id": "c"}])
        assert (found.status_code, found.json()) == (202, {"accepted": 2, "passed_over": 1})
        assert [line["item"] for line in queued(path)] == ["v3", "v4"]
        assert "ensue_events_total 2.0" in service.client.get("/metrics").text


def test_a_stream_learns_what_came(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    clicks = [{"session": "s1", "item": f"v{at}", "time": 1_700_000_000 + at} for at in range(5)]
    with running({"clicks": folder}, queue=open_queue(str(path))) as service:
        assert service.post("/v1/events", clicks).status_code == 202
    _, last = streamed(folder, f"sqlite:{path}")
    assert (last.counts.events, last.counts.rejected, last.counts.sessions) == (5, 0, 1)


def test_redis_takes_them_too(server: Server) -> None:
    queue = open_queue(server.address)
    queue.put(['{"session": "s1", "item": "a", "time": 1}', '{"session": "s1", "item": "b", "time": 2}'])
    with server.client() as client:
        assert [fields for _, fields in client.xrange("clicks")][1] == {
            b"line": b'{"session": "s1", "item": "b", "time": 2}'
        }


def test_without_a_queue(fitted: Path) -> None:
    with running({"counted": fitted / "counted"}) as service:
        found = service.post("/v1/events", PLAIN)
        assert (found.status_code, found.json()["error"]) == (404, "this service takes no events")


def test_a_queue_that_cannot_be_written(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is told to come again, and not where the queue is."""

    def fail(self: SQLiteQueue, lines: Any) -> int:
        raise sqlite3.OperationalError(f"disk I/O error at {tmp_path}")

    with running({"counted": fitted / "counted"}, queue=open_queue(str(tmp_path / "q.db"))) as service:
        monkeypatch.setattr(SQLiteQueue, "put", fail)
        found = service.post("/v1/events", PLAIN)
        assert (found.status_code, found.json()["error"]) == (503, "the queue of events cannot be written")
        assert found.headers["retry-after"] == "5"
        assert str(tmp_path) not in found.text


SECRET = "s3cr3t"


def test_the_password_of_a_queue_is_shown_nowhere(fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("redis")
    for address, message in (
        (f"redis://ann:{SECRET}@127.0.0.1:1/0", "no stream is named"),
        (f"redis://ann:{SECRET}/x@127.0.0.1:1/0?stream=a", "host, port or database cannot be read"),
        (f"redis:/ann:{SECRET}@127.0.0.1:1/0?stream=a", "--queue redis:/***@127.0.0.1:1/0?stream=a: cannot be opened"),
        (f"kafka://ann:{SECRET}@127.0.0.1:1/clicks", "kafka:// is not known"),
    ):
        done = run(monkeypatch, "serve", fitted / "counted", "--port", "0", "--queue", address)
        assert done.code == 2 and message in done.err and SECRET not in done.out + done.err
    queue = open_queue(f"redis://ann:{SECRET}@127.0.0.1:1/0?stream=a")
    with running({"counted": fitted / "counted"}, queue=queue) as one:
        answers = [one.post("/v1/events", PLAIN)]
        assert answers[0].status_code == 503
        answers += [one.client.get(path) for path in ("/readyz", "/healthz", "/metrics", "/v1/models", "/openapi.json")]
        shown = [json.dumps(one.lines()), repr(one.service), *(answer.text for answer in answers)]
        shown += [str(answer.headers) for answer in answers]
    assert not any(SECRET in text for text in shown)


def test_addresses_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be opened"):
        open_queue(f"sqlite:{tmp_path}/missing/queue.db")
    pytest.importorskip("redis")
    with pytest.raises(SettingError, match="no stream is named"):
        open_queue("redis://127.0.0.1:1/0")
    away = open_queue("redis://127.0.0.1:1/0?stream=clicks")
    with pytest.raises(RequestError):
        put(away, ["{}"])
