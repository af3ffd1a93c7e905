"""The command ``stream``: a model folder that trains on a growing log, with metrics of each hour."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ensue.cli import display
from ensue.cli.options import Folder, Json, OwnModel
from ensue.errors import DataError, FolderInUseError, SettingError
from ensue.lines import plural, without_credentials
from ensue.registry import task_of
from ensue.settings import parse
from ensue.store.swap import only_writer
from ensue.tasks import TASKS
from ensue.training.report import signals_heard

if TYPE_CHECKING:
    from ensue.stream.state import StreamCounts, StreamStatus

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
STANDBY_INTERVAL = 0.5
"""Seconds between two attempts of a process on standby to lock the folder."""


def stream(
    folder: Folder,
    source: Annotated[str, typer.Argument(help="FILE.jsonl, FOLDER/, sqlite:FILE, redis://… or kafka://…")],
    follow: Annotated[bool, typer.Option(help="wait for more at the end of the source")] = True,
    session_gap: Annotated[float, typer.Option(help="minutes of pause that end a session")] = 30.0,
    replay: Annotated[float, typer.Option(help="fraction of replayed sessions in training")] = 0.2,
    commit_interval: Annotated[float, typer.Option(help="seconds between commits")] = 30.0,
    eval_fraction: Annotated[float, typer.Option(help="fraction of sessions to score")] = 1.0,
    max_events: Annotated[int | None, typer.Option(help="stop after this many events")] = None,
    plot: Annotated[Path | None, typer.Option(help="page with HR@20 by hour")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="reset position and metrics, keep the weights")] = False,
    standby: Annotated[bool, typer.Option("--standby", help="wait while another process trains the folder")] = False,
    columns: Annotated[str, typer.Option(help="role=field, such as session=sid,item=iid,time=ts")] = "",
    events: Annotated[str, typer.Option(help="event types to read [default: as fitted]")] = "",
    time_unit: Annotated[str | None, typer.Option(help="s, ms, us, ns, h, days or iso")] = None,
    model: OwnModel = "",
    json: Json = False,
) -> None:
    """Train on events as they arrive, each scored before it is trained on.

    Weights and position in the source are committed together.
    """
    if not TASKS[task := task_of(folder)].streamed:
        streamed = " and ".join(name for name, known_task in TASKS.items() if known_task.streamed)
        raise SettingError(f"{folder}: is of task {task}; only task {streamed} can be trained on a stream")
    from ensue import figures  # plotly
    from ensue.stream.brokers import open_source
    from ensue.stream.engine import Stream
    from ensue.stream.state import StreamSettings

    stream_settings = StreamSettings(
        gap=session_gap, replay=replay, commit_interval=commit_interval, score=eval_fraction
    )
    stated_columns = parse(columns.split(",")) if columns else None
    log, source_name = open_source(source, display.log), without_credentials(source)
    with _signals() as caught, ExitStack() as stack:
        if _lock(stack, folder, standby=standby, stopped=lambda: bool(caught)):
            # The folder is read under the lock, or another process might still change it.
            running = Stream(
                folder, log, stream_settings, columns=stated_columns, unit=time_unit, events=events, restart=restart
            )
            schema, warned, former = "", False, replace(running.counts)
            for status in running.run(follow=follow, until=max_events, stopped=lambda: bool(caught)):
                if schema != running.reader.understood:
                    schema = running.reader.understood
                    display.log(f"{source_name}: {schema}")
                # A run of nothing but rejected lines has read the wrong columns: exit code 2.
                if status.over and not caught:
                    _require_events(source_name, former, status)
                # The first reason is shown at once; all of them are in the file.
                if status.rejects.first and not warned:
                    display.log(f"warning: {_rejected(source_name, former, status)}")
                    warned = True
                for hour in status.closed:
                    metrics = [f"{name} {row['hr@20']:.3f} {row['mrr@20']:.3f}" for name, row in hour.figures().items()]
                    cells = [f"{hour.begins:>16}", f"{hour.events:>7,} events {hour.targets:>7,} targets", *metrics]
                    display.print_json(hour.to_dict()) if json else display.line("   ".join(cells))
                display.log(status.sentence)
                if plot:
                    figures.write_html(figures.stream(status.board.rows()), plot)
                if status.over:
                    _show_totals(status, json)
            log.close()
    # A service manager sends SIGTERM to end a service well; Ctrl-C ends a command of a person.
    if signal.SIGINT in caught:
        sys.exit(INTERRUPTED)


def _show_totals(status: StreamStatus, json: bool) -> None:
    """Print the metrics of all hours."""
    if json:
        display.print_json(status.to_dict())
        return
    for name, row in status.board.total().figures().items():
        display.line(f"all hours, {name}: HR@20 {row['hr@20']:.4f}, MRR@20 {row['mrr@20']:.4f}")


def _require_events(source: str, former: StreamCounts, status: StreamStatus) -> None:
    """Refuse a source of which every line was rejected.

    Raises:
        DataError: naming the first reason.
    """
    counts = status.counts
    if counts.rejected > former.rejected and (counts.events, counts.repeated) == (former.events, former.repeated):
        raise DataError(f"{_rejected(source, former, status)}; not one event was left")


def _rejected(source: str, former: StreamCounts, status: StreamStatus) -> str:
    """Say how much of this run was rejected, the first reason, and where all of them are."""
    num, (position, reason) = status.counts.rejected - former.rejected, status.rejects.first[0]
    return (
        f"{source}: {plural(num, 'event')} rejected, the first at {position}: {reason}; see {status.rejects.path.name}"
    )


def _lock(stack: ExitStack, folder: Path, *, standby: bool, stopped: Callable[[], bool]) -> bool:
    """Lock the folder until the stack is closed, on standby as soon as it is free; return whether it is locked.

    Raises:
        FolderInUseError: another process trains it, and this one does not wait.
    """
    logged = False
    while not stopped():
        try:
            stack.enter_context(only_writer(folder))
            return True
        except FolderInUseError:
            if not standby:
                raise
        if not logged:
            display.log(f"{folder}: another process trains this model; on standby")
            logged = True
        time.sleep(STANDBY_INTERVAL)
    return False


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Note Ctrl-C, SIGTERM and SIGHUP, so that the batch is finished and committed; a second Ctrl-C ends at once."""
    caught: list[int] = []

    def note(number: int, frame: object) -> None:
        if number in caught:
            raise KeyboardInterrupt
        caught.append(number)

    with signals_heard(note):
        yield caught
