"""A Kafka topic. Every partition of it is read; where each stands is committed with the weights.

The position in the model folder is the truth: partitions are assigned at it, and the group's offsets in Kafka only
follow it, for who watches the lag. Nothing is balanced by the brokers, so no member that joins or leaves takes a
partition away while its events are learned. When the brokers go away the stream says so once, waits, and goes on.

A message's value is a line. All messages of a sequence belong in one partition: give the sequence as their key.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field
from typing_extensions import TypedDict

from ensue.data.file_bytes import read_input
from ensue.errors import DataError, SettingError
from ensue.lines import plural, without_credentials
from ensue.stream.blocks import MOST_BYTES, Behind, Block, Position, position_of, split_address
from ensue.stream.events import LONGEST
from ensue.tasks.metadata import Count

EXAMPLE = "kafka://127.0.0.1:9092/clicks?group=ensue"
PATIENCE = 30.0
"""Seconds to wait for the brokers at the start."""
OPTIONS = {"group", "partitions", "config"}


class KafkaPosition(TypedDict):
    """The offset of the next message of each partition, by its number."""

    partitions: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Count]


class KafkaTopic:
    """The source; see the module.

    Args:
        address: ``kafka://host:port,host:port/TOPIC?group=NAME&partitions=0,2&config=FILE``. The group is ``ensue``
            and all partitions are read unless others are named; the file holds ``key=value`` lines of librdkafka's
            configuration, such as passwords.
        tell: hears when the brokers are away, and when they are back.

    Raises:
        SettingError: no topic is named, the file cannot be read, or the extra ``kafka`` is not installed.
    """

    def __init__(self, address: str, tell: Callable[[str], None]) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise SettingError("a Kafka topic needs the extra: pip install 'ensue[kafka]'") from error
        shown = without_credentials(address)
        parts, options = split_address(address, EXAMPLE)
        self.topic = parts.path.strip("/")
        if "@" in parts.netloc:  # librdkafka takes none, and would log the address
            raise SettingError(f"{shown}: give user and password in a file, by config=FILE; write {EXAMPLE}")
        if not parts.netloc or not self.topic or set(options) - OPTIONS:
            unknown = min(set(options) - OPTIONS, default="")
            wrong = f"{unknown!r} is not known" if unknown else "no topic is named"
            raise SettingError(f"{shown}: {wrong}; write {EXAMPLE}")
        self.name, self.shown = f"kafka:{self.topic}", f"kafka at {parts.netloc}"
        self._asked = _numbers(shown, options.get("partitions", ""))
        self._kafka, self._tell, self._away = confluent_kafka, tell, False
        properties = {
            **_properties(options.get("config")),
            "bootstrap.servers": parts.netloc,
            "group.id": options.get("group", "ensue"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # a position that Kafka no longer holds is events lost, and said
            "error_cb": self._hear,
        }
        try:
            self._consumer: Any = confluent_kafka.Consumer(properties, logger=None)
        except confluent_kafka.KafkaException as error:
            raise SettingError(f"{self.shown}: {_without_values(error.args[0].str(), properties)}") from None
        self._at: dict[int, int] = {}
        self._waiting: dict[int, deque[tuple[int, bytes]]] = {}
        self._ended: set[int] = set()

    def begin(self, position: Position | None) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        kafka = self._kafka
        stored = {} if position is None else position_of(KafkaPosition, position)["partitions"]
        self._at = {int(number): offset for number, offset in stored.items()}
        there = self._partitions()
        chosen = self._asked or there
        for number in sorted({*chosen, *self._at} - set(there)):
            raise DataError(f"{self.shown}: {self.topic!r} has no partition {number}")
        self._waiting = {number: deque() for number in chosen}
        self._ended = set()
        self._consumer.assign(
            [
                kafka.TopicPartition(self.topic, number, self._at.get(number, kafka.OFFSET_BEGINNING))
                for number in chosen
            ]
        )

    def read(self, limit: int, wait: float) -> Block:
        """See :class:`ensue.stream.blocks.Source`; each block is of one partition."""
        until = time.monotonic() + wait
        while not any(self._waiting.values()):
            left = until - time.monotonic()
            self._take(self._consumer.consume(limit, timeout=max(0.01, min(left, 0.5))))
            if time.monotonic() >= until:
                break
        number = next((number for number, waiting in self._waiting.items() if waiting), None)
        if number is None:
            return Block([], [], self._position(), self._ended >= set(self._waiting))
        waiting, lines, places, size = self._waiting.pop(number), list[bytes](), list[str](), 0
        self._waiting[number] = waiting  # the others have their turn first
        while waiting and len(lines) < limit and size < MOST_BYTES:
            offset, line = waiting.popleft()
            lines.append(line)
            places.append(f"{self.topic}: partition {number}, offset {offset}")
            size += len(line)
            self._at[number] = offset + 1
        return Block(lines, places, self._position(), False, str(number))

    def committed(self, position: Position) -> None:
        """Let the group's offsets follow; where that fails, the next commit makes up for it."""
        kafka = self._kafka
        stored = cast(dict[str, int], position["partitions"])
        offsets = [kafka.TopicPartition(self.topic, int(number), offset) for number, offset in stored.items()]
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def behind(self) -> Behind:
        """Messages between what was given out and the last that the brokers told of."""
        left = 0
        for number in self._waiting:
            part = self._kafka.TopicPartition(self.topic, number)
            low, high = self._consumer.get_watermark_offsets(part, cached=True)
            left += max(0, high - max(low, self._at.get(number, low)))
        return Behind(left, "lines")

    def close(self) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        self._consumer.close()

    def _position(self) -> Position:
        return {"partitions": {str(number): offset for number, offset in sorted(self._at.items())}}

    def _partitions(self) -> list[int]:
        """Numbers of the topic's partitions."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                topics = self._consumer.list_topics(self.topic, timeout=5.0).topics
            except self._kafka.KafkaException as error:
                if time.monotonic() >= until:
                    raise DataError(f"{self.shown}: cannot be reached ({error.args[0].str()})") from error
                continue
            topic = topics.get(self.topic)
            if topic is not None and topic.error is None and topic.partitions:
                return sorted(topic.partitions)
            if time.monotonic() >= until:
                raise DataError(f"{self.shown}: there is no topic {self.topic!r}; make it before it is read")
            time.sleep(0.2)

    def _take(self, messages: list[Any]) -> None:
        """Put messages to those of their partition; what is told of its end or of an error is heard."""
        codes = self._kafka.KafkaError
        for message in messages:
            number, error = message.partition(), message.error()
            if error is None:
                self._ended.discard(number)
                value = message.value()
                line = b"null" if value is None else value[: LONGEST + 1]  # what is longer is rejected
                self._waiting[number].append((message.offset(), line))
                if self._away:
                    self._away = False
                    self._tell(f"{self.shown} is back")
            elif error.code() == codes._PARTITION_EOF:
                self._ended.add(number)
            elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
                self._skip_removed(number)
            elif error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED):
                raise SettingError(f"{self.shown}: refused ({error.str()}); name user and password in config=FILE")
            elif not error.retriable() and error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_PARTITION):
                raise DataError(f"{self.shown}: {self.topic!r} cannot be read ({error.str()})")

    def _skip_removed(self, number: int) -> None:
        """Report messages of a partition that Kafka removed before they were read, and go on behind them.

        Raises:
            DataError: the partition ends before the position.
        """
        kafka, waiting = self._kafka, self._waiting[number]
        at = waiting[-1][0] + 1 if waiting else self._at.get(number)
        part = kafka.TopicPartition(self.topic, number)
        try:
            low, high = self._consumer.get_watermark_offsets(part, timeout=5.0)
        except kafka.KafkaException:  # the brokers are away: reading from the same place fails once more, and returns
            low, high = kafka.OFFSET_BEGINNING if at is None else at, sys.maxsize
        if at is not None and at > high:
            raise DataError(
                f"{self.shown}: partition {number} of {self.topic!r} ends at offset {high:,}, before offset {at:,} "
                "which comes next: the topic was made again, or is another one; read all of it with --restart"
            )
        if at is not None and low > at:
            amount = f"{plural(low - at, 'message')} of partition {number} {'was' if low - at == 1 else 'were'}"
            self._tell(
                f"warning: {self.shown}: {self.topic!r}: {amount} removed after offset {at - 1:,} before the model "
                "read them (retention.ms, retention.bytes), and are lost; keep messages for longer"
            )
        self._consumer.incremental_unassign([part])  # no seek is possible after such an error
        part.offset = low if at is None else max(low, at)
        self._consumer.incremental_assign([part])

    def _hear(self, error: Any) -> None:
        """Librdkafka tells what goes wrong and tries again by itself."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN and not self._away:
            self._away = True
            self._tell(f"{self.shown} is unreachable; waiting")


def _numbers(address: str, text: str) -> list[int]:
    names = [name for name in text.split(",") if name]
    if not all(name.isdecimal() for name in names):
        raise SettingError(f"{address}: partitions are numbers, such as partitions=0,2")
    return sorted({int(name) for name in names})


def _properties(path: str | None) -> dict[str, str]:
    """``key=value`` lines; empty ones and those that begin with # are passed over."""
    if path is None:
        return {}
    try:
        lines = read_input(Path(path)).decode().splitlines()
    except (DataError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: cannot be read; it should hold key=value lines") from error
    properties = {}
    for number, line in enumerate(lines, 1):
        name, sign, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not sign:
            raise SettingError(f"{path}, line {number}: is not a key=value line")
        properties[name.strip()] = value.strip()
    return properties


def _without_values(message: str, properties: Mapping[str, object]) -> str:
    """Return librdkafka's message about its configuration without the values in it, of which one may be a password."""
    values = sorted({value for value in properties.values() if isinstance(value, str) and value}, key=len)
    for value in reversed(values):
        message = message.replace(f'"{value}"', "***")
    return message
