"""Signals that end a training: they wait for the end of a step, so that what is saved then is whole."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption(KeyboardInterrupt):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _State:
    in_steps = False
    asked = 0


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
                signal.signal(number, hear or _hear)
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        _State.asked = 0


@contextmanager
def whole_steps() -> Iterator[None]:
    """Let signals wait until :func:`end_asked` is called, after a step."""
    _State.in_steps = True
    try:
        yield
    finally:
        _State.in_steps = False


def end_asked() -> int:
    """The number of the signal that waits; 0 for none."""
    return _State.asked


def _hear(number: int, frame: FrameType | None) -> None:
    again = _State.asked and "WORLD_SIZE" not in os.environ  # torchrun passes on what the terminal sent already
    if not _State.in_steps or again:
        raise Interruption(number)
    _State.asked = number
