"""Redis Streams: the committed position rules, whatever was delivered, acknowledged or lost on the way."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import pytest

from ensue.errors import DataError, SettingError
from ensue.stream.redis_streams import RedisStream
from tests.stream.conftest import Server


def started(server: Server, position: Any = None, told: list[str] | None = None) -> RedisStream:
    source = RedisStream(server.address, told.append if told is not None else print)
    source.begin(position)
    return source


def rest(source: RedisStream, limit: int = 512) -> list[bytes]:
    found: list[bytes] = []
    while (block := source.read(limit, 0.0)).lines:
        found += block.lines
    assert block.at_end
    return found


def pending(server: Server) -> int:
    with server.client() as client:
        return int(client.xpending("clicks", "ensue")["pending"])


def test_entries_are_acknowledged_after_the_commit_and_not_before(server: Server) -> None:
    server.add(["1", "2", "3"])
    source = started(server)
    block = source.read(2, 0.0)
    assert block.lines == [b"1", b"2"]
    assert pending(server) == 2
    source.committed(block.position)
    assert pending(server) == 0
    assert rest(source) == [b"3"]
    assert pending(server) == 1
    source.close()


def test_a_restart_goes_on_from_the_committed_position(server: Server) -> None:
    server.add(["1", "2", "3", "4", "5"])
    source = started(server)
    position = source.read(2, 0.0).position
    source.read(2, 0.0)  # delivered, never committed
    source.close()
    again = started(server, json.loads(json.dumps(position)))
    assert rest(again, limit=1) == [b"3", b"4", b"5"]
    assert pending(server) == 3  # the acknowledgement of the first two was made up for
    again.close()


def test_an_older_position_brings_entries_back_that_were_acknowledged(server: Server) -> None:
    server.add(["1", "2", "3"])
    source = started(server)
    first = source.read(1, 0.0).position
    source.committed(source.read(2, 0.0).position)
    source.close()
    back = started(server, first)  # as after `ensue update --rollback`
    assert rest(back) == [b"2", b"3"]
    back.close()


def test_fields_in_place_of_a_line(server: Server) -> None:
    with server.client() as client:
        client.xadd("clicks", {"session": "s", "item": "a", "time": "5"})
        client.xadd("clicks", {"session": b"\xff"})
    source = started(server)
    found = rest(source)
    assert json.loads(found[0]) == {"session": "s", "item": "a", "time": "5"}
    assert found[1] == b"session \xff"
    source.close()


def test_the_server_goes_away_and_comes_back(server: Server) -> None:
    told: list[str] = []
    server.add(["1", "2", "3"])
    source = started(server, told=told)
    block = source.read(2, 0.0)
    server.stop()
    for _ in range(3):
        away = source.read(512, 0.05)
        assert (away.lines, away.at_end, away.position) == ([], False, block.position)
    source.committed(block.position)  # cannot be told now
    server.start()
    server.add(["4"])
    found: list[bytes] = []
    until = time.monotonic() + 20
    while len(found) < 2 and time.monotonic() < until:
        found += source.read(512, 0.05).lines
    assert found == [b"3", b"4"]
    assert [text.split(": ")[0].split(" (")[0] for text in told] == [
        f"redis at 127.0.0.1:{server.port} is away",
        f"redis at 127.0.0.1:{server.port} is back",
    ]
    assert pending(server) == 2
    source.close()


def test_a_server_that_lost_everything(server: Server) -> None:
    server.add(["1"])
    source = started(server)
    assert rest(source) == [b"1"]
    with server.client() as client:
        client.flushall()
    assert source.read(512, 0.0).lines == []
    server.add(["2"])
    assert rest(source) == [b"2"]
    source.close()


def test_reading_waits_for_what_is_to_come(server: Server) -> None:
    source = started(server)
    assert source.read(1, 0.0).at_end
    timer = threading.Timer(0.1, server.add, [["1"]])
    timer.start()
    assert source.read(1, 10.0).lines == [b"1"]
    timer.join()
    source.close()


def test_how_far_behind(server: Server) -> None:
    with server.client() as client:
        client.xadd("clicks", {"line": "1"}, id="1000-0")
        client.xadd("clicks", {"line": "2"}, id="3500-1")
    source = started(server)
    source.read(1, 0.0)
    assert source.behind() == (2.5, "s")
    source.close()


def test_what_is_no_stream(server: Server) -> None:
    with server.client() as client:
        client.set("clicks", "text")
    source = started(server)
    with pytest.raises(DataError, match="'clicks' is no stream to read"):
        source.read(1, 0.0)
    source.close()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("redis://127.0.0.1:1/0", "no stream is named; write redis://127.0.0.1:6379/0?stream=clicks&group=ensue"),
        ("redis://127.0.0.1:1/0?stream=a&key=b", "'key' is not known"),
    ],
)
def test_addresses_that_are_refused(address: str, told: str) -> None:
    with pytest.raises(SettingError) as error:
        RedisStream(address, print)
    assert told in str(error.value)


def test_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SettingError, match=r"needs the extra: pip install 'ensue\[redis\]'"):
        RedisStream("redis://127.0.0.1:1/0?stream=clicks", print)


def test_what_a_service_writes_is_what_a_stream_reads(server: Server) -> None:
    events = pytest.importorskip("ensue.serve.events")
    found = [{"session": "s1", "item": "a7", "time": 1700000000}, {"session": "s1", "item": "b2", "time": 1700000009}]
    events.open_queue(server.address).put(events.read_events(found, events.EventList, events.ServeSettings()).lines)
    source = started(server)
    found = [json.loads(line) for line in rest(source)]
    assert [(one["session"], one["item"]) for one in found] == [("s1", "a7"), ("s1", "b2")]
    source.close()
