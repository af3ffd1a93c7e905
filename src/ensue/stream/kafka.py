"""Kafka topics, read from the position that is committed in the model folder.

Every partition of a topic is assigned at its committed position, and the group's offsets only follow: no member that
joins or leaves takes a partition away. A message's value is a line, and its key the session.

While the brokers are away the source reports that once, waits, and goes on.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ensue.data.file_bytes import read_input
from ensue.errors import DataError, SettingError
from ensue.lazy import require_extra
from ensue.learning.state import Count
from ensue.lines import plural, without_credentials
from ensue.stream.events import LONGEST
from ensue.stream.sources import MAX_BYTES, Behind, LineBlock, Position, StreamSource, position_of, split_address

KAFKA_EXAMPLE = "kafka://127.0.0.1:9092/clicks?group=ensue"
PATIENCE = 30.0
"""Seconds to wait for the brokers at the start."""
OPTIONS = {"group", "partitions", "config"}


class KafkaPosition(NamedTuple):
    """The offset of the next message of each partition, by its number."""

    partitions: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Count]


class KafkaTopic(StreamSource):
    """The source; see the module.

    Args:
        address: ``kafka://host:port,host:port/TOPIC?group=NAME&partitions=0,2&config=FILE``. The group is ``ensue``
            and all partitions are read unless others are named; the file holds ``key=value`` lines of librdkafka's
            configuration, such as passwords.
        log: receives a message when the brokers are away, and when they are back.

    Raises:
        SettingError: no topic is named, the file cannot be read, or the extra ``kafka`` is not installed.
    """

    def __init__(self, address: str, log: Callable[[str], None]) -> None:
        require_extra("confluent_kafka", "a Kafka topic", "kafka")
        import confluent_kafka

        masked = without_credentials(address)
        url, options = split_address(address, KAFKA_EXAMPLE)
        self.topic = url.path.strip("/")
        if "@" in url.netloc:  # librdkafka takes none, and would log the address
            raise SettingError(f"{masked}: give user and password in a file, by config=FILE; write {KAFKA_EXAMPLE}")
        if not url.netloc or not self.topic or set(options) - OPTIONS:
            unknown = min(set(options) - OPTIONS, default="")
            wrong = f"{unknown!r} is not known" if unknown else "no topic is named"
            raise SettingError(f"{masked}: {wrong}; write {KAFKA_EXAMPLE}")
        self.name = f"kafka:{self.topic}"
        self.server = f"kafka at {url.netloc}"
        partitions = [name for name in options.get("partitions", "").split(",") if name]
        if not all(name.isdecimal() for name in partitions):
            raise SettingError(f"{masked}: partitions are numbers, such as partitions=0,2")
        self._chosen_partitions = sorted({int(name) for name in partitions})
        self._kafka = confluent_kafka
        self._log = log
        self._away = False
        properties = {
            **_properties(options.get("config")),
            "bootstrap.servers": url.netloc,
            "group.id": options.get("group", "ensue"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # a position that Kafka no longer holds is events lost, and said
            "error_cb": self._hear,
        }
        try:
            self._consumer: Any = confluent_kafka.Consumer(properties, logger=None)
        except confluent_kafka.KafkaException as error:
            raise SettingError(f"{self.server}: {_without_values(error.args[0].str(), properties)}") from None
        self._at: dict[int, int] = {}
        self._waiting: dict[int, deque[tuple[int, bytes]]] = {}
        self._ended: set[int] = set()

    def begin(self, position: Position | None) -> None:
        """See :class:`StreamSource`."""
        kafka = self._kafka
        stored = position_of(KafkaPosition({}), position)
        self._at = {int(number): offset for number, offset in stored.partitions.items()}
        topic_partitions = self._partitions()
        partitions = self._chosen_partitions or topic_partitions
        for number in sorted({*partitions, *self._at} - set(topic_partitions)):
            raise DataError(f"{self.server}: {self.topic!r} has no partition {number}")
        self._waiting = {number: deque() for number in partitions}
        self._ended = set()
        # Assigned, not subscribed: no other member of the group takes a partition away.
        offsets = {number: self._at.get(number, kafka.OFFSET_BEGINNING) for number in partitions}
        self._consumer.assign([kafka.TopicPartition(self.topic, *position) for position in offsets.items()])

    def read(self, limit: int, wait: float) -> LineBlock:
        """See :meth:`Source.read`; each block is of one partition."""
        until = time.monotonic() + wait
        # Messages of all partitions come mixed; each waits with those of its own.
        while not any(self._waiting.values()):
            seconds = until - time.monotonic()
            self._take(self._consumer.consume(limit, timeout=max(0.01, min(seconds, 0.5))))
            if time.monotonic() >= until:
                break
        number = next((number for number, waiting in self._waiting.items() if waiting), None)
        if number is None:
            return LineBlock([], [], self._position(), self._ended >= set(self._waiting))
        waiting = self._waiting.pop(number)
        lines = list[bytes]()
        locations = list[str]()
        size = 0
        self._waiting[number] = waiting  # the others have their turn first
        while waiting and len(lines) < limit and size < MAX_BYTES:
            offset, line = waiting.popleft()
            lines.append(line)
            locations.append(f"{self.topic}: partition {number}, offset {offset}")
            size += len(line)
            # Kafka commits the offset of the next message.
            self._at[number] = offset + 1
        return LineBlock(lines, locations, self._position(), False, str(number))

    def committed(self, position: Position) -> None:
        """Let the group's offsets follow; where that fails, the next commit makes up for it."""
        kafka = self._kafka
        stored = position_of(KafkaPosition({}), position).partitions.items()
        offsets = [kafka.TopicPartition(self.topic, int(number), offset) for number, offset in stored]
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def behind(self) -> Behind:
        """Messages between what was given out and the last that the brokers told of."""
        num_left = 0
        for number in self._waiting:
            partition = self._kafka.TopicPartition(self.topic, number)
            low, high = self._consumer.get_watermark_offsets(partition, cached=True)
            # Messages below low are gone and are not left to read.
            num_left += max(0, high - max(low, self._at.get(number, low)))
        return Behind(num_left, "lines")

    def close(self) -> None:
        """See :class:`StreamSource`."""
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
                    raise DataError(f"{self.server}: cannot be reached ({error.args[0].str()})") from error
                continue
            topic = topics.get(self.topic)
            if topic is not None and topic.error is None and topic.partitions:
                return sorted(topic.partitions)
            if time.monotonic() >= until:
                raise DataError(f"{self.server}: there is no topic {self.topic!r}; make it before it is read")
            time.sleep(0.2)

    def _take(self, messages: list[Any]) -> None:
        """Put messages to those of their partition; what is told of its end or of an error is heard."""
        codes = self._kafka.KafkaError
        for message in messages:
            number = message.partition()
            error = message.error()
            if error is None:
                self._ended.discard(number)
                value = message.value()
                # A tombstone has no value; the reader rejects null with its reason.
                line = b"null" if value is None else value[: LONGEST + 1]  # what is longer is rejected
                self._waiting[number].append((message.offset(), line))
                if self._away:
                    self._away = False
                    self._log(f"{self.server} is back")
            elif error.code() == codes._PARTITION_EOF:
                self._ended.add(number)
            elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
                self._skip_removed(number)
            elif error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED):
                raise SettingError(f"{self.server}: refused ({error.str()}); name user and password in config=FILE")
            elif not error.retriable() and error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_PARTITION):
                raise DataError(f"{self.server}: {self.topic!r} cannot be read ({error.str()})")

    def _skip_removed(self, number: int) -> None:
        """Report messages of a partition that Kafka removed before they were read, and go on behind them.

        Raises:
            DataError: the partition ends before the position.
        """
        kafka = self._kafka
        waiting = self._waiting[number]
        at = waiting[-1][0] + 1 if waiting else self._at.get(number)
        partition = kafka.TopicPartition(self.topic, number)
        try:
            low, high = self._consumer.get_watermark_offsets(partition, timeout=5.0)
        except kafka.KafkaException:  # the brokers are away: reading from the same place fails once more, and returns
            low = kafka.OFFSET_BEGINNING if at is None else at
            high = sys.maxsize
        if at is not None and at > high:
            raise DataError(
                f"{self.server}: partition {number} of {self.topic!r} ends at offset {high:,}, before offset "
                f"{at:,} which comes next: the topic was made again, or is another one; read all of it with --restart"
            )
        if at is not None and low > at:
            amount = f"{plural(low - at, 'message')} of partition {number} {'was' if low - at == 1 else 'were'}"
            self._log(
                f"warning: {self.server}: {self.topic!r}: {amount} removed after offset {at - 1:,} before the "
                "model read them (retention.ms, retention.bytes), and are lost; keep messages for longer"
            )
        self._consumer.incremental_unassign([partition])  # no seek is possible after such an error
        partition.offset = low if at is None else max(low, at)
        self._consumer.incremental_assign([partition])

    def _hear(self, error: Any) -> None:
        """Librdkafka tells what goes wrong and tries again by itself."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN and not self._away:
            self._away = True
            self._log(f"{self.server} is unreachable; waiting")


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
        if name and not name.startswith("#"):
            if not sign:
                raise SettingError(f"{path}, line {number}: is not a key=value line")
            properties[name.strip()] = value.strip()
    return properties


def _without_values(message: str, properties: Mapping[str, object]) -> str:
    """Return librdkafka's message about its configuration without the values in it, of which one may be a password."""
    values = sorted({value for value in properties.values() if isinstance(value, str) and value}, key=len)
    # The longest first: a short value may be a part of a longer one.
    for value in reversed(values):
        message = message.replace(f'"{value}"', "***")
    return message
