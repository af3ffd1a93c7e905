"""Redis Streams, each read from the position that is committed in the model folder.

Entries are read with XRANGE from that position, not through the consumer group: several models and foreign readers may
name the same group, and each model still reads every entry. The group only follows: after a commit its last delivered
entry is the committed one, for tools that display the lag. A group that has consumers belongs to them, and is left
alone.

Redis may have removed entries (XTRIM, MAXLEN, XDEL) before they were read. The position therefore counts the entries
that were ever added up to it, so that the number of lost ones is known and reported. While the server is away the
source reports that once, waits, and goes on.

An entry is an event's JSON in the field ``line``, or the event's fields themselves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Annotated, Any, NamedTuple, TypeVar, cast
from urllib.parse import urlunsplit

from pydantic import Field
from typing_extensions import TypedDict

from ensue.errors import DataError, SettingError
from ensue.lines import plural, without_credentials
from ensue.stream.blocks import MOST_BYTES, POLL, Behind, Block, Position, Source, position_of, split_address
from ensue.stream.events import LONGEST
from ensue.stream.partitions import Partitions
from ensue.tasks.metadata import Count

Answer = TypeVar("Answer")
Entry = tuple[bytes, dict[bytes, bytes]]
EXAMPLE = "redis://127.0.0.1:6379/0?stream=clicks&group=ensue"
SLOWEST = 5.0
"""Seconds between two attempts to reach a server, at most."""
PAGE = 32
"""Entries per request, at most: the server limits their number, not their size."""
MAX_BLOCK = 1.0
"""Seconds of one request that waits for entries, at most; well below the time limit of the connection."""
ZERO = "0-0"
"""The id before the first entry of every stream."""


class Info(NamedTuple):
    """What XINFO STREAM says of a key; the defaults are those of one that does not exist.

    Attributes:
        latest: id of the latest entry that was ever added.
        first: id of the first entry that is left, if any.
        num_added: entries that were ever added, ``None`` where the server does not count them (before Redis 7).
        num_removed: entries that were ever trimmed or deleted, ``None`` likewise.
        is_gapless: whether none was deleted but by trimming, from the beginning.
    """

    latest: str = ZERO
    first: str | None = None
    num_added: int | None = 0
    num_removed: int | None = 0
    is_gapless: bool = True


def open_redis(address: str, log: Callable[[str], None]) -> Source:
    """Return the source of an address; several keys with commas between them are its partitions.

    Args:
        address: ``redis://host:port/database?stream=NAME,NAME&group=NAME``; the group is ``ensue`` unless named.
        log: receives messages for people, such as that the server is away.

    Raises:
        SettingError: the address is wrong, or the extra ``redis`` is not installed.
    """
    shown = without_credentials(address)
    parts, options = split_address(address, EXAMPLE)
    keys, group = [key for key in options.pop("stream", "").split(",") if key], options.pop("group", "ensue")
    if not keys or options:
        problem = f"{next(iter(options))!r} is not known" if options else "no stream is named"
        raise SettingError(f"{shown}: {problem}; write {EXAMPLE}")
    if len(set(keys)) < len(keys):
        raise SettingError(f"{shown}: a key is named twice")
    server = RedisServer(urlunsplit(parts._replace(query="")), log)
    sources: dict[str, Source] = {key: RedisStream(server, key, group) for key in keys}
    return Partitions("redis", sources) if len(keys) > 1 else sources[keys[0]]


def connect(address: str) -> tuple[Any, ModuleType]:
    """Return a client of a Redis server, and the package ``redis`` with its errors; nothing is sent yet.

    Args:
        address: ``redis://host:port/database``.

    Raises:
        SettingError: the address is wrong, or the extra ``redis`` is not installed.
    """
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise SettingError("a Redis stream needs the extra: pip install 'ensue[redis]'") from error
    retry = Retry(NoBackoff(), 0)  # no request is repeated silently: the caller reports that the server is away
    try:
        client = redis.Redis.from_url(address, protocol=2, retry=retry, socket_timeout=10, socket_connect_timeout=5)
        return client, redis
    except ValueError:  # its text may quote a part of the password
        raise SettingError(
            f"{without_credentials(address)}: host, port or database cannot be read; write {EXAMPLE}, and special "
            "characters of a password by their codes, such as %40"
        ) from None


class RedisPosition(TypedDict):
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
        self.place = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        self.log = log
        self._away_since, self._wait = 0.0, 0.0
        self._notes = set[str]()

    def note(self, message: str) -> None:
        """Report something once for all keys."""
        if message not in self._notes:
            self.log(f"redis at {self.place}: {message}")
        self._notes.add(message)

    def request(self, question: Callable[[], Answer]) -> Answer | None:
        """Return the answer to a request, or ``None`` while the server is away.

        Raises:
            SettingError: the server refuses user and password, or has no rights for them.
        """
        if time.monotonic() < self._away_since + self._wait:
            return None
        errors = self.errors
        try:
            answer = question()
        except (errors.AuthenticationError, errors.exceptions.NoPermissionError) as error:
            raise SettingError(
                f"redis at {self.place}: refused ({error}); name user and password in the address"
            ) from None
        except (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError, OSError) as error:
            if not self._wait:
                self.log(f"redis at {self.place} is unreachable ({error}); waiting")
            self._away_since = time.monotonic()
            self._wait = min(SLOWEST, max(0.1, 2 * self._wait))
            return None
        if self._wait:
            self.log(f"redis at {self.place} is back")
        self._wait = 0.0
        return answer


class RedisStream:
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
        """See :class:`ensue.stream.blocks.Source`."""
        place = position_of(RedisPosition, position or RedisPosition(entry=ZERO, added=None))
        self._at, self._num_added = place["entry"], place["added"]

    def read(self, limit: int, wait: float) -> Block:
        """See :class:`ensue.stream.blocks.Source`; while the server is away, nothing and not the end."""
        lines: list[bytes] = []
        places: list[str] = []
        until, size = time.monotonic() + wait, 0
        while len(lines) < limit and size < MOST_BYTES:
            count = min(PAGE, limit - len(lines))
            entries = self._server.request(partial(self._next, count))
            for entry, fields in entries or ():
                self._at = entry.decode()
                line = _line(fields)
                size += len(line)
                lines.append(line[: LONGEST + 1])  # what is longer is rejected
                places.append(f"{self.stream}: entry {self._at}")
            if entries:
                continue
            left = until - time.monotonic()
            if left <= 0:
                return Block(lines, places, self._position(), entries is not None)
            if entries is None or self._server.request(partial(self._await, left)) is None:
                time.sleep(min(POLL, left))
        return Block(lines, places, self._position(), False)

    def committed(self, position: Position) -> None:
        """Let the group follow; if the server is away, the next commit makes up for it."""
        self._server.request(partial(self._follow, cast(RedisPosition, position)))

    def behind(self) -> Behind:
        """Return the seconds between the latest entry and the latest that was read."""
        info = self._server.request(self._info) or Info()
        if info.latest == self._at:  # every entry was read: the count is exact again
            self._num_added = info.num_added
        passed = _order(info.latest)[0] - _order(self._at)[0] if self._at != ZERO else 0
        return Behind(max(0, passed) / 1000, "s")

    def close(self) -> None:
        """See :class:`ensue.stream.blocks.Source`."""
        self._server.client.close()

    def _position(self) -> RedisPosition:
        return RedisPosition(entry=self._at, added=self._num_added)

    def _next(self, count: int) -> list[Entry]:
        """Return the next entries, after a look at what Redis has removed before them."""
        client, errors = self._server.client, self._server.errors
        try:
            entries: list[Entry] = client.xrange(self.stream, self._at, count=count + 1)
            if entries and entries[0][0].decode() == self._at:
                entries = entries[1:]  # trimming removes the oldest: where this one is left, so are those after it
            else:
                with client.pipeline(transaction=True) as pipe:  # nothing is trimmed between the two
                    info, entries = pipe.xinfo_stream(self.stream).xrange(self.stream, self._at, count=count).execute()
                self._compare(_info_of(info))
        except errors.ResponseError as error:
            if "no such key" not in str(error):
                place = f"redis at {self._server.place}"
                raise DataError(f"{place}: {self.stream!r} is not a readable stream ({error})") from None
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
        known, removed = self._num_added, info.num_removed
        starts_later = info.first is None or _order(info.first) > _order(self._at)
        is_shorter = known is not None and info.num_added is not None and info.num_added < known
        if is_shorter or _order(info.latest) < _order(self._at):
            self._warn(
                f"{self.stream!r} ends at entry {info.latest} and holds less than was read up to entry "
                f"{self._at}: the server has lost entries, or is another one; entries with higher ids are read"
            )
            self._num_added = removed if starts_later else None
        elif info.latest == self._at:
            self._num_added = info.num_added
        elif starts_later and (removed is None or known is None or removed > known):
            self._report_lost(removed, is_exact=info.is_gapless)
            self._num_added = removed

    def _report_lost(self, removed: int | None, *, is_exact: bool) -> None:
        """Say that entries after the position are gone.

        Args:
            removed: entries that the server has ever removed, where it counts them.
            is_exact: whether none was deleted alone (XDEL), so that the count of those that were read is exact.
        """
        amount = "entries may have been"
        if removed is not None and self._num_added is not None:
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
        client, entry, added = self._server.client, position["entry"], position["added"]
        with suppress(self._server.errors.ResponseError):  # no key, or no right to it: the group is only displayed
            groups = {group["name"].decode(): group for group in client.xinfo_groups(self.stream)}
            if self.group not in groups:
                client.xgroup_create(self.stream, self.group, entry, entries_read=added)
            elif groups[self.group]["consumers"]:
                self._server.note(f"group {self.group!r} has consumers and does not follow this model")
            else:
                client.xgroup_setid(self.stream, self.group, entry, entries_read=added)
        return True

    def _await(self, seconds: float) -> bool:
        """Wait for an entry after the position, or for some time."""
        self._server.client.xread({self.stream: self._at}, count=1, block=max(1, int(1000 * min(seconds, MAX_BLOCK))))
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
            self._server.log(f"warning: redis at {self._server.place}: {message}")
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
        return b" ".join(part for pair in fields.items() for part in pair)
