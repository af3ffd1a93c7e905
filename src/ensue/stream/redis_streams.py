"""Redis Streams through a consumer group of one: this process alone writes the weights.

The position committed with the weights is the truth, the group follows it: at the start, and after every lost
connection, the group is set to the position (XGROUP SETID), so that entries delivered but not committed come again and
none that was committed does. Entries are acknowledged after the commit; an acknowledgement that was lost is made up for
on return. When the server goes away the stream says so once, waits, and goes on.

An entry is an event's JSON in the field ``line``, or the event's fields themselves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

from ensue.errors import DataError, SettingError
from ensue.stream.blocks import MOST_BYTES, POLL, Behind, Block, Position

Answer = TypeVar("Answer")
Entry = tuple[str, dict[bytes, bytes]]
CONSUMER = "ensue"
SLOWEST = 5.0
"""Seconds between two attempts to reach a server, at most."""
ACKNOWLEDGED = 1000
"""Entries an acknowledgement."""


class RedisStream:
    """The source; see the module.

    Args:
        address: ``redis://host:port/database?stream=NAME&group=NAME``; the group is ``ensue`` unless named.
        tell: hears when the server is away, and when it is back.

    Raises:
        SettingError: no stream is named, or the extra ``redis`` is not installed.
    """

    def __init__(self, address: str, tell: Callable[[str], None]) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise SettingError("a Redis stream needs the extra: pip install 'ensue[redis]'") from error
        parts = urlsplit(address)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.stream, self.group = options.pop("stream", ""), options.pop("group", "ensue")
        if not self.stream or options:
            wrong = f"{next(iter(options))!r} is not known" if options else "no stream is named"
            raise SettingError(f"{address}: {wrong}; write redis://127.0.0.1:6379/0?stream=clicks&group=ensue")
        self.name, self.shown = f"redis:{self.stream}", f"redis at {parts.hostname}:{parts.port or 6379}"
        self._redis, self._tell = redis, tell
        self._server: Any = redis.Redis.from_url(
            urlunsplit(parts._replace(query="")),
            protocol=2,
            socket_timeout=10,
            socket_connect_timeout=5,
            # A retry behind our back would lose what the first attempt delivered: the group must be set back first.
            retry=Retry(NoBackoff(), 0),
        )
        self._away_since, self._wait, self._ready = 0.0, 0.0, False
        self._at, self._committed = "0-0", "0-0"
        self._unacknowledged: list[str] = []

    def begin(self, position: Position | None) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        self._at = self._committed = "0-0" if position is None else str(position["entry"])
        self._unacknowledged, self._ready = [], False

    def read(self, limit: int, wait: float) -> Block:
        """See :class:`ensue.stream.blocks.Source`; while the server is away, nothing and not the end."""
        lines: list[bytes] = []
        places: list[str] = []
        until, size = time.monotonic() + wait, 0
        while len(lines) < limit and size < MOST_BYTES:
            left = until - time.monotonic()
            nothing: list[Entry] = []
            entries = self._ask(lambda: self._next(limit - len(lines), until - time.monotonic()), nothing)
            for entry, fields in entries or ():
                if _order(entry) > _order(self._at):
                    lines.append(_line(fields))
                    places.append(f"{self.stream}: entry {entry}")
                    size += len(lines[-1])
                    self._at = entry
                self._unacknowledged.append(entry)
            if not entries and left <= 0:
                return Block(lines, places, {"entry": self._at}, entries is not None)
            if entries is None:
                time.sleep(min(POLL, max(0.0, left)))
        return Block(lines, places, {"entry": self._at}, False)

    def committed(self, position: Position) -> None:
        """Acknowledge what is safe now; if the server is away, it hears so when it is back."""
        self._committed = str(position["entry"])
        last, waiting = _order(self._committed), self._unacknowledged
        safe = [entry for entry in waiting if _order(entry) <= last]
        self._unacknowledged = [entry for entry in waiting if _order(entry) > last]
        for low in range(0, len(safe), ACKNOWLEDGED):
            part = safe[low : low + ACKNOWLEDGED]
            self._ask(partial(self._server.xack, self.stream, self.group, *part), 0)

    def behind(self) -> Behind:
        """Seconds between the latest entry and the latest that was read."""
        last = self._ask(self._last, "")
        passed = _order(last)[0] - _order(self._at)[0] if last and self._at != "0-0" else 0
        return Behind(max(0, passed) / 1000, "s")

    def close(self) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        self._server.close()

    def _ask(self, question: Callable[[], Answer], nothing: Answer) -> Answer | None:
        """The answer, or ``None`` while the server is away; it is asked again after a while that grows.

        Args:
            question: asks the server.
            nothing: the answer where the server has lost the group.
        """
        if time.monotonic() < self._away_since + self._wait:
            return None
        try:
            if not self._ready:
                self._join()
            answer = question()
        except (self._redis.AuthenticationError, self._redis.exceptions.NoPermissionError) as error:
            raise SettingError(f"{self.shown}: refused ({error}); name user and password in the address") from error
        except (self._redis.ConnectionError, self._redis.TimeoutError, self._redis.BusyLoadingError, OSError) as error:
            if not self._wait:
                self._tell(f"{self.shown} is away ({error}); waiting")
            self._ready, self._away_since = False, time.monotonic()
            self._wait = min(SLOWEST, max(0.1, 2 * self._wait))
            return None
        except self._redis.ResponseError as error:
            if "NOGROUP" not in str(error):
                raise DataError(f"{self.shown}: {self.stream!r} is no stream to read ({error})") from error
            self._ready = False  # the server lost it; it is made anew with the next question
            return nothing
        if self._wait:
            self._tell(f"{self.shown} is back")
        self._wait = 0.0
        return answer

    def _join(self) -> None:
        """Put the group at the position that was read, and acknowledge what was committed but not acknowledged."""
        self._unacknowledged = []
        try:
            self._server.xgroup_create(self.stream, self.group, id=self._at, mkstream=True)
        except self._redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
            self._server.xgroup_setid(self.stream, self.group, id=self._at)
        while pending := self._server.xpending_range(
            self.stream, self.group, min="-", max=self._committed, count=ACKNOWLEDGED
        ):
            self._server.xack(self.stream, self.group, *(entry["message_id"] for entry in pending))
        if self._at != self._committed:
            held = self._server.xpending_range(
                self.stream, self.group, min=f"({self._committed}", max=self._at, count=2**20
            )
            self._unacknowledged = [entry["message_id"].decode() for entry in held]
        self._ready = True

    def _next(self, count: int, seconds: float) -> list[Entry]:
        block = max(1, int(1000 * seconds))
        streams = self._server.xreadgroup(self.group, CONSUMER, {self.stream: ">"}, count=count, block=block)
        return [(entry.decode(), fields) for _, entries in streams for entry, fields in entries]

    def _last(self) -> str:
        return str(self._server.xinfo_stream(self.stream)["last-generated-id"].decode())


def _order(entry: str) -> tuple[int, int]:
    milliseconds, _, number = entry.partition("-")
    return int(milliseconds), int(number or 0)


def _line(fields: Mapping[bytes, bytes] | None) -> bytes:
    """An entry as a line; one that the server has deleted meanwhile is ``null``, which is rejected."""
    if not fields:
        return b"null"
    if b"line" in fields:
        return fields[b"line"]
    try:
        return json.dumps({name.decode(): text.decode() for name, text in fields.items()}).encode()
    except UnicodeDecodeError:
        return b" ".join(part for pair in fields.items() for part in pair)
