"""Redis Streams, each key read from the position that is committed in the model folder; sources by name.

Entries are read with XRANGE from that position, not through the consumer group: several models and foreign readers may
name the same group, and each model still reads every entry. The group only follows the commits, for tools that display
the lag. A group that has consumers belongs to them, and is left alone. Redis may have removed entries before they were
read, so the position counts the entries that were ever added, and the number of lost ones is reported. An entry is an
event's JSON in the field ``line``, or the event's fields themselves.

While the server is away the source reports that once, waits, and goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, TypeVar, cast
from urllib.parse import urlunsplit

from pydantic import Field

from ensue.errors import DataError, SettingError
from ensue.lazy import require_extra
from ensue.learning.state import Count
from ensue.lines import plural, without_credentials
from ensue.stream.kafka import KafkaTopic
from ensue.stream.sources import (
    Behind,
    JSONLinesSource,
    Partitions,
    Position,
    SQLiteSource,
    StreamSource,
    position_of,
    split_address,
)

Answer = TypeVar("Answer")
Entry = tuple[bytes, dict[bytes, bytes]]
REDIS_EXAMPLE = "redis://127.0.0.1:6379/0?stream=clicks&group=ensue"
SLOWEST = 5.0
"""Seconds between two attempts to reach a server, at most."""
PAGE = 32
"""Entries per request, at most: the server limits their number, not their size."""
MAX_BLOCK = 1.0
"""Seconds of one request that waits for entries, at most; well below the time limit of the connection."""
ZERO = "0-0"
"""The id before the first entry of every stream."""


def open_source(text: str, log: Callable[[str], None]) -> StreamSource:
    """Return the source of a name: ``clicks.jsonl``, ``folder/``, ``sqlite:queue.db``, ``redis://…`` or ``kafka://…``.

    Args:
        text: the name.
        log: receives messages for people, such as that a server is away.

    Raises:
        SettingError: the address is wrong, or an extra is missing.
    """
    if text.startswith("sqlite:"):
        return SQLiteSource(Path(text.removeprefix("sqlite:")))
    scheme, separator, _ = text.partition("://")
    if not separator:
        return JSONLinesSource(Path(text))
    if any(character.isspace() for character in text):
        raise SettingError(f"{scheme}://…: an address holds no spaces; write %20 for one")
    if scheme in ("redis", "rediss", "unix"):
        return _open_redis(text, log)
    if scheme == "kafka":
        return KafkaTopic(text, log)
    raise SettingError(
        f"{without_credentials(text)}: {scheme}:// is not known; name a file, a folder, sqlite:FILE, redis:// or kafka://"
    )


class Info(NamedTuple):
    """Reply of XINFO STREAM about a key; the defaults are those of one that does not exist."""

    latest: str = ZERO
    """Id of the latest entry that was ever added."""
    first: str | None = None
    """Id of the first entry that is left."""
    num_added: int | None = 0
    """Entries that were ever added, ``None`` where the server does not count them (before Redis 7)."""
    num_removed: int | None = 0
    """Entries that were ever trimmed or deleted, ``None`` likewise."""
    is_gapless: bool = True
    """True where entries were deleted by trimming alone, from the beginning."""


def _open_redis(address: str, log: Callable[[str], None]) -> StreamSource:
    """Return the source of ``redis://host:port/database?stream=NAME,NAME&group=NAME``; several keys are partitions."""
    masked = without_credentials(address)
    url, options = split_address(address, REDIS_EXAMPLE)
    keys = [key for key in options.pop("stream", "").split(",") if key]
    group = options.pop("group", "ensue")
    if not keys or options:
        problem = f"{next(iter(options))!r} is not known" if options else "no stream is named"
        raise SettingError(f"{masked}: {problem}; write {REDIS_EXAMPLE}")
    if len(set(keys)) < len(keys):
        raise SettingError(f"{masked}: a key is named twice")
    server = RedisServer(urlunsplit(url._replace(query="")), log)
    sources: dict[str, StreamSource] = {key: RedisStream(server, key, group) for key in keys}
    return Partitions("redis", sources) if len(keys) > 1 else sources[keys[0]]


def connect(address: str) -> tuple[Any, ModuleType]:
    """Return a client of ``redis://host:port/database``, and the package ``redis``; nothing is sent yet.

    Raises:
        SettingError: the address is wrong, or the extra ``redis`` is not installed.
    """
    require_extra("redis", "a Redis stream", "redis")
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    retry = Retry(NoBackoff(), 0)  # no request is repeated silently: the caller reports that the server is away
    try:
        client = redis.Redis.from_url(address, protocol=2, retry=retry, socket_timeout=10, socket_connect_timeout=5)
        return client, redis
    except ValueError:  # its text may quote a part of the password
        raise SettingError(
            f"{without_credentials(address)}: host, port or database cannot be read; write {REDIS_EXAMPLE}, and "
            "special characters of a password by their codes, such as %40"
        ) from None


class RedisPosition(NamedTuple):
    """The latest entry that was read, and how many were ever added up to it, where that is known."""

    entry: Annotated[str, Field(pattern=r"^[0-9]{1,20}(-[0-9]{1,20})?$")]
    added: Count | None


class RedisServer:
    """A connection that waits for a server that is away, shared by the keys that are read from it.

    Args:
        address: ``redis://host:port/database``.
        log: receives a message when the server is away, and when it is back.

    Raises:
        SettingError: the address is wrong, or the extra ``redis`` is not installed.
    """

    def __init__(self, address: str, log: Callable[[str], None]) -> None:
        self.client, self.errors = connect(address)
        options = self.client.connection_pool.connection_kwargs
        self.location = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        self.log = log
        self._away_since, self._wait = 0.0, 0.0
        self._notes = set[str]()

    def note(self, message: str) -> None:
        """Report something once for all keys."""
        if message not in self._notes:
            self.log(f"redis at {self.location}: {message}")
        self._notes.add(message)

    def request(self, question: Callable[[], Answer]) -> Answer | None:
        """Return the answer to a request, or ``None`` while the server is away.

        Raises:
            SettingError: the server refuses user and password, or has no rights for them.
        """
        # Other keys of the same server do not ask again before the pause is over.
        if time.monotonic() < self._away_since + self._wait:
            return None
        errors = self.errors
        try:
            answer = question()
        except (errors.AuthenticationError, errors.exceptions.NoPermissionError) as error:
            raise SettingError(
                f"redis at {self.location}: refused ({error}); name user and password in the address"
            ) from None
        except (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError, OSError) as error:
            if not self._wait:
                self.log(f"redis at {self.location} is unreachable ({error}); waiting")
            self._away_since = time.monotonic()
            # Each pause is twice the one before, so that a server that starts is not flooded.
            self._wait = min(SLOWEST, max(0.1, 2 * self._wait))
            return None
        if self._wait:
            self.log(f"redis at {self.location} is back")
        self._wait = 0.0
        return answer


class RedisStream(StreamSource):
    """One key; see the module.

    Args:
        server: the connection.
        stream: the key.
        group: the consumer group that follows the commits.
    """

    def __init__(self, server: RedisServer, stream: str, group: str) -> None:
        self.stream, self.group, self.name = stream, group, f"redis:{stream}"
        self._server = server
        self._at = ZERO
        self._num_added: int | None = None
        """Entries that were ever added up to the position, ``None`` where the server does not count them."""
        self._latest_warning = ""

    def begin(self, position: Position | None) -> None:
        """See :class:`StreamSource`."""
        self._at, self._num_added = position_of(RedisPosition(ZERO, None), position)

    def _next(self, limit: int) -> list[tuple[str, bytes]] | None:
        entries = self._server.request(partial(self._entries, min(PAGE, limit)))
        if entries is None:
            return None
        lines = []
        for entry, fields in entries:
            self._at = entry.decode()
            lines.append((f"{self.stream}: entry {self._at}", _line(fields)))
        return lines

    def _position(self) -> Position:
        return RedisPosition(self._at, self._num_added)._asdict()

    def _await(self, seconds: float) -> None:
        """Wait for an entry after the position, for some seconds at most."""

        def wait() -> bool:
            milliseconds = max(1, int(1000 * min(seconds, MAX_BLOCK)))
            self._server.client.xread({self.stream: self._at}, count=1, block=milliseconds)
            return True

        if self._server.request(wait) is None:
            super()._await(seconds)

    def committed(self, position: Position) -> None:
        """Let the group follow; if the server is away, the next commit makes up for it."""
        self._server.request(partial(self._follow, position_of(RedisPosition(ZERO, None), position)))

    def behind(self) -> Behind:
        """Return the seconds between the latest entry and the latest that was read."""
        info = self._server.request(self._info) or Info()
        if info.latest == self._at:  # every entry was read: the count is exact again
            self._num_added = info.num_added
        passed = _order(info.latest)[0] - _order(self._at)[0] if self._at != ZERO else 0
        return Behind(max(0, passed) / 1000, "s")

    def close(self) -> None:
        """See :class:`StreamSource`."""
        self._server.client.close()

    def _entries(self, count: int) -> list[Entry]:
        """Return the next entries, after a look at what Redis has removed before them."""
        client = self._server.client
        errors = self._server.errors
        try:
            # From the entry that was read last, itself included: where it is still there, nothing after it is gone.
            entries: list[Entry] = client.xrange(self.stream, self._at, count=count + 1)
            if entries and entries[0][0].decode() == self._at:
                entries = entries[1:]  # trimming removes the oldest: where this one is left, so are those after it
            else:
                with client.pipeline(transaction=True) as pipe:  # nothing is trimmed between the two
                    info, entries = pipe.xinfo_stream(self.stream).xrange(self.stream, self._at, count=count).execute()
                self._compare(_info_of(info))
        except errors.ResponseError as error:
            if "no such key" not in str(error):
                location = f"redis at {self._server.location}"
                raise DataError(f"{location}: {self.stream!r} is not a readable stream ({error})") from None
            # The key does not exist: as one that was never written.
            self._compare(Info())
            entries = []
        if self._num_added is not None:
            self._num_added += len(entries)
        return entries

    def _compare(self, info: Info) -> None:
        """Report entries that were removed before they were read, and correct the count of those that were added."""
        if self._at == ZERO:
            self._num_added = info.num_removed
            if info.latest == ZERO:
                self._server.note(f"there is no stream {self.stream!r} yet")
            return
        num_read = self._num_added
        removed = info.num_removed
        starts_later = info.first is None or _order(info.first) > _order(self._at)
        # Fewer entries were ever added than were read: this is not the stream of before.
        is_shorter = num_read is not None and info.num_added is not None and info.num_added < num_read
        if is_shorter or _order(info.latest) < _order(self._at):
            self._warn(
                f"{self.stream!r} ends at entry {info.latest} and holds less than was read up to entry "
                f"{self._at}: the server has lost entries, or is another one; entries with higher ids are read"
            )
            # What is left starts after the position: all that was removed is all that is missing.
            self._num_added = removed if starts_later else None
        elif info.latest == self._at:
            self._num_added = info.num_added
        # More were removed than were read, so some were removed unread.
        elif starts_later and (removed is None or num_read is None or removed > num_read):
            self._report_lost(removed, is_exact=info.is_gapless)
            self._num_added = removed

    def _report_lost(self, removed: int | None, *, is_exact: bool) -> None:
        """Warn that entries are gone; ``removed`` is their exact number if none was deleted by XDEL."""
        amount = "entries may have been"
        if removed is not None and self._num_added is not None:
            # Removed entries are the oldest, so those that were read are among them.
            lost = removed - self._num_added
            amount = (
                f"{'' if is_exact else 'up to '}{plural(lost, 'entry', 'entries')} {'was' if lost == 1 else 'were'}"
            )
        self._warn(
            f"{self.stream!r}: {amount} removed after entry {self._at} before the model read them (XTRIM, MAXLEN, "
            "XDEL) and are lost; let the stream keep more entries"
        )

    def _follow(self, position: RedisPosition) -> bool:
        """Set the group to a committed position, where no consumer reads from it."""
        client = self._server.client
        entry, added = position
        with suppress(self._server.errors.ResponseError):  # no key, or no right to it: the group is only displayed
            groups = {group["name"].decode(): group for group in client.xinfo_groups(self.stream)}
            if self.group not in groups:
                client.xgroup_create(self.stream, self.group, entry, entries_read=added)
            # A group with consumers is somebody's work queue; to move it would lose or repeat entries there.
            elif groups[self.group]["consumers"]:
                self._server.note(f"group {self.group!r} has consumers and does not follow this model")
            else:
                client.xgroup_setid(self.stream, self.group, entry, entries_read=added)
        return True

    def _info(self) -> Info:
        """Return what the server says of the key."""
        try:
            return _info_of(self._server.client.xinfo_stream(self.stream))
        except self._server.errors.ResponseError:
            return Info()

    def _warn(self, message: str) -> None:
        """Report a loss, once while it stays as it is."""
        if message != self._latest_warning:
            self._server.log(f"warning: redis at {self._server.location}: {message}")
        self._latest_warning = message


def _info_of(reply: Mapping[str, object]) -> Info:
    """Return the answer to XINFO STREAM as read here."""
    first = cast("tuple[bytes, object] | None", reply["first-entry"])
    num_added = cast("int | None", reply.get("entries-added"))
    return Info(
        cast(bytes, reply["last-generated-id"]).decode(),
        None if first is None else first[0].decode(),
        num_added,
        None if num_added is None else num_added - cast(int, reply["length"]),
        reply.get("max-deleted-entry-id") == ZERO.encode(),
    )


def _order(entry: str) -> tuple[int, int]:
    """Return an entry's id as numbers that sort: milliseconds, and the number within one."""
    milliseconds, _, number = entry.partition("-")
    return int(milliseconds), int(number or 0)


def _line(fields: Mapping[bytes, bytes]) -> bytes:
    """Return an entry as a line of JSON; bytes that are no text stay as they are, and are rejected later."""
    if b"line" in fields:
        return fields[b"line"]
    try:
        return json.dumps({name.decode(): text.decode() for name, text in fields.items()}).encode()
    except UnicodeDecodeError:
        return b" ".join(text for pair in fields.items() for text in pair)
