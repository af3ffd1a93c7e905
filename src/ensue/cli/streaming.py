"""The command ``stream``: a model folder that trains on a growing log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ensue.cli.options import Folder, Json, Own
from ensue.errors import SettingError
from ensue.registry import task_of
from ensue.settings import parse
from ensue.tasks import TASKS

INTERRUPTED = 130


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
    model: Own = "",
    json: Json = False,
) -> None:
    """Train on events as they arrive, each scored before it is trained on.

    Weights and position in the source are committed together.
    """
    if not TASKS[task := task_of(folder)].streamed:
        streamed = " and ".join(name for name, one in TASKS.items() if one.streamed)
        raise SettingError(f"{folder}: is of task {task}; only task {streamed} can be trained on a stream")
    from ensue.cli.following import follow_source  # imports torch

    stated = parse(columns.split(",")) if columns else None
    settings = {"gap": session_gap, "replay": replay, "every": commit_interval, "score": eval_fraction}
    interrupted = follow_source(
        folder, source, settings, stated, time_unit, events, follow=follow, until=max_events, plot=plot, anew=restart,
        standby=standby, as_json=json,
    )  # fmt: skip
    if interrupted:
        sys.exit(INTERRUPTED)
