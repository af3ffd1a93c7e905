"""Figures for Prometheus, in a registry of the service's own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RECORDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What is counted; labels are routes and names of models, never what a request holds.

    Attributes:
        requests: by route, method and status.
        seconds: of requests, by route.
        records: answered, by model and verb.
        batch: records of a batch, by model.
        waiting: records in the queue, by model.
        version: that stands, by model.
        swaps: new versions taken up, by model.
        failures: versions that could not be loaded, by model.
        updates: learned over HTTP, by model.
        events: put into the queue.
        refused: connections closed or refused before any request, by reason.
    """

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter("ensue_requests", "requests", ["route", "method", "status"], registry=own)
        self.seconds = Histogram("ensue_request_seconds", "seconds a request", ["route"], buckets=SECONDS, registry=own)
        self.records = Counter("ensue_records", "records answered", ["model", "verb"], registry=own)
        self.batch = Histogram("ensue_batch_records", "records a batch", ["model"], buckets=RECORDS, registry=own)
        self.waiting = Gauge("ensue_waiting_records", "records that wait", ["model"], registry=own)
        self.version = Gauge("ensue_model_version", "version that stands", ["model"], registry=own)
        self.swaps = Counter("ensue_model_swaps", "new versions taken up", ["model"], registry=own)
        self.failures = Counter("ensue_load_failures", "versions that could not be loaded", ["model"], registry=own)
        self.updates = Counter("ensue_updates", "updates learned", ["model"], registry=own)
        self.events = Counter("ensue_events", "events put into the queue", registry=own)
        self.refused = Counter("ensue_connections_refused", "closed or refused", ["reason"], registry=own)

    def request(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
