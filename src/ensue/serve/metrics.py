"""Figures for Prometheus, in a registry of the service's own; of several processes, added up over them.

Processes that serve together keep their figures in files of a folder, one a place: a process that takes the place of
another goes on with its counts, so that no count falls and there are no more files than places.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from ensue.serve.drift import Drift

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RECORDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Places:
    """Where the processes that serve together keep their figures.

    Args:
        folder: an empty one of their own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, "main"
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
    """What the system says of all processes together; memory that several share counts once."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def collect(self) -> Iterable[Metric]:
        """The sums of what a collector of one process shows."""
        sums: dict[str, Metric] = {}
        for pid in self._places.processes:
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                if metric.name in ("process_cpu_seconds", "process_open_fds", "process_resident_memory_bytes"):
                    shared = _proportional(pid) if metric.name == "process_resident_memory_bytes" else None
                    value = metric.samples[0].value if shared is None else shared
                    before = sums[metric.name].samples[0].value if metric.name in sums else 0.0
                    metric.samples = [metric.samples[0]._replace(value=before + value)]
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
    """What is counted; labels are routes and names of models, never what a request holds.

    Args:
        places: of the processes that serve together; none where this one serves alone.

    Attributes:
        requests: by route, method and status.
        seconds: of requests, by route.
        records: answered, by model and verb.
        given: ids and words asked about, by model.
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

    def __init__(self, places: Places | None = None) -> None:
        self._places = places
        own = self._registry = CollectorRegistry()
        if places is None:
            ProcessCollector(registry=own)
        else:
            values.ValueClass = values.MultiProcessValue(lambda: places.name)  # type: ignore[no-untyped-call]
        self.requests = Counter("ensue_requests", "requests", ["route", "method", "status"], registry=own)
        self.seconds = Histogram(
            "ensue_request_seconds", "seconds per request", ["route"], buckets=SECONDS, registry=own
        )
        self.records = Counter("ensue_records", "records answered", ["model", "verb"], registry=own)
        self.given = Counter("ensue_asked_values", "ids and words in requests", ["model"], registry=own)
        self.unknown = Counter("ensue_unknown_values", "of them, not in vocabulary", ["model"], registry=own)
        self.batch = Histogram("ensue_batch_records", "records per batch", ["model"], buckets=RECORDS, registry=own)
        waits, stands = ("records that wait", ["model"]), ("active version", ["model"])
        self.waiting = Gauge("ensue_waiting_records", *waits, registry=own, multiprocess_mode="livesum")
        self.version = Gauge("ensue_model_version", *stands, registry=own, multiprocess_mode="livemax")
        self.swaps = Counter("ensue_model_swaps", "new versions loaded", ["model"], registry=own)
        self.failures = Counter("ensue_load_failures", "versions that could not be loaded", ["model"], registry=own)
        self.updates = Counter("ensue_updates", "updates applied", ["model"], registry=own)
        self.events = Counter("ensue_events", "events put into the queue", registry=own)
        self.restarts = Counter("ensue_worker_restarts", "workers that ended unexpectedly", registry=own)
        self.refused = Counter("ensue_connections_refused", "closed or refused", ["reason"], registry=own)

    def request(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def watch_waiting(self, model: str, waiting: Callable[[], int]) -> None:
        """How many records wait, whenever somebody asks; of several processes :meth:`tell_waiting` says it."""
        if self._places is None:
            self.waiting.labels(model).set_function(waiting)

    def tell_waiting(self, model: str, waiting: int) -> None:
        """How many records wait, for others to read."""
        if self._places is not None:
            self.waiting.labels(model).set(waiting)

    def drift(self, model: str) -> Drift:
        """What a model does not know of what it is asked, over the same processes."""
        if self._places is None:
            return Drift()
        return Drift(file=self._places.folder / f"{model}.drift" / self._places.name)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        if self._places is None:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, str(self._places.folder))  # type: ignore[no-untyped-call]
        together.register(_Processes(self._places))
        return generate_latest(together)
