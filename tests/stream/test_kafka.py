"""Kafka topics, by librdkafka's own mock cluster: the committed position rules, whatever the group's offsets say."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, SettingError
from ensue.stream.kafka import KafkaTopic
from tests.stream.conftest import log, streamed
from tests.stream.mock_kafka import MockKafka
from tests.stream.test_partitions import parted, told


@pytest.fixture(scope="module")
def brokers() -> MockKafka:
    return MockKafka()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return str(request.node.name)[:60].replace("[", "-").replace("]", "")


def started(address: str, position: Any = None) -> KafkaTopic:
    source = KafkaTopic(address, print)
    source.begin(position)
    return source


def rest(source: KafkaTopic, limit: int = 512) -> Iterator[tuple[str, list[bytes]]]:
    """Blocks until the end."""
    for _ in range(200):
        block = source.read(limit, 0.2)
        if block.at_end:
            return
        if block.lines:
            yield block.partition, block.lines
    raise AssertionError("no end was told")


def test_every_partition_is_read_in_its_order_and_blocks_are_of_one(brokers: MockKafka, topic: str) -> None:
    for number in range(4):
        brokers.add([f"{number}.{at}" for at in range(5)], number, topic)
    brokers.add([None], 2, topic)
    source = started(brokers.address(topic))
    found: dict[str, list[bytes]] = {}
    for partition, lines in rest(source, limit=2):
        assert len(lines) <= 2
        found.setdefault(partition, []).extend(lines)
    expected = {str(number): [f"{number}.{at}".encode() for at in range(5)] for number in range(4)}
    expected["2"].append(b"null")  # a deletion, which is put aside
    assert found == expected and source.behind() == (0, "lines")
    source.close()


def test_the_committed_position_rules_and_the_group_follows(brokers: MockKafka, topic: str) -> None:
    brokers.add(["1", "2", "3", "4"], 1, topic)
    source = started(brokers.address(topic))
    first, block = source.read(1, 10.0), source.read(1, 10.0)  # a block holds what has come, at most what was asked
    assert (first.lines, block.lines, block.partition) == ([b"1"], [b"2"], "1")
    assert block.locations == [f"{topic}: partition 1, offset 1"]
    source.read(2, 10.0)
    source.committed(block.position)
    source.close()  # waits for the commit
    assert brokers.committed(topic)[1] == 2
    again = started(brokers.address(topic), json.loads(json.dumps(block.position)))
    assert [line for _, lines in rest(again) for line in lines] == [b"3", b"4"]
    again.close()
    from_the_start = started(brokers.address(topic), {"partitions": {"1": 0}})
    assert [line for _, lines in rest(from_the_start) for line in lines] == [b"1", b"2", b"3", b"4"]
    from_the_start.close()


def test_some_partitions_alone(brokers: MockKafka, topic: str) -> None:
    for number in range(4):
        brokers.add([str(number)], number, topic)
    source = started(brokers.address(topic, "?partitions=0,3"))
    assert sorted(rest(source)) == [("0", [b"0"]), ("3", [b"3"])]
    source.close()
    with pytest.raises(DataError, match=r"has no partition 9"):
        started(brokers.address(topic, "?partitions=9"))


def test_messages_that_were_removed_unread_are_reported_and_those_after_them_read(
    brokers: MockKafka, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers.add(["first", "second"], 0, topic)
    source = started(brokers.address(topic))
    block = source.read(1, 10.0)
    assert block.lines == [b"first"]
    source.close()
    large = ["x" * 900_000] * 7  # the brokers hold 5 MB of a partition
    brokers.add(large, 0, topic)
    brokers.add(["last"], 1, topic)
    for position, lost in ((block.position, True), (None, False)):
        source = started(brokers.address(topic), position)
        found = {partition: lines for partition, lines in rest(source) if partition == "1"}
        assert found == {"1": [b"last"]}
        offset = source._at[0]
        assert offset == 9
        source.close()
        (line,) = capsys.readouterr().out.splitlines() or [""]
        pattern = r"warning: kafka at .*: '.*': [3-8] messages of partition 0 were removed after offset 0 before the"
        assert bool(re.match(pattern, line)) is lost


def test_an_offset_after_the_end_is_an_error(brokers: MockKafka, topic: str) -> None:
    brokers.add(["1"], 0, topic)
    source = started(brokers.address(topic), {"partitions": {"0": 500}})
    with pytest.raises(DataError, match=r"partition 0 .* ends at offset 1, before offset 500 which comes next"):
        for _ in range(50):
            source.read(1, 0.2)
    source.close()


def test_a_stream_counts_each_event_once_over_stops_and_starts(
    brokers: MockKafka, topic: str, folder: Path, tmp_path: Path, fitted: Path
) -> None:
    for number, lines in enumerate(parted(log(200))):
        brokers.add(lines, number, topic)
    streamed(folder, brokers.address(topic), batch=50)
    other = Path(shutil.copytree(fitted, tmp_path / "other"))
    for until in (30, 31, 120, None):
        streamed(other, brokers.address(topic, "?group=other"), batch=20, until=until)
    assert told(other) == told(folder)


def test_two_models_and_a_foreign_reader_of_one_group_read_every_message(
    brokers: MockKafka, topic: str, folder: Path, tmp_path: Path, fitted: Path
) -> None:
    other = Path(shutil.copytree(fitted, tmp_path / "other"))
    parts = parted(log(200))
    for number, lines in enumerate(parts):
        brokers.add(lines[: len(lines) // 2], number, topic)
    brokers.commit(topic, 1, len(parts[1]) // 4)
    for model in (folder, other):
        streamed(model, brokers.address(topic))
    for number, lines in enumerate(parts):
        brokers.add(lines[len(lines) // 2 :], number, topic)
    brokers.commit(topic, 1, len(parts[1]))
    for model in (other, folder):
        streamed(model, brokers.address(topic))
    assert told(other) == told(folder)
    assert told(folder)["counts"]["lines"] == sum(map(len, parts))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("kafka://127.0.0.1:1", "no topic is named; write kafka://127.0.0.1:9092/clicks?group=ensue"),
        ("kafka://127.0.0.1:1/clicks?key=b", "'key' is not known"),
        ("kafka://127.0.0.1:1/clicks?partitions=a", "partitions are numbers"),
        ("kafka://127.0.0.1:1/clicks?config=nowhere.properties", "nowhere.properties: cannot be read"),
    ],
)
def test_addresses_that_are_refused(address: str, said: str) -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(SettingError) as error:
        KafkaTopic(address, print)
    assert said in str(error.value)


def test_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SettingError, match=r"needs the extra: pip install 'ensue\[kafka\]'"):
        KafkaTopic("kafka://127.0.0.1:1/clicks", print)
