"""One thread a model: requests that wait are answered together, and nothing waits while the thread is idle.

The thread takes the job that waits longest, and of all others that ask the same kind of question as many as fit into a
batch. So an idle service answers at once, and a busy one does more of its work in one go.

A job that is large is answered in slices of about a fifth of a second, by how fast its kind went before; after each
the others have their turn, and a job that nobody waits for any more goes no further.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from ensue.errors import EnsueError

SLICE = 0.2
"""Seconds that one go should take."""
FIRST = 400
"""Load of the first slice of a kind, before anything is known of its pace."""
KINDS = 256
"""Kinds whose pace is remembered, at most."""

Answerer = Callable[[Hashable, Sequence[object]], Sequence[str]]
"""Takes a kind of question and records, gives a line of JSON a record."""


@dataclass(eq=False)
class Job:
    """Records of one request.

    Attributes:
        kind: jobs of equal kind can be answered together.
        records: at least one.
        done: the lines of JSON, one a record, or the error; cancel it, and what is left is not answered.
        lines: of the records that are answered already.
    """

    kind: Hashable
    records: Sequence[object]
    done: Future[Sequence[str]] = field(default_factory=Future)
    lines: list[str] = field(default_factory=list)

    @property
    def left(self) -> Sequence[object]:
        """The records that are not answered yet."""
        return self.records[len(self.lines) :]


Part = tuple[Job, Sequence[object]]
"""Records of a job that are answered together."""


class Full(Exception):  # noqa: N818 - it says how things are
    """No more records can wait."""


class Worker:
    """Answers jobs in a thread of its own.

    Args:
        answer: called in the thread alone.
        most: records that are answered in one go.
        room: records that may wait.
        begin: called first in the thread.
        heard: told the number of records of each batch.
        load: what a record costs, in any unit.
        interval: seconds from the begin of one batch to that of the next, at least.
    """

    def __init__(
        self,
        answer: Answerer,
        *,
        most: int,
        room: int,
        begin: Callable[[], None] = lambda: None,
        heard: Callable[[int], None] = lambda size: None,
        load: Callable[[object], int] = lambda record: 1,
        interval: float = 0.0,
    ) -> None:
        self._answer, self._most, self._room, self._begin, self._heard = answer, most, room, begin, heard
        self._load, self._loads, self._interval = load, dict[Hashable, float](), interval
        self._waiting: deque[Job] = deque()
        self._records, self._closing, self._since = 0, False, 0.0
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="ensue-worker", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Records that wait."""
        return self._records

    @property
    def alive(self) -> bool:
        """True while jobs are answered."""
        return self._thread.is_alive() and not self._closing

    @property
    def busy(self) -> float:
        """Seconds since the slice that is under way began; 0 between slices."""
        since = self._since
        return time.monotonic() - since if since else 0.0

    def ask(self, job: Job) -> None:
        """Put a job into the queue.

        Raises:
            Full: there is no room.
        """
        with self._change:
            if self._closing or self._records + len(job.records) > self._room:
                raise Full
            self._waiting.append(job)
            self._records += len(job.records)
            self._change.notify()

    def forget(self, job: Job) -> None:
        """Take a job that nobody waits for any more out of the queue, so that its room is free."""
        with self._change:
            if job in self._waiting:
                self._waiting.remove(job)
                self._records -= len(job.left)

    def close(self, seconds: float) -> None:
        """Answer what waits, then end."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        self._begin()
        while parts := self._take():
            self._heard(sum(len(records) for _, records in parts))
            self._since = begun = time.monotonic()
            self._run(parts)
            self._since = 0.0
            self._pace(parts, time.monotonic() - begun)
            self._settle(parts)
            if (left := begun + self._interval - time.monotonic()) > 0 and not self._closing:
                time.sleep(left)

    def _take(self) -> list[Part]:
        """Records of the next jobs, all of one kind; none once the queue is closed and empty.

        The first job gives as many as fit into a slice, others join whole or wait.
        """
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return []
            first = self._waiting.popleft()
            self._records -= len(first.left)
            most = self._loads.get(first.kind, FIRST)
            size, load = self._fitting(first, most)
            parts: list[Part] = [(first, first.left[:size])]
            rest: deque[Job] = deque()
            for job in self._waiting:
                if job.kind == first.kind and size + len(job.left) <= self._most and load < most:
                    more = sum(map(self._load, job.left))
                    if load + more <= most:
                        parts.append((job, job.left))
                        self._records -= len(job.left)
                        size, load = size + len(job.left), load + more
                        continue
                rest.append(job)
            self._waiting = rest
        return parts

    def _fitting(self, job: Job, most: float) -> tuple[int, int]:
        """Return the number of its records that fit into a slice, one at least, and their cost."""
        size = load = 0
        for record in job.left[: max(self._most, 1)]:
            own = self._load(record)
            if size and load + own > most:
                break
            size, load = size + 1, load + own
        return size, load

    def _pace(self, parts: list[Part], seconds: float) -> None:
        """Update the load of a kind that fits into a slice; it at most doubles at once."""
        kind, load = parts[0][0].kind, sum(self._load(record) for _, records in parts for record in records)
        former = self._loads.pop(kind, FIRST)
        self._loads[kind] = max(1.0, min(load / max(seconds, 1e-6) * SLICE, 2 * former))
        if len(self._loads) > KINDS:
            self._loads.pop(next(iter(self._loads)))

    def _run(self, parts: list[Part]) -> None:
        """Answer parts together or, where one of them cannot be answered, each alone, so that only that one fails."""
        try:
            lines = self._answer(parts[0][0].kind, [record for _, records in parts for record in records])
        except EnsueError as error:
            if len(parts) == 1:
                _fail(parts[0][0], error)
            else:
                for part in parts:
                    self._run([part])
        except Exception as error:  # noqa: BLE001 - the thread has to live on; whoever asked is told
            for job, _ in parts:
                _fail(job, error)
        else:
            low = 0
            for job, records in parts:
                job.lines += lines[low : low + len(records)]
                low += len(records)

    def _settle(self, parts: list[Part]) -> None:
        """Hand over what is answered; what is not yet waits behind the others, unless nobody waits for it."""
        for job, _ in parts:
            if not job.left:
                if job.done.set_running_or_notify_cancel():
                    job.done.set_result(job.lines)
                continue
            with self._change:
                if not job.done.done():  # neither failed nor given up
                    self._waiting.append(job)
                    self._records += len(job.left)


def _fail(job: Job, error: Exception) -> None:
    if job.done.set_running_or_notify_cancel():
        job.done.set_exception(error)
