"""Log lines, metrics for Prometheus, and drift.

A line of JSON per request says when, what, how it went and how long it took; no text and nobody's id is in it. Metrics
are in a registry of the service's own. Processes that serve together keep theirs in files of a folder, one per place: a
process that takes the place of another continues its counts, so that no count falls and there are no more files than
places. Drift is the fraction of the ids and words in requests that are not in a model's vocabulary: where it rises, an
update is due.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TextIO

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

LINES_TOGETHER = 0.1
"""Seconds for which lines of requests wait to be written together."""


class ServiceLog:
    """Writes the lines of the log.

    Args:
        stream: where to; stderr unless given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._lines: list[str] = []

    def entry(self, **fields: object) -> None:
        """Write a line.

        Lines are written together, at most :data:`LINES_TOGETHER` seconds later: a write for each costs a tenth of a
        small answer, and wakes whoever reads the log.
        """
        if self._add(fields):
            asyncio.get_running_loop().call_later(LINES_TOGETHER, self.flush)

    def event(self, event: str, **facts: object) -> None:
        """Write an event of the service, such as a new version of a model."""
        self._add({"event": event, **facts})
        self.flush()

    def failure(self, error: BaseException, *, route: str) -> None:
        """Write an unexpected error: its kind and places in the code. Its text may hold data and is left out."""
        frames = traceback.extract_tb(error.__traceback__)
        counts = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
        self.event("failure", route=route, error=type(error).__name__, at=counts)

    def _add(self, fields: dict[str, object]) -> bool:
        """Keep a line until the next write; return whether it is the first."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **fields})  # in ASCII: no control character reaches a terminal
        with self._lock:
            self._lines.append(f"{line}\n")
            return len(self._lines) == 1

    def flush(self) -> None:
        """Write the lines of requests that wait."""
        with self._lock, suppress(OSError):  # who read it is gone, or the disk is full: requests are answered on
            lines, self._lines = self._lines, []
            if lines:
                stream = self._stream or sys.stderr
                stream.write("".join(lines))
                stream.flush()


DAYS = 7
_COUNTS = re.compile(r'"in_vocabulary": (\d+), "events": (\d+)')
"""The counts in the JSON of an answer; quotes within its texts are escaped, so that no text can look like this."""
_COUNTS_START = '"in_vocabulary": '


def _today() -> date:
    return datetime.now(UTC).date()


class Drift:
    """Counts of the latest days, of one process or of all that serve together.

    One row per day, ``[DAYS, 4]``: the day's number, records, ids and words in vocabulary, and all ids and words. A new
    day takes the row of the day a week before.

    Args:
        today: returns the day. [default: that of UTC]
        file: file of this process's rows, in a folder that holds nothing but those of the processes that serve
            together. A process that takes the place of another continues its counts. ``None`` where one process serves
            alone.
    """

    def __init__(self, today: Callable[[], date] = _today, file: Path | None = None) -> None:
        self._today = today
        self._folder = None
        shape = (DAYS, 4)
        self._days: np.ndarray = np.zeros(shape, np.int64)
        if file is not None:
            self._folder = file.parent
            self._folder.mkdir(exist_ok=True)
            if not file.exists():
                file.write_bytes(self._days.tobytes())
            self._days = np.memmap(file, np.int64, "r+", shape=shape)

    def count(self, lines: Iterable[str]) -> tuple[int, int]:
        """Count answers, one line of JSON each; return the number of ids and words in them, and of unknown ones."""
        num_records = num_known = num_total = 0
        for line in lines:
            # the counts follow the choices: looking from the end passes over none of their texts
            match = _COUNTS.match(line, max(0, line.rfind(_COUNTS_START)))
            if match:
                num_records += 1
                num_known += int(match[1])
                num_total += int(match[2])
        today = self._today().toordinal()
        row = self._days[today % DAYS]
        # The row is of a day that is a week ago or longer.
        if row[0] != today:
            row[:] = today, 0, 0, 0
        row += (0, num_records, num_known, num_total)
        return num_total, num_total - num_known

    def describe(self) -> dict[str, object] | None:
        """Return the records of the latest days, the ids and words in them, and the fraction not in vocabulary.

        Counts are summed over all processes; ``None`` without any.
        """
        days = self._days
        if self._folder is not None:
            days = np.concatenate([np.fromfile(file, np.int64).reshape(-1, 4) for file in self._folder.iterdir()])
        records, in_vocabulary, total = days[days[:, 0] > self._today().toordinal() - DAYS, 1:].sum(0).tolist()
        if not total:
            return None
        return {"days": DAYS, "records": records, "events": total, "unknown": round(1 - in_vocabulary / total, 4)}


SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RECORDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class SharedCounts:
    """Folder in which the processes that serve together keep their counts.

    Args:
        folder: an empty one of their own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, "main"
        # The library takes the folder from there.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)

    def take(self, name: str) -> None:
        """Be at this place from now on, and forget what another process showed there of itself."""
        self.name = name
        self.leave(name)
        (self.folder / f"{name}.pid").write_text(str(os.getpid()))

    def leave(self, name: str) -> None:
        """Forget what stands at a place whose process has ended; its counts stay."""
        (self.folder / f"{name}.pid").unlink(missing_ok=True)
        mark_process_dead(name, str(self.folder))  # type: ignore[no-untyped-call]

    @property
    def processes(self) -> list[int]:
        """All that serve, and the one that looks after them."""
        return [int(path.read_text() or os.getpid()) for path in self.folder.glob("*.pid")]


class _Processes(Collector):
    """System metrics of all processes together; memory that several share counts once."""

    def __init__(self, counts: SharedCounts) -> None:
        self.counts = counts

    def collect(self) -> Iterable[Metric]:
        """The sums of what a collector of one process shows."""
        sums: dict[str, Metric] = {}
        for pid in self.counts.processes:
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                if metric.name in ("process_cpu_seconds", "process_open_fds", "process_resident_memory_bytes"):
                    shared = _proportional(pid) if metric.name == "process_resident_memory_bytes" else None
                    value = metric.samples[0].value if shared is None else shared
                    former = sums[metric.name].samples[0].value if metric.name in sums else 0.0
                    metric.samples = [metric.samples[0]._replace(value=former + value)]
                    sums[metric.name] = metric
        return sums.values()


def _proportional(pid: int) -> float | None:
    """Bytes of memory of a process, each page divided by those that share it; ``None`` where nobody tells."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), None)


class Metrics:
    """Counters of the service; labels are routes and names of models, never what a request holds.

    Args:
        counts: of the processes that serve together; none where this one serves alone.

    Attributes:
        counts: the argument.
        requests: by route, method and status.
        seconds: of requests, by route.
        records: answered, by model and verb.
        asked_values: ids and words asked about, by model.
        unknown: those of them that the model did not know, by model.
        batch: records of a batch, by model.
        waiting: records in the queue, by model.
        version: that stands, by model.
        swaps: new versions taken up, by model.
        failures: versions that could not be loaded, by model.
        updates: learned over HTTP, by model.
        events: put into the queue.
        refused: connections closed or refused before any request, by reason.
        restarts: workers that ended and were started again.
    """

    def __init__(self, counts: SharedCounts | None = None) -> None:
        self.counts = counts
        reg = self._registry = CollectorRegistry()
        if counts is None:
            ProcessCollector(registry=reg)
        else:
            # By name and not by process id: a worker that is started again continues the file of its place.
            values.ValueClass = values.MultiProcessValue(lambda: counts.name)  # type: ignore[no-untyped-call]
        self.requests = Counter("ensue_requests", "requests", ["route", "method", "status"], registry=reg)
        self.seconds = Histogram(
            "ensue_request_seconds", "seconds per request", ["route"], buckets=SECONDS, registry=reg
        )
        self.records = Counter("ensue_records", "records answered", ["model", "verb"], registry=reg)
        self.asked_values = Counter("ensue_asked_values", "ids and words in requests", ["model"], registry=reg)
        self.unknown = Counter("ensue_unknown_values", "of them, not in vocabulary", ["model"], registry=reg)
        self.batch = Histogram("ensue_batch_records", "records per batch", ["model"], buckets=RECORDS, registry=reg)
        waits = ("records that wait", ["model"])
        version_help = ("active version", ["model"])
        self.waiting = Gauge("ensue_waiting_records", *waits, registry=reg, multiprocess_mode="livesum")
        self.version = Gauge("ensue_model_version", *version_help, registry=reg, multiprocess_mode="livemax")
        self.swaps = Counter("ensue_model_swaps", "new versions loaded", ["model"], registry=reg)
        self.failures = Counter("ensue_load_failures", "versions that could not be loaded", ["model"], registry=reg)
        self.updates = Counter("ensue_updates", "updates applied", ["model"], registry=reg)
        self.events = Counter("ensue_events", "events put into the queue", registry=reg)
        self.restarts = Counter("ensue_worker_restarts", "workers that ended unexpectedly", registry=reg)
        self.refused = Counter("ensue_connections_refused", "closed or refused", ["reason"], registry=reg)

        self._of_kind: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def request(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        kind = route, method, status
        if kind not in self._of_kind:  # looking up the labels costs more than counting does
            self._of_kind[kind] = self.requests.labels(route, method, str(status)), self.seconds.labels(route)
        counter, histogram = self._of_kind[kind]
        counter.inc()
        histogram.observe(seconds)

    def drift(self, model: str) -> Drift:
        """Return the drift of a model, over the same processes."""
        if self.counts is None:
            return Drift()
        return Drift(file=self.counts.folder / f"{model}.drift" / self.counts.name)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        if self.counts is None:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, str(self.counts.folder))  # type: ignore[no-untyped-call]
        together.register(_Processes(self.counts))
        return generate_latest(together)
