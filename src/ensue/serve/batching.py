"""One queue per model: requests that wait are answered together, small ones in the event loop, others in a thread.

Requests that arrive in one turn of the event loop gather until it ends. Where they are few, and their kinds have been
fast enough for all of them to take a few milliseconds, they are answered there: to another thread and back costs a
small answer a third of its time. Otherwise the model's thread answers, as long as anything waits: first the job that
waits longest, together with as many jobs of the same kind as fit into a batch. So an idle service answers at once, and
a busy one does more of its work in one go. The two never answer at the same time.

The event loop answers by models of ensue alone. A class of somebody else may be fast and then wait, for a lock or a
server, and would hold up every request and every probe with it; so its thread answers always.

A large job is answered in slices of about a fifth of a second, by how fast its kind was before. Other jobs have their
turn after each slice, and a job that nobody waits for any more goes no further.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import accumulate

from ensue.errors import EnsueError

SLICE = 0.2
"""Seconds that one batch should take."""
INLINE = 0.005
"""Seconds for which the event loop may answer by itself."""
MAX_INLINE_LOAD = 4000
"""Load that the event loop answers by itself, at most, however fast it was before: about 150 sessions."""
FIRST_LOAD = 400
"""Load of the first slice of a kind, before its pace is measured."""
MAX_KINDS = 256
"""Kinds whose pace is remembered."""

Answerer = Callable[[Hashable, Sequence[object]], Sequence[str]]
"""Takes a kind of question and records, returns one line of JSON per record."""


@dataclass(eq=False)
class Job:
    """Records of one request; create it in the event loop where the request waits.

    Attributes:
        kind: jobs of equal kind can be answered together.
        records: at least one.
        done: lines of JSON, one per record, or the error. When it is cancelled, the remaining records are not answered.
        loads: estimated cost of each record; :meth:`Worker.ask` sets it.
        lines: of the records that are answered already.
        error: why the job cannot be answered.
    """

    kind: Hashable
    records: Sequence[object]
    done: asyncio.Future[Sequence[str]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    loads: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    error: Exception | None = None

    @property
    def num_left(self) -> int:
        """Number of records that are not answered yet."""
        return len(self.records) - len(self.lines)

    @property
    def loads_left(self) -> list[int]:
        """Cost of each record that is not answered yet."""
        return self.loads[len(self.lines) :]

    def next_records(self, size: int) -> Sequence[object]:
        """Return the first records that are not answered yet."""
        return self.records[len(self.lines) : len(self.lines) + size]

    def settle(self) -> None:
        """Hand the lines or the error to whoever waits; called in the event loop."""
        if self.done.done():
            return
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.lines)


JobPart = tuple[Job, int]
"""A job, and how many of its next records are answered together with those of other jobs."""


class Full(Exception):  # noqa: N818 - a state of the queue, not a fault
    """No more records can wait."""


@dataclass(eq=False)
class Worker:
    """Answers jobs, a batch at a time.

    Args:
        answer: called by the event loop or the worker's thread, never by both at the same time.
        max_batch: records per batch.
        max_waiting: records that may wait.
        begin: called first in the thread.
        on_batch: called with the number of records of each batch.
        load: cost of a record, in any unit.
        interval: seconds from the begin of one batch to that of the next; if above 0, only the thread answers.
        is_inline: whether the event loop may answer by itself what is quick.
    """

    answer: Answerer
    _: KW_ONLY
    max_batch: int
    max_waiting: int
    begin: Callable[[], None]
    on_batch: Callable[[int], None]
    load: Callable[[object], int]
    interval: float
    is_inline: Callable[[], bool]

    def __post_init__(self) -> None:
        self._paces: dict[Hashable, float] = {}  # kind -> load that fits into a slice
        self._queue: deque[Job] = deque()
        self._num_waiting = 0
        self._started = 0.0  # start of the slice under way; 0 between slices
        self._active = False  # a turn of the event loop is scheduled, or something is answered
        self._threaded = False  # it is the thread's turn
        self._closing = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="ensue-worker", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of records that wait."""
        return self._num_waiting

    @property
    def alive(self) -> bool:
        """True while jobs are answered."""
        return self._thread.is_alive() and not self._closing

    @property
    def busy(self) -> float:
        """Seconds since the slice that is under way began; 0 between slices."""
        started = self._started
        return time.monotonic() - started if started else 0.0

    def ask(self, job: Job) -> None:
        """Put a job into the queue; called in the event loop.

        Raises:
            Full: there is no room.
        """
        # Outside the lock: it takes time for long texts.
        job.loads = [self.load(record) for record in job.records]
        with self._change:
            if self._closing or self._num_waiting + len(job.records) > self.max_waiting:
                raise Full
            self._enqueue(job)
            if self._active:
                return
            self._active = True
        # At the end of this turn, so that requests that arrived together are answered together.
        job.done.get_loop().call_soon(self._start)

    def forget(self, job: Job) -> None:
        """Remove a job that nobody waits for any more from the queue."""
        with self._change:
            if job in self._queue:
                self._queue.remove(job)
                self._num_waiting -= job.num_left

    def close(self, seconds: float) -> None:
        """Answer what waits, then end."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join(seconds)

    def _enqueue(self, job: Job) -> None:
        self._queue.append(job)
        self._num_waiting += job.num_left

    def _start(self) -> None:
        """Answer what has gathered in a turn of the event loop, or let the thread do so."""
        with self._change:
            self._threaded = not self._is_quick()
            if self._threaded:
                self._change.notify()
                return
            batch = self._take()
        for job in self._answer_batch(batch):
            job.settle()
        with self._change:
            self._active = bool(self._queue)
            if self._closing:  # otherwise the thread sleeps on: to wake it costs a tenth of an answer
                self._change.notify()
        if self._active:
            batch[0][0].done.get_loop().call_soon(self._start)

    def _is_quick(self) -> bool:
        """Return whether all that waits takes so little time that the event loop can answer it."""
        if self._closing or self.interval or not self._queue or not self.is_inline():
            return False
        load = slices = 0.0
        for job in self._queue:
            pace = self._paces.get(job.kind)
            if pace is None:  # never measured
                return False
            job_load = sum(job.loads_left)
            load += job_load
            slices += job_load / pace
        return load <= MAX_INLINE_LOAD and slices * SLICE <= INLINE

    def _work(self) -> None:
        self.begin()
        while True:
            with self._change:
                # Never while the event loop answers: the model has one caller at a time.
                self._change.wait_for(lambda: self._threaded or (self._closing and not self._active))
                batch = self._take()
                if not batch:
                    self._threaded = self._active = False
                    if self._closing:
                        return
                    continue
            started = time.monotonic()
            # Once per batch and not once per job: waking the event loop costs time.
            if finished := self._answer_batch(batch):
                with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                    finished[0].done.get_loop().call_soon_threadsafe(_settle_all, finished)
            if (pause := started + self.interval - time.monotonic()) > 0 and not self._closing:
                time.sleep(pause)

    def _answer_batch(self, batch: list[JobPart]) -> list[Job]:
        """Answer a batch and return the jobs that are finished; the others go to the end of the queue."""
        self.on_batch(sum(size for _, size in batch))
        # Before it is answered: what is left shrinks.
        load = sum(sum(job.loads_left[:size]) for job, size in batch)
        self._started = started = time.monotonic()
        self._run(batch)
        self._started = 0.0
        self._update_pace(batch[0][0].kind, load, time.monotonic() - started)
        finished: list[Job] = []
        for job, _ in batch:
            if job.error is not None or not job.num_left:
                finished.append(job)
            # The rest of a large job goes behind the others.
            elif not job.done.done():
                with self._change:
                    self._enqueue(job)
        return finished

    def _take(self) -> list[JobPart]:
        """Return the parts of the next batch, all of one kind; none where nothing waits.

        The first job gives as many records as fit into a slice, others join whole or wait.
        """
        if not self._queue:
            return []
        first = self._queue.popleft()
        max_load = self._paces.get(first.kind, FIRST_LOAD)
        # The number of leading records whose loads together fit into a slice, at least one.
        totals = list(accumulate(first.loads_left[: self.max_batch]))
        size = max(1, bisect_right(totals, max_load))
        load = totals[size - 1]
        batch = [(first, size)]
        self._num_waiting -= first.num_left
        remaining: deque[Job] = deque()
        for job in self._queue:
            job_load = sum(job.loads_left)
            if job.kind == first.kind and size + job.num_left <= self.max_batch and load + job_load <= max_load:
                batch.append((job, job.num_left))
                self._num_waiting -= job.num_left
                size += job.num_left
                load += job_load
            else:
                remaining.append(job)
        self._queue = remaining
        return batch

    def _update_pace(self, kind: Hashable, load: int, seconds: float) -> None:
        """Update the load of a kind that fits into a slice; it at most doubles at once."""
        former = self._paces.pop(kind, FIRST_LOAD)
        self._paces[kind] = max(1.0, min(load / max(seconds, 1e-6) * SLICE, 2 * former))
        if len(self._paces) > MAX_KINDS:
            # The kind that was asked longest ago: pop and insert keep the order of use.
            self._paces.pop(next(iter(self._paces)))

    def _run(self, batch: list[JobPart]) -> None:
        """Answer parts together or, where one of them cannot be answered, each alone, so that only that one fails."""
        records = [job.next_records(size) for job, size in batch]
        try:
            lines = iter(self.answer(batch[0][0].kind, [record for job_records in records for record in job_records]))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a model raises, other requests are answered
            # A record that cannot be answered fails its own request alone; other errors are the model's.
            if isinstance(error, EnsueError) and len(batch) > 1:
                for job_part in batch:
                    self._run([job_part])
                return
            for job, _ in batch:
                job.error = error if isinstance(error, Exception) else RuntimeError("the model has ended its thread")
        else:
            for (job, _), job_records in zip(batch, records, strict=True):
                job.lines += [next(lines) for _ in job_records]


def _settle_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.settle()
