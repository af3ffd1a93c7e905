"""The command ``fit``: train a model and write its folder."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import (
    ITEMS,
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


@reads(*TABLES, *LINKED, *ITEMS)
def fit(
    context: typer.Context,
    task: Task,
    data: Data = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="model folder to write")],
    model: Annotated[str, typer.Option(help="see `ensue models`, or FILE.py:CLASS")] = "best",
    validation: Validation = None,
    set_: Set = None,
    seed: Seed = 0,
    metric: Annotated[str | None, typer.Option(help="classify: monitor accuracy or macro-f1")] = None,
    min_users: MinUsers = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda [default: GPU if any]")] = None,
    no_refit: Annotated[bool, typer.Option("--no-refit", help="next, suggest: never train on validation data")] = False,
    no_examples: Annotated[bool, typer.Option("--no-examples", help="store no example records in the folder")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="continue from the last checkpoint")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="replace the model there, kept as a version")] = False,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="ray or ray://HOST:PORT?workers=N")] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Train a model and write its folder.

    `ensue fit TASK --help` lists its models and the settings of `best`.
    """
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
