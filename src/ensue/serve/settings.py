"""The limits and times of the service."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ensue.errors import SettingError
from ensue.settings import Count, NonNegative, Positive, Settings, Size


@dataclass(frozen=True, kw_only=True)
class ServeSettings(Settings):
    """Limits of requests, waiting times, and the interval of looks at folders."""

    body_bytes: Size = 2**20
    """Bytes of a body; more are refused with 413."""
    update_bytes: Size = 2**24
    """Bytes of a body of an update."""
    records: Size = 256
    """Records per request."""
    explained: Size = 32
    """Records per request that are explained."""
    update_records: Size = 50_000
    """Records per request of an update."""
    events: Size = 10_000
    """Events per request."""
    fields: Size = 100
    """Fields of an event."""
    body_values: Size = 1_000_000
    """Values, lists and objects of a body; more are refused with 413 before any is read."""
    history: Size = 1000
    """Values of a history."""
    words: Size = 2000
    """Words of a record's texts that are to be answered; with evidence, that many cost 1 to 2 s of one core."""
    explained_words: Size = 500
    """Words of a record's texts that are to be explained or drawn."""
    characters: Size = 20_000
    """Characters of a record's texts."""
    value_characters: Size = 1000
    """Characters of one value of a history, such as a query."""
    article_characters: Size = 200_000
    """Characters of an article that is to be learned."""
    prefix: Size = 200
    """Characters of a prefix."""
    depth: Size = 16
    """Nested lists and objects of a body, at most."""
    max_k: Size = 1000
    """Choices per answer: the largest k."""
    batch: Size = 256
    """Records of different requests that are answered in one go, at most."""
    interval: NonNegative = 0.0
    """Seconds from one batch to the next, at least: an idle model answers at once all the same, a busy one more in one
    go. Of 150 requests a second .02 puts three together; a client that asks one by one waits for it."""
    waiting: Size = 2048
    """Records that may wait for one model; what comes then is refused with 429."""
    patience: Positive = 10.0
    """Seconds that a request may wait for its answer, or take to send its body; then it is given up with 503 or 408."""
    learn_seconds: Positive = 600.0
    """Seconds that an update may take."""
    grace: NonNegative = 30.0
    """Seconds that requests in flight have to finish once the service is told to stop."""
    poll: NonNegative = 1.0
    """Seconds between two looks at the model folders."""
    proof_seconds: Positive = 300.0
    """Seconds that a new version may take to load and to answer for the first time; else the one before answers on."""
    hung: Positive = 30.0
    """Seconds after which one of several workers whose event loop does not answer is killed and started again."""
    connections: Size = 1000
    """Connections at once; beyond, the one that has been idle longest makes room."""
    address_connections: Size = 256
    """Connections of one address at once; a proxy before the service is one address."""
    head_seconds: Positive = 10.0
    """Seconds that a connection may take for its first byte, and for the whole head of a request."""
    threads: Size = 1
    """Threads of one prediction; more pay with large models and few requests."""
    keep: Count = 5
    """Former versions kept by an update, at most."""
    learn: bool = True
    """True where updates over HTTP are accepted."""
    hosts: tuple[str, ...] = ()
    """Names that requests may call this service by, beside its own address."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.records > self.waiting:
            raise SettingError(f"records is {self.records}, more than the {self.waiting} allowed in the queue")


UNLIMITED = ServeSettings(
    update_records=sys.maxsize,
    history=sys.maxsize,
    words=sys.maxsize,
    characters=sys.maxsize,
    value_characters=sys.maxsize,
    article_characters=sys.maxsize,
)
"""For an update whose limits were looked at already."""
