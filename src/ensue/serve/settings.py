"""The limits and times of the service."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

from ensue.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Limits of requests, waiting times, and the interval of looks at folders."""

    body_bytes: int = 2**20
    """Bytes of a body; more are refused with 413."""
    update_bytes: int = 2**24
    """Bytes of a body of an update."""
    records: int = 256
    """Records per request."""
    explained: int = 32
    """Records per request that are explained."""
    learned: int = 50_000
    """Records per request of an update."""
    events: int = 10_000
    """Events per request."""
    fields: int = 100
    """Fields of an event."""
    parts: int = 1_000_000
    """Values, lists and objects of a body; more are refused with 413 before any is read."""
    history: int = 1000
    """Values of a history."""
    words: int = 2000
    """Words of a record's texts that are to be answered; with evidence, that many cost 1 to 2 s of one core."""
    explained_words: int = 500
    """Words of a record's texts that are to be explained or drawn."""
    characters: int = 20_000
    """Characters of a record's texts."""
    value_characters: int = 1000
    """Characters of one value of a history, such as a query."""
    article_characters: int = 200_000
    """Characters of an article that is to be learned."""
    prefix: int = 200
    """Characters of a prefix."""
    depth: int = 16
    """Nested lists and objects of a body, at most."""
    most: int = 1000
    """Choices per answer: the largest k."""
    batch: int = 256
    """Records of different requests that are answered in one go, at most."""
    interval: float = 0.0
    """Seconds from one batch to the next, at least: an idle model answers at once all the same, a busy one more in one
    go. Of 150 requests a second .02 puts three together; a client that asks one by one waits for it."""
    waiting: int = 2048
    """Records that may wait for one model; what comes then is refused with 429."""
    patience: float = 10.0
    """Seconds that a request may wait for its answer, or take to send its body; then it is given up with 503 or 408."""
    learn_seconds: float = 600.0
    """Seconds that an update may take."""
    grace: float = 30.0
    """Seconds that requests in flight have to finish once the service is told to stop."""
    poll: float = 1.0
    """Seconds between two looks at the model folders."""
    proof_seconds: float = 300.0
    """Seconds that a new version may take to load and to answer for the first time; else the one before answers on."""
    hung: float = 30.0
    """Seconds after which one of several workers whose event loop does not answer is killed and started again."""
    connections: int = 1000
    """Connections at once; beyond, the one that has been idle longest makes room."""
    address_connections: int = 256
    """Connections of one address at once; a proxy before the service is one address."""
    head_seconds: float = 10.0
    """Seconds that a connection may take for its first byte, and for the whole head of a request."""
    threads: int = 1
    """Threads of one prediction; more pay with large models and few requests."""
    keep: int = 5
    """Former versions kept by an update, at most."""
    learn: bool = True
    """True where updates over HTTP are accepted."""
    hosts: tuple[str, ...] = ()
    """Names that requests may call this service by, beside its own address."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            minimum = 0 if field.name in ("interval", "keep", "poll", "grace") else 1e-9
            if field.name not in ("learn", "hosts") and not value >= minimum:
                raise SettingError(f"{field.name} is {value}; it must be {'0 or more' if minimum == 0 else 'above 0'}")
        if self.records > self.waiting:
            raise SettingError(f"records is {self.records}, more than the {self.waiting} allowed in the queue")


UNLIMITED = ServeSettings(
    learned=sys.maxsize,
    history=sys.maxsize,
    words=sys.maxsize,
    characters=sys.maxsize,
    value_characters=sys.maxsize,
    article_characters=sys.maxsize,
)
"""For an update whose limits were looked at already."""
