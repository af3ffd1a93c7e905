"""A stream in partitions: what becomes of an event does not depend on how far another partition was read."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, SettingError
from ensue.stream import SQLiteQueue, partition_of
from ensue.stream.brokers import open_source
from ensue.stream.sessions import Chunk, PartitionSessions
from ensue.stream.sources import Partitions, SQLiteSource, StreamSource
from ensue.stream.state import StreamSettings
from ensue.vocabulary import Vocabulary
from tests.stream.conftest import Server, log, streamed

NUM = 4


def parted(lines: list[str]) -> list[list[str]]:
    """The lines of each partition, by a digest of their session."""
    parts: list[list[str]] = [[] for _ in range(NUM)]
    for line in lines:
        parts[partition_of(json.loads(line)["session"], NUM)].append(line)
    return parts


def queues(place: Path, parts: list[list[str]]) -> dict[str, StreamSource]:
    for number, lines in enumerate(parts):
        SQLiteQueue(place / f"{number}.db").put(lines)
    return {str(number): SQLiteSource(place / f"{number}.db") for number in range(NUM)}


def test_sequences_are_spread_by_a_digest_of_their_names() -> None:
    # as `printf s1 | b2sum -l 64` prints it, read from its last byte to its first
    assert partition_of("s1", 1000) == int.from_bytes(bytes.fromhex("89a147da21bb2954"), "little") % 1000
    counts = Counter(partition_of(f"user {number}", NUM) for number in range(4000))
    assert set(counts) == {0, 1, 2, 3} and max(counts.values()) < 1100
    assert partition_of("user 7", NUM) == partition_of("user 7", NUM)


def test_partitions_take_turns_and_go_on_from_their_positions(tmp_path: Path) -> None:
    source = Partitions("sqlite", queues(tmp_path, [["a1", "a2", "a3"], ["b1"], [], ["d1", "d2"]]))
    source.begin(None)
    blocks = [source.read(2, 0.0) for _ in range(4)]
    assert [(block.partition, block.lines) for block in blocks] == [
        ("0", [b"a1", b"a2"]),
        ("1", [b"b1"]),
        ("3", [b"d1", b"d2"]),
        ("0", [b"a3"]),
    ]
    assert source.read(2, 0.0).at_end and source.behind() == (0, "lines")
    position = json.loads(json.dumps(blocks[1].position))
    source.begin(position)
    assert source.behind().amount == 3
    assert [source.read(9, 0.0).lines for _ in range(2)] == [[b"d1", b"d2"], [b"a3"]]
    source.close()
    SQLiteQueue(tmp_path / "4.db").put(["e1"])
    more = Partitions("sqlite", {str(number): SQLiteSource(tmp_path / f"{number}.db") for number in range(5)})
    assert more.name == source.name  # a partition may be added
    more.begin(blocks[3].position)
    assert more.read(9, 0.0).lines == [b"e1"]
    more.close()
    fewer = Partitions("sqlite", {"0": SQLiteSource(tmp_path / "0.db")})
    with pytest.raises(DataError, match="partition 1 was read before and is missing; name it too"):
        fewer.begin(position)


def told(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "stream.json").read_text())
    return {
        "counts": found["counts"],
        "hours": [[row["hour"], row["events"], row["targets"]] for row in found["hours"]],
    }


def test_counts_do_not_depend_on_the_order_between_partitions(
    folder: Path, tmp_path: Path, server: Server, fitted: Path
) -> None:
    parts = parted(log(300))
    keys = [f"clicks-{number}" for number in range(NUM)]
    address = server.address.replace("stream=clicks", f"stream={','.join(keys)}")
    with server.client() as client:
        for key, lines in zip(keys, parts, strict=True):
            for line in lines:
                client.xadd(key, {"line": line})
    streamed(folder, address, batch=7)
    found = told(folder)
    assert found["counts"]["lines"] == sum(map(len, parts)) and found["counts"]["sessions"] > 4
    other = Path(str(folder) + "-other")
    shutil.copytree(fitted, other)
    for until in (50, 51, 170, None):  # stopped and started, in larger batches
        _, last = streamed(other, address.replace("&group=ensue", "") + "&group=other", batch=64, until=until)
    assert last.num_open > 0
    assert told(other) == found
    with server.client() as client:
        groups = [client.xinfo_groups(key) for key, lines in zip(keys, parts, strict=True) if lines]
    assert all([(group["name"], group["lag"]) for group in named] == [(b"ensue", 0), (b"other", 0)] for named in groups)


def test_sessions_of_partitions_are_kept_under_their_names() -> None:
    sessions = PartitionSessions(60.0)
    assert sessions.clock == sessions.settled == float("-inf")
    chunk = Chunk.of(Vocabulary())
    sessions.of("").add("s", "v", 5.0, "", "", chunk)
    sessions.of("a@b").add("s", "v", 50.0, "", "", chunk)
    sessions.of("a@b").add("t", "w", 70.0, "", "", chunk)
    assert (len(sessions), sessions.settled, sessions.clock) == (3, 5.0, 50.0)
    again = PartitionSessions(60.0)
    again.restore(sessions.tables(), chunk)
    assert (len(again), again.settled, again.clock) == (3, 5.0, 50.0)


def test_a_share_of_the_sessions_is_scored_and_all_are_learned(folder: Path, tmp_path: Path, fitted: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{line}\n" for line in log(300)))
    found = {}
    for share in (1.0, 0.5, 0.0):
        place = tmp_path / f"m{share}"
        shutil.copytree(fitted, place)
        batches = {}
        for batch in (16, 64) if share == 0.5 else (16,):
            shutil.rmtree(place)
            shutil.copytree(fitted, place)
            _, last = streamed(place, str(path), score=share, batch=batch)
            batches[batch] = last.counts
        assert len({counts.targets for counts in batches.values()}) == 1  # the same sessions, however they are cut
        found[share] = last.counts
    assert found[0.0].targets == 0 < found[0.5].targets < found[1.0].targets
    assert len({counts.events for counts in found.values()}) == 1
    with pytest.raises(SettingError, match=r"score is 1.5; it must be in \[0, 1\]"):
        StreamSettings(score=1.5)


def test_addresses_of_several_keys() -> None:
    pytest.importorskip("redis")
    source = open_source("redis://127.0.0.1:1/0?stream=clicks-10,clicks-11&group=g", print)
    assert source.name == "redis:clicks-*"
    source.close()
    with pytest.raises(SettingError, match="a key is named twice"):
        open_source("redis://127.0.0.1:1/0?stream=a,a", print)
