"""librdkafka's own mock cluster: brokers in this process that other processes reach by their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

PARTITIONS = 4


class MockKafka:
    """Brokers on ports of their own, with topics of four partitions; they end with the process."""

    def __init__(self) -> None:
        kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: Kafka is not tested")
        silent = {"logger": None, "log_level": 0}
        self._brokers: Any = kafka.Producer({"bootstrap.servers": "mock:9092", "test.mock.num.brokers": 2})
        self._silent = silent
        self._brokers.poll(0)
        while not (found := self._brokers.list_topics(timeout=10).brokers):
            pass
        self.servers = ",".join(f"{one.host}:{one.port}" for one in found.values())

    def address(self, topic: str = "clicks", options: str = "") -> str:
        return f"kafka://{self.servers}/{topic}{options}"

    def add(self, lines: Sequence[str | bytes | None], partition: int = 0, topic: str = "clicks") -> None:
        for line in lines:
            self._brokers.produce(topic, value=line, partition=partition)
        assert self._brokers.flush(20) == 0

    def committed(self, topic: str = "clicks") -> list[int]:
        """The group's offsets."""
        kafka = pytest.importorskip("confluent_kafka")
        consumer = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "ensue"})
        parts = consumer.committed([kafka.TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=10)
        consumer.close()
        return [part.offset for part in parts]

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """As a reader that is none of ours and has read so far for the group."""
        kafka = pytest.importorskip("confluent_kafka")
        consumer = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "ensue"})
        consumer.commit(offsets=[kafka.TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()
