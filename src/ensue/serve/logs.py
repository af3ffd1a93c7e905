"""Logs as JSON, a line a request: when, what, how it went and how long it took. No text and nobody's id is in it."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO


class Log:
    """Writes lines.

    Args:
        stream: where to; stderr unless given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._held: list[str] = []

    def request(self, *, method: str, route: str, status: int, seconds: float, records: int) -> None:
        """One line a request; ``route`` is the template, so that nothing of the address itself is kept.

        Requests that are answered together are written together, a turn of the loop later: who reads the lines is woken
        once, which costs a tenth of a small answer.
        """
        self._hold(
            {"method": method, "route": route, "status": status, "ms": round(1000 * seconds, 2), "records": records}
        )
        try:
            asyncio.get_running_loop().call_soon(self._write)
        except RuntimeError:  # no loop runs here
            self._write()

    def event(self, event: str, **facts: object) -> None:
        """Something that happened to the service, such as a new version of a model."""
        self._hold({"event": event, **facts})
        self._write()

    def failure(self, error: BaseException, *, route: str) -> None:
        """An error that nobody foresaw: its kind and the places in the code. Its text may hold data and is left out."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-8:]]
        self.event("failure", route=route, error=type(error).__name__, at=places)

    def _hold(self, facts: dict[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **facts})  # in ASCII: no control character reaches a terminal
        with self._lock:
            self._held.append(f"{line}\n")

    def _write(self) -> None:
        with self._lock, suppress(OSError):  # who read it is gone, or the disk is full: requests are answered on
            lines, self._held = self._held, []
            if lines:
                stream = self._stream or sys.stderr
                stream.write("".join(lines))
                stream.flush()
