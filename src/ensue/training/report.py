"""Progress of a training, requests to end it, and signals, which wait for the end of a step.

What is saved after a step is complete.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple, TypeAlias, TypeVar

LEFT_OUT = "the network was left out: it does not improve on the baselines on held-out data"
"""Note on a network that lost its race, or whose weight in an ensemble is 0."""

OUT_OF_TIME = "the training ended at its time limit (--minutes); more time may give better metrics"


class StopRequest:
    """A request to end a training after the current epoch, made by calling it."""

    def __init__(self) -> None:
        self.is_made = False

    def __call__(self) -> None:
        """Make the request."""
        self.is_made = True


@dataclass(frozen=True, slots=True)
class Report:
    """Progress of a training. Losses are means in nats; ``valid``, the monitored metric, is set after an epoch's check.

    ``monitor`` names that metric: ``loss``, ``accuracy`` or ``mrr``; it is empty where nothing is held out.
    """

    stage: str
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    seconds: float
    valid: float | None = None
    best: float | None = None
    stopped: bool = False
    monitor: str = "loss"
    improving: bool = False
    """True if the last epoch of all was the best one, so that more epochs may give better metrics."""
    best_epoch: int = 0
    """The epoch whose weights are the best so far."""
    parameters: int = 0
    """Number of parameters of the network."""
    device: str = ""
    """Device of the training, such as ``cpu`` or ``cuda:0``."""
    note: str = ""
    """A line to print; a report with a note has no other content."""
    stop: StopRequest = field(default_factory=StopRequest, repr=False, compare=False)
    """Call it to end the training after this epoch; the best epoch is kept as usual."""


ResultT = TypeVar("ResultT")
Reports: TypeAlias = Generator[Report, None, ResultT]
"""Yields the reports of a training, and returns its result."""


class Trained(NamedTuple):
    """Summary of a finished run."""

    best_epoch: int
    """Epochs behind the best weights."""
    seconds_an_epoch: float
    """CPU seconds of this process, checks included: what else the machine does hardly changes them."""
    improving: bool
    """True if the last epoch of all was the best one."""
    steps: int
    """Steps taken in all."""
    late: bool = False
    """True if the run ended because its time was over."""


NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption(KeyboardInterrupt):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _State:
    in_steps = False
    signal_number = 0


@contextmanager
def signals_heard(hear: Callable[[int, FrameType | None], None] | None = None) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise :class:`Interruption`; within :func:`whole_steps` they wait to be asked for.

    Whoever is impatient sends a second one. A signal that this process was started to ignore stays ignored (``nohup``).

    Args:
        hear: another handler.
    """
    if threading.current_thread() is not threading.main_thread():  # who alone may set handlers
        yield
        return
    earlier = {number: signal.getsignal(number) for number in NUMBERS}
    try:
        for number, handler in earlier.items():
            if handler is not signal.SIG_IGN:
                # A signal that the parent process ignores, as nohup does, stays ignored.
                signal.signal(number, hear or _hear)
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        _State.signal_number = 0


@contextmanager
def whole_steps() -> Iterator[None]:
    """Let signals wait until :func:`end_asked` is called, after a step."""
    _State.in_steps = True
    try:
        yield
    finally:
        _State.in_steps = False


def end_asked() -> int:
    """Return the number of the signal that waits; 0 for none."""
    return _State.signal_number


def _hear(number: int, frame: FrameType | None) -> None:
    # torchrun passes on to its ranks what the terminal has sent them already: there, a second signal means nothing.
    is_repeated = _State.signal_number and "WORLD_SIZE" not in os.environ
    if not _State.in_steps or is_repeated:
        raise Interruption(number)
    _State.signal_number = number
