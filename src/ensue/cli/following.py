"""What ``stream`` does: follow a source, and show each hour that is over."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensue import figures
from ensue.cli import show
from ensue.data.clock import format_time
from ensue.data.time_summary import SINCE_1970
from ensue.errors import DataError, FolderInUseError
from ensue.lines import plural, without_credentials
from ensue.store.lock import only_writer
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.metrics import Hour
from ensue.stream.state import Counts, Status, StreamSettings

TURN = 0.5
"""Seconds between two looks of one on standby."""


def follow_source(
    folder: Path,
    source: str,
    settings: Mapping[str, Any],
    columns: Mapping[str, str] | None,
    time_unit: str | None,
    events: str,
    *,
    follow: bool,
    until: int | None,
    plot: Path | None,
    anew: bool,
    standby: bool,
    as_json: bool,
) -> bool:
    """Learn a source until it ends, or somebody ends it; whether that was Ctrl-C."""
    chosen = StreamSettings(**settings)
    log, shown = open_source(source, show.remark), without_credentials(source)
    with _signals() as caught, ExitStack() as held:
        if not _enter(held, folder, standby=standby, stopped=lambda: bool(caught)):
            return signal.SIGINT in caught
        running = Stream(folder, log, chosen, columns=columns, unit=time_unit, events=events, anew=anew)
        said, warned, former = "", False, replace(running.counts)
        for status in running.run(follow=follow, until=until, stopped=lambda: bool(caught)):
            if said != running.reader.understood:
                said = running.reader.understood
                show.remark(f"{shown}: {said}")
            if status.over and not caught:
                _require_events(shown, former, status)
            if status.rejects.first and not warned:
                show.remark(f"warning: {_rejected(shown, former, status)}")
                warned = True
            _tell(status, plot, as_json)
        log.close()
    return signal.SIGINT in caught


def _require_events(source: str, former: Counts, status: Status) -> None:
    """Refuse a source of which every line was rejected.

    Raises:
        DataError: naming the first reason.
    """
    counts = status.counts
    if counts.rejected > former.rejected and (counts.events, counts.repeated) == (former.events, former.repeated):
        raise DataError(f"{_rejected(source, former, status)}; not one event was left")


def _rejected(source: str, former: Counts, status: Status) -> str:
    """How much of this run was rejected, the first reason, and where all of them are."""
    num, (place, reason) = status.counts.rejected - former.rejected, status.rejects.first[0]
    return f"{source}: {plural(num, 'event')} rejected, the first at {place}: {reason}; see {status.rejects.path.name}"


def _enter(held: ExitStack, folder: Path, *, standby: bool, stopped: Callable[[], bool]) -> bool:
    """Hold the folder's lock from here on; one on standby waits for it. Whether it is held.

    Raises:
        FolderInUseError: another learns into it, and this one does not wait.
    """
    told = False
    while not stopped():
        try:
            held.enter_context(only_writer(folder))
            return True
        except FolderInUseError:
            if not standby:
                raise
        if not told:
            show.remark(f"{folder}: another process trains this model; on standby")
            told = True
        time.sleep(TURN)
    return False


def _tell(status: Status, plot: Path | None, json: bool) -> None:
    for hour in status.closed:
        show.put_json(hour.to_dict()) if json else _put_row(hour)
    show.remark(status.sentence)
    if plot:
        figures.write_html(figures.stream(status.board.rows()), plot)
    if status.over and json:
        show.put_json(status.to_dict())
    elif status.over:
        for name, row in status.board.total().figures().items():
            show.line(f"all hours, {name}: HR@20 {row['hr@20']:.4f}, MRR@20 {row['mrr@20']:.4f}")


def _put_row(hour: Hour) -> None:
    """One hour that is over: HR@20 and MRR@20 of everyone."""
    begins = hour.to_dict()["begins"]
    time = format_time(begins, "h", absolute=begins > SINCE_1970)
    cells = [f"{name} {row['hr@20']:.3f} {row['mrr@20']:.3f}" for name, row in hour.figures().items()]
    line = "   ".join([f"{time:>16}", f"{hour.events:>7,} events {hour.targets:>7,} targets", *cells])
    show.line(line)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Note Ctrl-C, SIGTERM and SIGHUP, so that the batch is finished and committed; a second Ctrl-C ends at once."""
    caught: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        numbers.append(signal.SIGHUP)

    def note(number: int, frame: object) -> None:
        if number in caught:
            raise KeyboardInterrupt
        caught.append(number)

    old: dict[int, Callable[..., Any] | int | None] = {number: signal.signal(number, note) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
