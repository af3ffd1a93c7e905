"""The verb ``stream``: a model folder that goes on learning from a log that grows."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ensue.cli.options import Folder, Json, Own
from ensue.errors import SettingError
from ensue.registry import task_of
from ensue.settings import parse
from ensue.tasks import TASKS

if TYPE_CHECKING:
    from ensue.stream.board import Hour
    from ensue.stream.status import Status

INTERRUPTED = 130
DATED = 1e8
"""Times after this (seconds, 1973) count from 1970."""


def stream(
    folder: Folder,
    source: Annotated[
        str, typer.Argument(help="file.jsonl, folder/, sqlite:queue.db or redis://host:port/0?stream=NAME&group=NAME")
    ],
    follow: Annotated[bool, typer.Option(help="wait for more at the end of the source")] = True,
    beside: Annotated[str, typer.Option(help="rivals beside recent popularity: frozen,nightly")] = "",
    gap: Annotated[float, typer.Option(help="minutes of pause that end a session")] = 30.0,
    replay: Annotated[float, typer.Option(help="share of remembered sessions in what is learned")] = 0.2,
    every: Annotated[float, typer.Option(help="seconds between two commits of weights and position")] = 30.0,
    until_events: Annotated[int | None, typer.Option(help="stop once so many events were counted in all")] = None,
    chart: Annotated[Path | None, typer.Option(help="draw HR@20 by hour into this page, anew with each commit")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="forget position and figures, keep what was learned")] = False,
    columns: Annotated[str, typer.Option(help="roles to field names: sequence=…,value=…,time=…")] = "",
    time_unit: Annotated[str | None, typer.Option(help="unit of the times: s, ms, h or iso")] = None,
    model: Own = "",
    json: Json = False,
) -> None:
    """Predict, score, then learn each event as it comes; position and weights are committed together."""
    if not TASKS[task := task_of(folder)].streamed:
        streamed = " and ".join(name for name, one in TASKS.items() if one.streamed)
        raise SettingError(f"{folder}: is of task {task}; only task {streamed} learns from a stream")
    from ensue.cli import show
    from ensue.store.lock import only_writer
    from ensue.stream.engine import Stream
    from ensue.stream.sources import open_source
    from ensue.stream.status import StreamSettings

    rivals = tuple(name.strip() for name in beside.split(",") if name.strip())
    settings = StreamSettings(gap=gap, replay=replay, every=every, beside=rivals)
    stated = parse(columns.split(",")) if columns else None
    log = open_source(source, show.remark)
    with only_writer(folder), _signals() as caught:
        running = Stream(folder, log, settings, columns=stated, unit=time_unit, anew=anew)
        said = ""
        for status in running.run(follow=follow, until=until_events, stopped=lambda: bool(caught)):
            if said != running.reader.understood:
                said = running.reader.understood
                show.remark(f"{source}: {said}")
            _tell(status, chart, json)
        log.close()
    if signal.SIGINT in caught:
        sys.exit(INTERRUPTED)


def _tell(status: Status, chart: Path | None, json: bool) -> None:
    from ensue import figures
    from ensue.cli import show

    for hour in status.closed:
        show.put_json(hour.to_dict()) if json else _put_row(hour)
    show.remark(status.sentence)
    if chart:
        figures.write_html(figures.stream(status.board.rows()), chart)
    if status.over and json:
        show.put_json(status.to_dict())
    elif status.over:
        for name, row in status.board.total().figures().items():
            show.line(f"all hours, {name}: HR@20 {row['hr@20']:.4f}, MRR@20 {row['mrr@20']:.4f}")


def _put_row(hour: Hour) -> None:
    """One hour that is over: HR@20 and MRR@20 of everyone."""
    from ensue.cli import show
    from ensue.data.clock import format_time

    begins = hour.to_dict()["begins"]
    time = format_time(begins, "h", absolute=begins > DATED)
    cells = [f"{name} {row['hr@20']:.3f} {row['mrr@20']:.3f}" for name, row in hour.figures().items()]
    line = "   ".join([f"{time:>16}", f"{hour.events:>7,} events {hour.targets:>7,} targets", *cells])
    show.line(line)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM are noted, so that the batch is finished and committed; a second Ctrl-C ends at once."""
    caught: list[int] = []

    def note(number: int, frame: Any) -> None:
        if number in caught:
            raise KeyboardInterrupt
        caught.append(number)

    old: dict[int, Callable[..., Any] | int | None] = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
