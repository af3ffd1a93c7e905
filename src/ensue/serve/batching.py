"""One thread a model: requests that wait are answered together, and nothing waits while the thread is idle.

The thread takes the job that waits longest, and of all others that ask the same kind of question as many as fit into a
batch. So an idle service answers at once, and a busy one does more of its work in one go.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ensue.errors import EnsueError

Answerer = Callable[[Hashable, Sequence[Any]], Sequence[str]]
"""Takes a kind of question and records, gives a line of JSON a record."""


@dataclass(eq=False)
class Job:
    """Some records of one request.

    Attributes:
        kind: jobs of equal kind can be answered together.
        records: at least one.
        done: the lines of JSON, one a record, or the error.
    """

    kind: Hashable
    records: Sequence[Any]
    done: Future[Sequence[str]] = field(default_factory=Future)


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
    """

    def __init__(
        self,
        answer: Answerer,
        *,
        most: int,
        room: int,
        begin: Callable[[], None] = lambda: None,
        heard: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._answer, self._most, self._room, self._begin, self._heard = answer, most, room, begin, heard
        self._waiting: deque[Job] = deque()
        self._records, self._closing = 0, False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="ensue-worker", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Records that wait."""
        return self._records

    @property
    def alive(self) -> bool:
        """Whether jobs are answered."""
        return self._thread.is_alive() and not self._closing

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
                self._records -= len(job.records)

    def close(self, seconds: float) -> None:
        """Answer what waits, then end."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        self._begin()
        while jobs := self._take():
            running = [job for job in jobs if job.done.set_running_or_notify_cancel()]
            if running:
                self._heard(sum(len(job.records) for job in running))
                self._run(running)

    def _take(self) -> list[Job]:
        """The next jobs, all of one kind; none once the queue is closed and empty."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return []
            chosen = [self._waiting.popleft()]
            kind, size = chosen[0].kind, len(chosen[0].records)
            rest: deque[Job] = deque()
            for job in self._waiting:
                if job.kind == kind and size + len(job.records) <= self._most:
                    chosen.append(job)
                    size += len(job.records)
                else:
                    rest.append(job)
            self._waiting = rest
            self._records -= size
        return chosen

    def _run(self, jobs: list[Job]) -> None:
        """Answer jobs together or, where one of them cannot be answered, each alone, so that only that one fails."""
        try:
            lines = self._answer(jobs[0].kind, [record for job in jobs for record in job.records])
        except EnsueError as error:
            if len(jobs) == 1:
                jobs[0].done.set_exception(error)
            else:
                for job in jobs:
                    self._run([job])
        except Exception as error:  # noqa: BLE001 - the thread has to live on; whoever asked is told
            for job in jobs:
                job.done.set_exception(error)
        else:
            low = 0
            for job in jobs:
                job.done.set_result(lines[low : low + len(job.records)])
                low += len(job.records)
