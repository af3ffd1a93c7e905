"""The verb ``stream``: a model folder that goes on learning from a log that grows."""

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
    source: Annotated[
        str,
        typer.Argument(help="file.jsonl, folder/, sqlite:FILE, redis://HOST/0?stream=KEY,KEY or kafka://HOST/TOPIC"),
    ],
    follow: Annotated[bool, typer.Option(help="wait for more at the end of the source")] = True,
    baselines: Annotated[str, typer.Option(help="rivals beside recent popularity: frozen,nightly")] = "",
    session_gap: Annotated[float, typer.Option(help="minutes of pause that end a session")] = 30.0,
    replay: Annotated[float, typer.Option(help="share of remembered sessions in what is learned")] = 0.2,
    commit_interval: Annotated[float, typer.Option(help="seconds between two commits of weights and position")] = 30.0,
    eval_fraction: Annotated[
        float, typer.Option(help="share of the sessions that are scored before they are learned")
    ] = 1.0,
    max_events: Annotated[int | None, typer.Option(help="stop once so many events were counted in all")] = None,
    plot: Annotated[Path | None, typer.Option(help="draw HR@20 by hour into this page, anew with each commit")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="forget position and figures, keep what was learned")
    ] = False,
    standby: Annotated[bool, typer.Option("--standby", help="wait while another learns into the folder")] = False,
    columns: Annotated[str, typer.Option(help="roles to field names: session=…,item=…,time=…")] = "",
    time_unit: Annotated[str | None, typer.Option(help="unit of the times: s, ms, us, ns, h, days or iso")] = None,
    model: Own = "",
    json: Json = False,
) -> None:
    """Predict, score, then learn each event as it comes; position and weights are committed together."""
    if not TASKS[task := task_of(folder)].streamed:
        streamed = " and ".join(name for name, one in TASKS.items() if one.streamed)
        raise SettingError(f"{folder}: is of task {task}; only task {streamed} learns from a stream")
    from ensue.cli.following import follow_source  # imports torch

    rivals = tuple(name.strip() for name in baselines.split(",") if name.strip())
    stated = parse(columns.split(",")) if columns else None
    settings = {
        "gap": session_gap,
        "replay": replay,
        "every": commit_interval,
        "score": eval_fraction,
        "beside": rivals,
    }
    interrupted = follow_source(
        folder,
        source,
        settings,
        stated,
        time_unit,
        follow=follow,
        until=max_events,
        plot=plot,
        anew=restart,
        standby=standby,
        as_json=json,
    )
    if interrupted:
        sys.exit(INTERRUPTED)
