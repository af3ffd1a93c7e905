"""The clock of a stream, and which events lie too far from it.

The clock is the median time of the latest 15 events, so a few wrong times do not move it. An event is *near* if it lies
within 30 days of the clock or of the latest event. One that does not waits until it is clear what it is:

* The events after it are far away too, as many in a row as the clock is made of: the stream itself has moved, as it
  does in an old log with a pause of a year, and all of them are accepted. Nothing is lost.
* The next event is near: those that waited are rejected.
* The stream ends first: they are accepted if they are as many as the clock is made of, else rejected.

A time later than tomorrow by the machine's clock is rejected at once where the stream's own clock shows that its times
count from 1970. A stream that counts from elsewhere, or is replayed from an old log, is judged by its own clock alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from statistics import median_low
from typing import Annotated, NamedTuple

from pydantic import Field

from ensue.data.clock import MILLISECONDS, SINCE_1970, format_time

DAY = 86400.0
FAR = 30 * DAY
"""Seconds between an event and the clock beyond which the event waits for others like it."""
LATEST = 15
"""Events whose median time is the clock."""
MIN_IN_A_ROW = 3
"""Events far away, one after the other, that move even a clock of fewer events."""


class Event(NamedTuple):
    """An event that is not a repeat: the digest of its session, its value, its seconds, and where it stands."""

    session: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    value: str
    time: Annotated[float, Field(ge=-MILLISECONDS, le=MILLISECONDS)]
    location: str


class Rejection(NamedTuple):
    """An event that is left out, and why."""

    event: Event
    reason: str


class StreamClock:
    """The median time of the latest events; see the module."""

    def __init__(self) -> None:
        self.latest: deque[float] = deque(maxlen=LATEST)
        self.waiting: list[Event] = []
        """Events far away, one after the other, of which nothing is decided yet."""
        self.time = -float("inf")

    def advance(self, seconds: float) -> None:
        """Move on by an accepted event."""
        self.latest.append(seconds)
        self.time = median_low(self.latest)

    def restore(self, latest: Sequence[float], waiting: Sequence[Event]) -> None:
        """Put back the latest times and the events that wait."""
        self.latest, self.waiting = deque(latest, LATEST), list(waiting)
        self.time = median_low(self.latest) if self.latest else -float("inf")

    def judge(self, event: Event) -> tuple[list[Event], list[Rejection]]:
        """Return which events are accepted now that this one has come, in order of arrival, and which are rejected."""
        # A day of slack: clocks of machines and time zones differ.
        tomorrow = time.time() + DAY
        future = event.time > tomorrow
        if future and SINCE_1970 <= self.time <= tomorrow:
            return [], [Rejection(event, _future(event))]
        # The first event of a stream is near to nothing and sets the clock.
        if self._is_near(event.time) if self.latest else not future:
            return [event], self._reject_waiting()
        accepted, rejected = list[Event](), list[Rejection]()
        # Far from the clock and from those that wait: it does not confirm them.
        if self.waiting and not _is_close(event.time, self.waiting[-1].time):
            if self.latest:
                rejected = self._reject_waiting()
            else:
                accepted = self._release()  # nothing tells which of them is wrong
        self.waiting.append(event)
        # As many in a row as the clock is made of: the stream itself has moved.
        if len(self.waiting) >= max(len(self.latest), MIN_IN_A_ROW):
            accepted = self._release()
        return accepted, rejected

    def settle(self) -> tuple[list[Event], list[Rejection]]:
        """Decide about the events that wait, where no more will come."""
        if len(self.waiting) >= len(self.latest):
            return self._release(), []
        return [], self._reject_waiting()

    def _is_near(self, seconds: float) -> bool:
        return _is_close(seconds, self.time) or _is_close(seconds, self.latest[-1])

    def _release(self) -> list[Event]:
        accepted, self.waiting = self.waiting, []
        return accepted

    def _reject_waiting(self) -> list[Rejection]:
        return [Rejection(event, self._far(event) if self.latest else _future(event)) for event in self._release()]

    def _far(self, event: Event) -> str:
        days = abs(event.time - self.time) / DAY
        side = "after" if event.time > self.time else "before"
        return f"time {_time_text(event.time)} is {days:,.0f} days {side} the stream's clock ({_time_text(self.time)})"


def _future(event: Event) -> str:
    return f"time {_time_text(event.time)} is in the future; this machine's clock says {_time_text(time.time())}"


def _is_close(seconds: float, other: float) -> bool:
    return abs(seconds - other) <= FAR


def _time_text(seconds: float) -> str:
    dated = seconds >= SINCE_1970
    return format_time(seconds, "s", absolute=True) if dated else f"{seconds:g} s"
