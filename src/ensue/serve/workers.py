"""Several processes behind one port: one loads, divides into those that answer, and looks after them.

The first process listens and loads the models, and each worker begins as a copy of it: what was loaded is there once,
for the system copies a page only where one of them writes. It answers nothing itself. A worker that ends is started
again; where a folder was replaced a process of its own proves that it answers (:mod:`ensue.serve.proof`), the first
process loads it, and new workers take the places of the old ones, one after the other, each of which answers what it
was asked before it ends. So there is one version after the other, and no moment without workers. A worker that is
started again begins from the version that was proved last, whatever lies in the folder.

A worker tells by a socket pair that it answers (``r``), that it has learned an update into a folder (``u``) and that no
further request can begin at it (``c``). It is told when all have taken the update up (``k``): the new workers answer,
and none of the old ones can begin another request. Every second it is asked whether its event loop still turns (``?``,
``!``); where that does not answer for long, the worker is killed and started again. Its end is closed where the first
process has ended, and then it ends too.

Threads do not divide. So the first process asks its models nothing, and models of a task whose libraries start threads
as they load are loaded by each worker for itself, from a copy beside the folder that nobody replaces.
"""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from ensue.errors import EnsueError, SettingError
from ensue.registry import task_of
from ensue.serve.models import ServedFolder, freeze_objects, limit_threads
from ensue.serve.monitoring import Metrics, ServiceLog, SharedCounts
from ensue.serve.proof import prove_apart
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import service_of

READY, UPDATED, CLOSED, ACTIVATED, ASK, ALIVE = b"r", b"u", b"c", b"k", b"?", b"!"
HEARTBEAT = 1.0
"""Seconds between two questions whether a worker is there. No look counts as longer than that: where this process was
held up itself, its workers are not to blame."""
BEGIN = 600.0
"""Seconds that a worker may take until it answers."""
RESTART_DELAY = 1.0
"""Seconds until a worker that never answered is started again."""
SPARE = 5.0
"""Seconds beyond ``grace`` after which a worker that was told to stop is killed."""


class SupervisorLink:
    """A worker's end of the pair.

    Args:
        end: a connected socket.
        refusals: the file in which the first process says why versions in the folders do not answer.
    """

    def __init__(self, end: socket.socket, refusals: Path) -> None:
        self._end, self._activated, self._refusals = end, asyncio.Event(), refusals
        self._heard = time.monotonic()
        self.orphaned = False
        """True once the first process has ended."""

    @property
    def refused(self) -> dict[str, str]:
        """Why versions that lie in the folders do not answer, by model."""
        return dict(json.loads(self._refusals.read_bytes()))

    @property
    def lost(self) -> str:
        """Why new versions are no longer taken up; empty where they are."""
        seconds = time.monotonic() - self._heard
        return f"the process that takes up new versions is silent for {seconds:.0f} s" if seconds > BEGIN else ""

    def begin(self) -> None:
        """Report that requests are answered, and listen; called in the event loop."""
        self._end.setblocking(False)
        asyncio.get_running_loop().add_reader(self._end, self._hear)
        self._end.send(READY)

    def close(self) -> None:
        """Report that no further request can begin here."""
        with suppress(OSError):  # the first process has ended
            self._end.send(CLOSED)

    async def taken_up(self) -> None:
        """Say that a folder was replaced, and wait until all workers answer from it, or its replacement failed."""
        # Before the message: the answer may be there before this goes on.
        self._activated.clear()
        self._end.send(UPDATED)
        await self._activated.wait()

    def _hear(self) -> None:
        try:
            # Several messages of one byte may come together.
            data = self._end.recv(64)
        except OSError:
            data = b""
        if ACTIVATED in data:
            self._activated.set()
        if ASK in data:
            self._heard = time.monotonic()
            with suppress(OSError):
                self._end.send(ALIVE)
        if not data:  # nobody looks after this process any more
            self.orphaned = True
            asyncio.get_running_loop().remove_reader(self._end)
            self._activated.set()
            # A worker without a supervisor ends as if it had been told to.
            os.kill(os.getpid(), signal.SIGTERM)


@dataclass(eq=False)
class _Worker:
    """A worker, as the first process sees it."""

    slot: int
    side: str
    pid: int
    end: socket.socket
    ready: bool = False
    leaving: float = 0.0
    """Time at which it was told to stop; 0 before."""
    closed: bool = False
    """True once no further request can begin at it."""
    asked_at: float = 0.0
    """Time of the latest question whether it is alive."""
    silent: float = 0.0
    """Seconds for which it owes an answer."""
    hung: bool = False
    """True once it was killed for that."""

    @property
    def name(self) -> str:
        """Name of its counts; the worker that replaces it takes the other side."""
        return f"{self.slot}{self.side}"


class Supervisor:
    """Looks after the workers.

    Args:
        folders: name to model folder.
        num: workers.
        settings: limits and times.
        metrics: of this process.
        counts: of all processes.
        log: hears of them.
        serve: what a worker does, with what is loaded, until it is told to stop.

    Raises:
        SettingError: what was loaded has started threads.
        ModelFolderError: a folder is none, or damaged.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        num: int,
        settings: ServeSettings,
        metrics: Metrics,
        counts: SharedCounts,
        log: ServiceLog,
        serve: Callable[[Sequence[ServedFolder], SupervisorLink], None],
    ) -> None:
        self._num, self._settings, self._metrics, self._counts, self._log = num, settings, metrics, counts, log
        self._serve = serve
        counts.take("main")
        self._refusals = counts.folder / "refused.json"
        # A thread does not survive a fork, and whoever waits for it waits for ever.
        former_threads = _threads()
        self._served = [
            ServedFolder(name, folder, metrics, log, loads=service_of(task_of(folder)).forks, warm=False)
            for name, folder in folders.items()
        ]
        if (threads := _threads() - former_threads) > 0:
            raise SettingError(f"the models have started {threads} threads and cannot be forked; use --workers 1")
        self._publish()
        self._workers: list[_Worker] = []
        self._updated: list[_Worker] = []
        self._waiting: list[_Worker] = []
        """Workers that wait until all answer from their update."""
        self._selector = selectors.DefaultSelector()
        self._stop = False
        self._restarts: dict[int, float] = {}
        self._turned = time.monotonic()

    @property
    def tasks(self) -> dict[str, str]:
        """The task of each model."""
        return {served.name: served.task for served in self._served}

    def run(self, listening: Callable[[], None]) -> None:
        """Start the workers, look after them until a signal says stop, and let them finish.

        Args:
            listening: called once all answer.

        Raises:
            SettingError: a worker cannot begin; its own lines say why.
        """
        old = {number: signal.signal(number, self._stop_on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._prepare()
            for slot in range(self._num):
                if not self._stop and not self._has_started(self._start(slot)) and not self._stop:
                    raise SettingError("a worker ended before it answered; see the lines above")
            if not self._stop:
                listening()
            looked = time.monotonic()
            while not self._stop:
                self._turn(min(max(self._settings.poll, 0.02), 1.0))
                if self._updated or time.monotonic() >= looked + self._settings.poll:
                    self._waiting, self._updated = [*self._waiting, *self._updated], []
                    try:
                        self._check_folders()
                    except Exception as error:  # noqa: BLE001 - the workers answer on, and the next look follows
                        self._log.failure(error, route="watch")
                    looked = time.monotonic()
                if not any(worker.leaving and not worker.closed for worker in self._workers):
                    self._tell_learned()
        finally:
            self._tell_learned()
            self._end()
            for served in self._served:
                served.close()
            for number, handler in old.items():
                signal.signal(number, handler)

    def _tell_learned(self) -> None:
        for worker in self._waiting:
            with suppress(OSError):
                worker.end.send(ACTIVATED)
        self._waiting = []

    def _stop_on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _start(self, slot: int) -> _Worker:
        """Start a worker at a place, on its free side."""
        end, worker_end = socket.socketpair()
        # A place has two sides: the worker that leaves and the one that comes.
        while len(sides := {worker.side for worker in self._workers if worker.slot == slot}) == 2:
            self._turn(0.05)  # the one before the one before still answers its last
        side = "b" if "a" in sides else "a"
        pid = self._divide(lambda: self._work(f"{slot}{side}", end, SupervisorLink(worker_end, self._refusals)))
        worker_end.close()
        end.setblocking(False)
        worker = _Worker(slot, side, pid, end)
        self._workers.append(worker)
        self._selector.register(end, selectors.EVENT_READ, worker)
        return worker

    def _divide(self, life: Callable[[], object]) -> int:
        """A copy of this process that does this and ends; its number."""
        freeze_objects()
        sys.stdout.flush()
        with warnings.catch_warnings():
            # Polars has idle threads from its import on, of which Python 3.12 warns; no worker needs those.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                # Handlers of the first process would make the child look after its siblings.
                signal.signal(number, signal.SIG_DFL)
            for other in self._workers:
                other.end.close()
            self._selector.close()
            life()
            code = 0
        except EnsueError as error:
            self._log.event("worker_failed", error=str(error))
        except Exception as error:  # noqa: BLE001 - a copy of the first process must end here, whatever happens
            self._log.failure(error, route="worker")
        finally:
            # No cleanup of the first process: its folder and socket are still in use.
            os._exit(code)

    def _work(self, name: str, end: socket.socket, link: SupervisorLink) -> None:
        """Serve as a worker."""
        end.close()
        self._counts.take(name)
        self._serve([served.for_worker() for served in self._served], link)

    def _prepare(self) -> None:
        """Build what a folder lacks, such as the index of a large catalogue, once, in a process that then ends."""
        for served in self._served:
            if self._stop or not served.is_unprepared:
                continue
            file = self._counts.folder / f"{served.name}.made"
            started = time.monotonic()
            pid = self._divide(partial(_prepare, served, file, self._settings.threads))
            ended = 0
            status = 0
            while not ended:
                if self._stop:
                    os.kill(pid, signal.SIGKILL)
                self._turn(0.05)
                ended, status = os.waitpid(pid, os.WNOHANG)
            if not status:  # else each worker tries, and says what is wrong
                served.predictor.use_prepared(file.read_bytes())
                self._log.event("prepared", model=served.name, seconds=round(time.monotonic() - started, 1))
            file.unlink(missing_ok=True)

    def _has_started(self, worker: _Worker) -> bool:
        """Wait until a worker answers; false where it ended before, or took too long."""
        ends = time.monotonic() + BEGIN
        while not worker.ready and worker in self._workers and not self._stop and time.monotonic() < ends:
            self._turn(0.05)
        return worker.ready

    def _turn(self, seconds: float) -> None:
        """Read messages of workers, and notice which have ended."""
        for key, _ in self._selector.select(seconds):
            worker: _Worker = key.data
            try:
                message = worker.end.recv(64)
            except OSError:
                message = b""
            if not message:
                self._selector.unregister(worker.end)
            worker.ready |= READY in message
            worker.closed |= CLOSED in message
            if READY in message or ALIVE in message:
                worker.silent = 0.0
            if UPDATED in message:
                self._updated.append(worker)
        now = time.monotonic()
        # A laptop that slept must not kill all its workers.
        passed = min(now - self._turned, HEARTBEAT)
        self._turned = now
        for worker in list(self._workers):
            self._ask(worker, now, passed)
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                self._ended(worker, os.waitstatus_to_exitcode(status))
            elif worker.leaving and now > worker.leaving + self._settings.grace + SPARE:
                os.kill(worker.pid, signal.SIGKILL)
        for slot, when in list(self._restarts.items()):
            if now >= when and not self._stop:
                del self._restarts[slot]
                self._start(slot)

    def _ask(self, worker: _Worker, now: float, passed: float) -> None:
        """Ask a worker whether it is there, and kill one that has not answered for long."""
        if worker.leaving or worker.hung:
            return
        if worker.ready and not worker.silent:
            if now < worker.asked_at + HEARTBEAT:
                return
            worker.asked_at = now
            with suppress(OSError):  # it has just ended
                worker.end.send(ASK)
        worker.silent += passed
        if worker.silent > (self._settings.hung if worker.ready else BEGIN):
            worker.hung = True
            self._log.event("worker_hung", worker=worker.slot, seconds=round(worker.silent, 1))
            os.kill(worker.pid, signal.SIGKILL)

    def _ended(self, worker: _Worker, code: int) -> None:
        self._workers.remove(worker)
        with suppress(KeyError, ValueError):
            self._selector.unregister(worker.end)
        worker.end.close()
        self._updated = [other for other in self._updated if other is not worker]
        self._waiting = [other for other in self._waiting if other is not worker]
        self._counts.leave(worker.name)
        if worker.leaving or self._stop:
            return
        if not worker.hung:
            self._log.event("worker_ended", worker=worker.slot, code=code)
        self._metrics.restarts.inc()
        if worker.ready:
            self._restarts[worker.slot] = time.monotonic()
        elif not any(other.slot == worker.slot for other in self._workers):
            self._restarts[worker.slot] = time.monotonic() + RESTART_DELAY

    def _check_folders(self) -> None:
        """Prove and load folders that were replaced, and replace the workers one after the other."""
        try:
            # A list, not any(): all folders are looked at.
            replaced = [served for served in self._served if served.refresh(self._prove)]
            if not replaced:
                return
            self._prepare()
            if self._replace_workers():
                for served in replaced:
                    served.report_swap()
            elif not self._stop:
                for served in replaced:
                    # New workers cannot load it, although a process could: back to the version of before.
                    served.revert()
                self._replace_workers()
        finally:
            self._publish()

    def _prove(self, copy: Path) -> None:
        """Let a process of its own try a version, and look after the workers meanwhile."""

        def wait() -> bool:
            self._turn(0.05)
            return not self._stop

        prove_apart(copy, self._settings.proof_seconds, wait)

    def _replace_workers(self) -> bool:
        """Let new workers take the places of the old ones; false where one cannot answer."""
        for slot in range(self._num):
            old = [worker for worker in self._workers if worker.slot == slot and not worker.leaving]
            new = self._start(slot)
            if not self._has_started(new):
                if not self._stop:
                    self._log.event("swap_failed", worker=slot)
                return False
            # The new one answers, so that no moment is without workers.
            for worker in old:
                self._leave(worker)
        return True

    def _publish(self) -> None:
        """Publish to the workers why versions do not answer."""
        text = json.dumps({served.name: served.refused for served in self._served if served.refused})
        if not self._refusals.exists() or self._refusals.read_text() != text:
            new = self._refusals.with_suffix(".new")
            new.write_text(text)
            # Replaced at once: workers read it at any moment.
            new.replace(self._refusals)

    def _leave(self, worker: _Worker) -> None:
        worker.leaving = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGTERM)

    def _end(self) -> None:
        """Stop all workers, and wait for them."""
        self._stop = True
        for worker in self._workers:
            self._leave(worker)
        while self._workers:
            self._turn(0.05)
        self._selector.close()


def _prepare(served: ServedFolder, file: Path, threads: int) -> None:
    limit_threads(threads)
    file.write_bytes(served.predictor.prepare())


def _threads() -> int:
    """Return the number of threads of this process, 1 where the system does not tell."""
    try:
        return len([*Path("/proc/self/task").iterdir()])
    except OSError:
        return 1
