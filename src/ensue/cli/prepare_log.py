"""What ``prepare`` does: read in pieces, say how far it is, and what came of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

import typer

from ensue.cli import show
from ensue.cli.options import Reading
from ensue.data.sequences.prepare import Progress, prepare, prepare_share
from ensue.data.sequences.shares import Share
from ensue.data.table import ReadOptions
from ensue.errors import SettingError
from ensue.interruption import Interruption, signals_heard
from ensue.lines import plural

_EVERY = 10.0
"""Seconds between lines where no bar can be drawn."""


class Opening(TypedDict):
    """How a log is read, but for its files."""

    sort: bool
    gap: float | None
    progress: Progress


class _Shown:
    """A line whenever another step begins, and now and then within it."""

    def __init__(self) -> None:
        self.step, self.begun, self.latest = "", 0.0, time.monotonic()

    def __call__(self, step: str, done: int, total: int) -> None:
        """See :data:`ensue.data.sequences.prepare.Progress`."""
        now = time.monotonic()
        if step != self.step:
            self.step, self.begun = step, self.latest
        if done >= total > 0 or now > self.latest + _EVERY:
            whole = f" of {total:,}" if total else ""
            show.remark(f"{step}: {done:,}{whole} rows, {done / max(now - self.begun, 1e-3):,.0f} rows a second")
            self.latest = now


def run(data: Sequence[Path], output: Path, reading: Reading, *, share: str, merge: bool, as_json: bool) -> None:
    """Prepare a log, or a share of it.

    Raises:
        SettingError: a share that is none, or one that is to be put together too.
        Exit: a signal asked for the end.
    """
    if share and merge:
        raise SettingError("--merge merges all shares; remove --share")
    options = ReadOptions(
        columns=reading.roles or {},
        events=",".join(reading.event_types),
        time_unit=reading.time_unit,
        **reading.opening,
    )
    how: Opening = {"sort": reading.may_sort, "gap": reading.session_gap, "progress": _Shown()}
    try:
        with signals_heard():
            if share:
                _tell_share(*prepare_share(data, output, options, Share.parse(share), **how), as_json=as_json)
                return
            report, counts = prepare(data, output, options, merge=merge, **how)
    except KeyboardInterrupt as stop:
        with suppress(OSError):  # the terminal has gone
            show.remark("stopped; run the same command again to continue")
        raise typer.Exit(128 + (stop.number if isinstance(stop, Interruption) else signal.SIGINT)) from None
    show.read_report(report)
    if as_json:
        show.put_json({"folder": str(output), **asdict(counts), "understood": asdict(report)})
        return
    size = plural(counts.sequences, "session")
    show.remark(f"saved {output}: {size}, {plural(counts.events, 'event')}, {plural(counts.values, 'item')}")


def _tell_share(folder: Path, events: int, *, as_json: bool) -> None:
    if as_json:
        show.put_json({"folder": str(folder), "events": events})
        return
    show.remark(
        f"saved {folder}: {plural(events, 'event')}; after all shares are prepared, run the same command with --merge"
    )
