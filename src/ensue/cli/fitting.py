"""The verb ``fit``: train a model, or count, and write its folder."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import (
    LINKED,
    TABLES,
    Data,
    Json,
    MinUsers,
    Reading,
    Seed,
    Set,
    Task,
    Validation,
    reads,
    settings_of,
)
from ensue.predictor import make
from ensue.registry import require_model, require_settings


@reads(*TABLES, *LINKED)
def fit(
    context: typer.Context,
    task: Task,
    output: Annotated[Path, typer.Option("--output", "-o", help="the model folder to write")],
    data: Data = None,
    model: Annotated[str, typer.Option(help="a model's name, best, or FILE.py:CLASS of your own")] = "best",
    validation: Validation = None,
    set_: Set = None,
    seed: Seed = 0,
    no_refit: Annotated[
        bool, typer.Option("--no-refit", help="next, suggest: never learn what was held out or given as --validation")
    ] = False,
    no_examples: Annotated[
        bool, typer.Option("--no-examples", help="keep no held-out record in the folder for the page to show")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="continue a run that was interrupted")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="take the place of the model there, which is kept as a version")
    ] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU is used when there is one")] = None,
    min_users: MinUsers = None,
    metric: Annotated[
        str | None, typer.Option(help="of classify: what early stopping and best go by, accuracy or macro-f1")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="train on ray (two workers on this machine) or ray://HOST:PORT; ?workers=N for more (extra cluster)",
        ),
    ] = None,
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Train a model (or count) and write its folder."""
    reading = Reading(**options)
    chosen = tasks.chosen(task, context)
    model = require_model(task, model)
    settings = (
        settings_of(set_, min_users) | ({"refit": "false"} if no_refit else {}) | ({"metric": metric} if metric else {})
    )
    require_settings(task, model, settings)
    if (least := settings.get("min_users", "")).isdecimal():
        reading = replace_fields(reading, min_users=int(least))
    if cluster is not None:
        from ensue.cli import cluster as ray  # torch's groups

        reading.data(data)
        ray.run(cluster, output, as_json=json)
        return
    predictor = make(task, model, settings=settings, seed=seed, device=device)
    predictor.keeps_examples = not no_examples
    from ensue.cli.training import train  # the evaluator, which imports every task

    train(
        chosen, predictor, reading.data(data), validation, output, reading, resume=resume, replace=replace, as_json=json
    )
