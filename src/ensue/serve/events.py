"""Events that come over HTTP and wait in a queue for ``ensue stream``.

An event is what a line of a stream is, ``{"session": "s1", "item": "a7", "time": 1700000000}`` under any of the usual
names, a whole history, or an event of OpenSearch's User Behavior Insights. All are checked before any is put into the
queue, and go in as lines of one form: session, item, seconds, and an id where one was given.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlunsplit

from pydantic import BeforeValidator, Field

from ensue.data.file_bytes import KEEP
from ensue.data.schema import DataSchema
from ensue.errors import DataError, SettingError
from ensue.lines import without_credentials
from ensue.records import History
from ensue.serve.bodies import Body, Limit, Limits, read, require_short_history, too_long
from ensue.serve.problems import RequestError
from ensue.serve.settings import ServeSettings
from ensue.stream import SQLiteQueue
from ensue.stream.brokers import REDIS_EXAMPLE, connect
from ensue.stream.events import EventReader
from ensue.stream.sources import split_address

CLICKED = frozenset(
    {"click", "click_through", "item_click", "product_click", "view", "watch", "add_to_cart", "purchase"}
)
"""UBI's names of actions on an object; a search, a filter or an impression is none."""
MAX_KINDS = 1000
"""Sets of fields that the events of one request may have: the roles of each are found anew."""
ANY_ID = DataSchema(missing=KEEP)
"""No model is asked: whether ``NA`` is an id is known where events are learned."""
PIPELINE = 1000
"""Entries sent to Redis together."""


Event = Annotated[dict[str, object], Field(min_length=1)]
"""Fields by any of the usual names."""
EXAMPLES: Mapping[str, object] = {
    "one": {"session": "s1", "item": "a17", "time": 1700000000, "id": "e1"},
    "many": {"events": [{"session": "s1", "item": "b03", "time": 1700000042}]},
    "UBI": {
        "action_name": "click",
        "session_id": "s1",
        "timestamp": "2026-01-31T10:00:00Z",
        "event_attributes": {"object": {"object_id": "a17"}},
    },
}


def _events(limits: Limits, kind: object) -> object:
    """Limit the events of one request."""
    max_events = limits.settings.events

    def check(events: list[object]) -> object:
        if len(events) > max_events:
            raise DataError(f"{len(events)} events exceed the limit of {max_events} per request; send them in parts")
        for at, event in enumerate(events):
            if not isinstance(event, dict) or not event:
                raise DataError(
                    f'events[{at}]: must be an object such as {{"session": "s1", "item": "a7", "time": 1700000000}}'
                )
            if len(event) > limits.settings.fields:
                raise too_long(f"events[{at}]", len(event), "fields", limits.settings.fields, "an event", "fields")
        return events

    return Annotated[list[Event], Field(max_length=max_events), BeforeValidator(check)]


class EventList(Body):
    """Events to train on."""

    events: Annotated[list[dict[str, object]], Limit(_events)]


class AcceptedEvents(NamedTuple):
    """The events of a body.

    Attributes:
        lines: for the queue.
        passed_over: events that are none of this kind, such as a search.
    """

    lines: list[str]
    passed_over: int


def open_queue(address: str) -> SQLiteQueue | RedisQueue:
    """The writer's end of ``sqlite:queue.db`` (or a plain path) or ``redis://host:port/0?stream=clicks``.

    Raises:
        SettingError: the address is incomplete, the file cannot be made, or an extra is missing.
    """
    if "://" in address:
        return RedisQueue(address)
    path = Path(address.removeprefix("sqlite:"))
    try:
        return SQLiteQueue(path)
    except sqlite3.Error as error:
        raise SettingError(
            f"--queue {without_credentials(address)}: cannot be opened ({error}); name a file in a folder that is there"
        ) from error


class RedisQueue:
    """The writer's end of a Redis stream; each line is an entry with the field ``line``.

    Args:
        address: as ``ensue stream`` takes it; the group is of no meaning to a writer.

    Raises:
        SettingError: no stream is named, or the extra ``redis`` is not installed.
    """

    def __init__(self, address: str) -> None:
        url, options = split_address(address, REDIS_EXAMPLE)
        self.stream = options.get("stream", "")
        if url.scheme not in ("redis", "rediss", "unix"):
            raise SettingError(f"--queue: {url.scheme}:// is not known; write sqlite:queue.db or {REDIS_EXAMPLE}")
        if not self.stream:
            raise SettingError("--queue: no stream is named; write redis://127.0.0.1:6379/0?stream=clicks")
        self._server, redis = connect(urlunsplit(url._replace(query="")))
        self._error = redis.RedisError

    def put(self, lines: Iterable[str | bytes]) -> None:
        """Append lines; all of them or, where the server goes away, none, up to 1,000 at a time.

        Raises:
            OSError: the server is away.
        """
        all_lines = list(lines)
        try:
            for low in range(0, len(all_lines), PIPELINE):
                # A transaction: all of its entries are added, or none.
                with self._server.pipeline(transaction=True) as pipe:
                    for line in all_lines[low : low + PIPELINE]:
                        pipe.xadd(self.stream, {"line": line})
                    pipe.execute()
        except self._error as error:
            raise OSError("Redis is unreachable") from error


def put(queue: SQLiteQueue | RedisQueue, lines: Sequence[str]) -> None:
    """Put lines into a queue; call it in a thread.

    Raises:
        RequestError: 503, the queue cannot be written.
    """
    try:
        queue.put(lines)
    except (OSError, sqlite3.Error):
        raise RequestError(
            503, "the queue of events cannot be written", "send them again later", {"retry-after": "5"}
        ) from None


def read_events(decoded: object, body: type[EventList], settings: ServeSettings) -> AcceptedEvents:
    """Read the events of a decoded body: one, a list, or ``{"events": […]}``.

    Args:
        decoded: the body.
        body: how many events and fields it may have.
        settings: how long an id and a history may be.

    Raises:
        DataError: naming the first event that is none, and why; then none is taken.
    """
    events = decoded
    if isinstance(decoded, dict) and "events" in decoded:
        if len(decoded) > 1:
            other = next(name for name in decoded if name != "events")
            raise DataError(f"field {other[:64]!r} is not known; a body of events has events alone")
        events = decoded["events"]
    checked = read(body, {"events": events if isinstance(events, list) else [events]}).events
    plain = [_of_ubi(event, at) if "action_name" in event else event for at, event in enumerate(checked)]
    lines = _lines([(at, event) for at, event in enumerate(plain) if event is not None], settings)
    return AcceptedEvents(lines, plain.count(None))


def _of_ubi(event: dict[str, object], at: int) -> dict[str, object] | None:
    """Return UBI's event with our names; ``None`` for one about no object, or that only shows one."""
    attributes = event.get("event_attributes")
    thing = attributes.get("object") if isinstance(attributes, dict) else None
    item = thing.get("object_id") if isinstance(thing, dict) else None
    action = event["action_name"]
    if not isinstance(action, str):
        raise DataError(f'events[{at}]: field "action_name" must be a text')
    # Searches and impressions say nothing about what somebody chose.
    if action not in CLICKED or item in (None, ""):
        return None
    session = event.get("session_id") or event.get("client_id")
    if session is None:
        raise DataError(f'events[{at}]: fields "session_id" and "client_id" are missing; give one of them')
    plain = {"session": session, "item": item, "time": event.get("timestamp")}
    return plain | ({"id": event["event_id"]} if event.get("event_id") else {})


def _lines(events: Sequence[tuple[int, dict[str, object]]], settings: ServeSettings) -> list[str]:
    """Return one line per event. Events with the same fields share a reader: clients may choose the names."""
    lines: list[str] = []
    readers: dict[tuple[tuple[str, type], ...], EventReader] = {}
    for at, event in events:
        # A reader takes its format from its first event, so that each format needs a reader of its own.
        fields = tuple((name, type(value)) for name, value in event.items())
        if fields not in readers:
            if len(readers) == MAX_KINDS:
                raise DataError(
                    f"events[{at}]: the events before have {MAX_KINDS:,} different sets of fields; send events of the "
                    "same fields together, or name the same fields in all of them"
                )
            readers[fields] = EventReader("events", max_id=sys.maxsize, schema=ANY_ID)
        read, rejects = readers[fields].read([json.dumps(event).encode()], [uuid.uuid4().hex])
        if rejects:
            raise DataError(f"events[{at}]: {rejects[0][1]}")
        require_short_history(History(tuple(read.values)), f"events[{at}]", settings)
        # Names of sessions and events are limited as values are.
        names = History((*read.sessions[:1], *read.marks[:1]))
        require_short_history(names, f"events[{at}]", settings)
        for session, item, seconds, mark, _ in read.rows():
            plain: dict[str, object] = {"session": session, "item": item, "time": seconds}
            lines.append(json.dumps(plain | ({"id": mark} if mark else {}), ensure_ascii=False))
    return lines
