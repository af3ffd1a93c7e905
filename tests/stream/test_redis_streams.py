"""Redis Streams: the committed position rules, whatever was delivered, acknowledged or lost on the way."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, SettingError
from ensue.stream.brokers import open_source
from ensue.stream.sources import StreamSource
from tests.stream.conftest import Server, log, streamed


def started(server: Server, position: Any = None, told: list[str] | None = None) -> StreamSource:
    source = open_source(server.address, told.append if told is not None else print)
    source.begin(position)
    return source


def rest(source: StreamSource, limit: int = 512) -> list[bytes]:
    found: list[bytes] = []
    while (block := source.read(limit, 0.0)).lines:
        found += block.lines
    assert block.at_end
    return found


def group_of(server: Server) -> dict[str, Any]:
    """What a tool that displays the lag sees."""
    with server.client() as client:
        (group,) = client.xinfo_groups("clicks")
    return {name: group[name] for name in ("name", "consumers", "pending", "last-delivered-id", "lag")}


def test_the_group_follows_the_commits(server: Server) -> None:
    ids = server.add(["1", "2", "3"])
    source = started(server)
    block = source.read(2, 0.0)
    assert block.lines == [b"1", b"2"]
    with server.client() as client:
        assert client.xinfo_groups("clicks") == []
    source.committed(block.position)
    group = {"name": b"ensue", "consumers": 0, "pending": 0, "last-delivered-id": ids[1], "lag": 1}
    assert group_of(server) == group
    assert rest(source) == [b"3"]
    source.close()
    assert group_of(server) == group


def test_a_restart_goes_on_from_the_committed_position_wherever_the_group_is(server: Server) -> None:
    ids = server.add(["1", "2", "3", "4", "5"])
    source = started(server)
    position = source.read(2, 0.0).position
    source.committed(source.read(2, 0.0).position)
    source.close()
    assert group_of(server)["last-delivered-id"] == ids[3]
    back = started(server, json.loads(json.dumps(position)))  # as after `ensue update --rollback`
    assert rest(back, limit=1) == [b"3", b"4", b"5"]
    back.committed(position)
    assert group_of(server)["last-delivered-id"] == ids[1]
    back.close()


def test_two_models_and_a_foreign_reader_of_one_group_read_every_entry(
    server: Server, folder: Path, fitted: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(fitted, tmp_path / "other"))
    told: list[str] = []
    lines = log(200)
    with server.client() as client:
        client.xgroup_create("clicks", "ensue", id="0", mkstream=True)
        for begin in range(0, len(lines), 40):
            server.add(lines[begin : begin + 40])
            ((_, entries),) = client.xreadgroup("ensue", "foreign", {"clicks": ">"}, count=15)
            client.xack("clicks", "ensue", *(entry for entry, _ in entries))
            for model in (folder, other):
                streamed(model, server.address, log=told.append)
        (group,) = client.xinfo_groups("clicks")
    assert group["consumers"] == 1 and group["entries-read"] == 15 * -(-len(lines) // 40)  # the reader's alone
    counts = [json.loads((model / "stream.json").read_text())["counts"] for model in (folder, other)]
    assert counts[0] == counts[1] and counts[0]["lines"] == len(lines) and counts[0]["events"] == 200
    assert set(told) == {
        f"redis at 127.0.0.1:{server.port}: group 'ensue' has consumers and does not follow this model"
    }


def test_entries_that_redis_removed_before_they_were_read_are_counted(server: Server) -> None:
    told: list[str] = []
    ids = server.add([str(number) for number in range(10)])
    source = started(server, told=told)
    position = source.read(3, 0.0).position
    with server.client() as client:
        client.xtrim("clicks", maxlen=7, approximate=False)  # as far as it was read
        assert source.read(1, 0.0).lines == [b"3"] and told == []
        client.xtrim("clicks", maxlen=4, approximate=False)
        assert rest(source) == [b"6", b"7", b"8", b"9"]
        lost = (
            "removed after entry {} before the model read them (XTRIM, MAXLEN, XDEL) and are lost; let the stream "
            "keep more entries"
        )
        begin = f"warning: redis at 127.0.0.1:{server.port}: 'clicks':"
        assert told == [f"{begin} 2 entries were {lost.format(ids[3].decode())}"]
        again = started(server, json.loads(json.dumps(position)), told)
        assert len(rest(again)) == 4
        assert told[1:] == [f"{begin} 3 entries were {lost.format(ids[2].decode())}"]
        server.add(["10"])
        client.xtrim("clicks", maxlen=0, approximate=False)
        assert rest(again) == []
        assert told[2:] == [f"{begin} 1 entry was {lost.format(ids[9].decode())}"]
        server.add(["11"])
        assert rest(again) == [b"11"] and len(told) == 3
    begins_late = started(server, told=told)  # what was removed before a model began is no loss
    assert rest(begins_late) == [b"11"] and len(told) == 3
    for one in (source, again, begins_late):
        one.close()


def test_entries_of_any_size_take_little_memory_and_nothing_else_is_lost(server: Server, folder: Path) -> None:
    good = log(40)
    with server.client() as client:
        for _ in range(4):
            client.xadd("clicks", {"line": b"x" * 3_000_000})
        client.xadd("clicks", {f"c{number}": 1 for number in range(100_000)})
    server.add(good)
    source = started(server)
    block = source.read(512, 0.0)
    assert len(block.lines) == 32  # a page: it has more than 8 MiB, at which a block ends
    assert [len(line) for line in block.lines[:6]] == [2**20 + 1] * 5 + [len(good[0])]
    source.close()
    _, last = streamed(folder, server.address)
    assert (last.counts.lines, last.counts.rejected, last.counts.events) == (5 + len(good), 5, 40)
    rejects = [json.loads(line) for line in last.rejects.path.read_text().splitlines()]
    assert [entry["reason"] for entry in rejects] == ["longer than 1,048,576 bytes"] * 5
    assert {len(entry["line"]) for entry in rejects} == {1000}


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
        f"redis at 127.0.0.1:{server.port} is unreachable",
        f"redis at 127.0.0.1:{server.port} is back",
    ]
    source.committed(source.read(1, 0.0).position)
    assert group_of(server)["lag"] == 0
    source.close()


def test_a_server_that_lost_everything(server: Server) -> None:
    told: list[str] = []
    (entry,) = server.add(["1"])
    source = started(server, told=told)
    assert rest(source) == [b"1"]
    with server.client() as client:
        client.flushall()
    assert source.read(512, 0.0).lines == source.read(512, 0.0).lines == []
    server.add(["2"])
    assert rest(source) == [b"2"]
    assert told == [
        f"warning: redis at 127.0.0.1:{server.port}: 'clicks' ends at entry 0-0 and holds less than was read up to "
        f"entry {entry.decode()}: the server has lost entries, or is another one; entries with higher ids are read"
    ]
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
    with pytest.raises(DataError, match="'clicks' is not a readable stream"):
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
        open_source(address, print)
    assert told in str(error.value)


def test_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SettingError, match=r"needs the extra: pip install 'ensue\[redis\]'"):
        open_source("redis://127.0.0.1:1/0?stream=clicks", print)


def test_what_a_service_writes_is_what_a_stream_reads(server: Server) -> None:
    events = pytest.importorskip("ensue.serve.events")
    found = [{"session": "s1", "item": "a7", "time": 1700000000}, {"session": "s1", "item": "b2", "time": 1700000009}]
    events.open_queue(server.address).put(events.read_events(found, events.EventList, events.ServeSettings()).lines)
    source = started(server)
    found = [json.loads(line) for line in rest(source)]
    assert [(one["session"], one["item"]) for one in found] == [("s1", "a7"), ("s1", "b2")]
    source.close()
