"""A stream in parts that are read side by side: the sources of each part, and its open sessions.

All events of a sequence are in one partition, in order; between partitions there is no order. So each partition has
open sessions and a clock of its own, and what becomes of an event does not depend on how far another partition was
read. :func:`partition_of` says where a writer puts a sequence.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from os.path import commonprefix
from string import digits
from typing import cast

import numpy as np
from torch import Tensor
from typing_extensions import TypedDict

from ensue.errors import DataError
from ensue.stream.blocks import POLL, Behind, Block, Position, Source, position_of
from ensue.stream.clock import Event
from ensue.stream.sessions import Chunk, OpenSessions


def partition_of(sequence: str, partitions: int) -> int:
    """The partition of a sequence, from 0: the first eight bytes of its BLAKE2b digest, modulo their number.

    Example:
        >>> from ensue.stream import partition_of
        >>> partition_of("s1", 8) == partition_of("s1", 8), 0 <= partition_of("s2", 8) < 8
        (True, True)
    """
    return int.from_bytes(hashlib.blake2b(sequence.encode(), digest_size=8).digest(), "little") % partitions


class PartitionsPosition(TypedDict):
    """Where each partition stands, by name."""

    partitions: dict[str, Position]


class Partitions:
    """Several sources as one; each block is of one of them, and they take turns.

    Args:
        kind: of source, for the name; to that comes how the names of the partitions begin, so that one may be added.
        sources: by name of the partition.
    """

    def __init__(self, kind: str, sources: Mapping[str, Source]) -> None:
        self.sources = dict(sources)
        self.name = f"{kind}:{commonprefix(list(self.sources)).rstrip(digits)}*"  # noqa: RUF071 - of characters
        self._positions: dict[str, Position] = {}
        self._turns = list(self.sources)

    def begin(self, position: Position | None) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        self._positions = {} if position is None else position_of(PartitionsPosition, position)["partitions"]
        if unknown := set(self._positions) - set(self.sources):
            raise DataError(f"{self.name}: partition {min(unknown)} was read before and is missing; name it too")
        for name, source in self.sources.items():
            source.begin(self._positions.get(name))

    def read(self, limit: int, wait: float) -> Block:
        """See :class:`ensue.stream.blocks.Source`."""
        until = time.monotonic() + wait
        while True:
            ends = True
            for name in list(self._turns):
                block = self.sources[name].read(limit, 0.0)
                self._turns.remove(name)
                self._turns.append(name)
                if block.lines:
                    self._positions[name] = block.position
                    return Block(block.lines, block.places, self._position(), False, name)
                ends = ends and block.at_end
            if time.monotonic() >= until:
                return Block([], [], self._position(), ends)
            time.sleep(POLL)

    def committed(self, position: Position) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        for name, own in cast(Mapping[str, Position], position["partitions"]).items():
            self.sources[name].committed(own)

    def behind(self) -> Behind:
        """See :class:`ensue.stream.blocks.Source`: what is left of all, or for how long the latest one waits."""
        left = [source.behind() for source in self.sources.values()]
        amounts, unit = [one.amount for one in left], left[0].unit
        return Behind(max(amounts) if unit == "s" else sum(amounts), unit)

    def close(self) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        for source in self.sources.values():
            source.close()

    def _position(self) -> Position:
        return {"partitions": dict(self._positions)}


class PartitionSessions:
    """The open sessions of every partition.

    Args:
        gap: seconds of pause that end a session.
    """

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self._parts: dict[str, OpenSessions] = {}

    def __len__(self) -> int:
        """Number of open sessions."""
        return sum(map(len, self._parts.values()))

    def of(self, partition: str) -> OpenSessions:
        """Those of one partition."""
        return self._parts.setdefault(partition, OpenSessions(self.gap))

    @property
    def clock(self) -> float:
        """The time of the latest partition."""
        return max((part.clock for part in self._parts.values()), default=-np.inf)

    @property
    def settled(self) -> float:
        """The time that every partition has reached."""
        return min((part.clock for part in self._parts.values()), default=-np.inf)

    def settle(self, chunk: Chunk) -> None:
        """Decide about the events that wait for others, where no more will come."""
        for _, part in sorted(self._parts.items()):
            part.settle(chunk)

    def remove(self, sessions: Collection[str]) -> int:
        """Remove open sessions by their names, and return how many there were."""
        return sum(part.remove(sessions) for part in self._parts.values())

    def hand_over(self, chunk: Chunk) -> None:
        """Hand over the fresh events of every partition, where a chunk is complete."""
        for _, part in sorted(self._parts.items()):
            part.hand_over(chunk)

    def waiting(self) -> dict[str, list[Event]]:
        """The events of each partition that wait for others, because their times are far from the clock."""
        return {partition: part.times.waiting for partition, part in self._parts.items() if part.times.waiting}

    def tensors(self) -> dict[str, Tensor]:
        """All else, between two events; the columns of a stream without partitions have no prefix."""
        return {
            f"{partition}@{name}" if partition else name: tensor
            for partition, part in self._parts.items()
            for name, tensor in part.tensors().items()
        }

    def restore(self, tensors: Mapping[str, Tensor], chunk: Chunk, waiting: Mapping[str, Sequence[Event]]) -> None:
        """Put back what :meth:`tensors` and :meth:`waiting` gave; see :meth:`OpenSessions.restore`."""
        columns: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            partition, _, name = key.rpartition("@")
            columns.setdefault(partition, {})[name] = tensor
        for partition, own in columns.items():
            self.of(partition).restore(own, chunk, waiting.get(partition, ()))
