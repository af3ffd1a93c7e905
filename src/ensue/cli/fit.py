"""The command ``fit``: train a model and write its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace as replaced
from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display, tasks
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
    TaskName,
    Validation,
    exit_code,
    reads,
    settings_of,
)
from ensue.errors import ModelFolderError
from ensue.predictor import AnyPredictor, make
from ensue.registry import require_model, require_settings
from ensue.store import versions
from ensue.store.folder import require_writable
from ensue.store.swap import only_writer, sweep
from ensue.training.report import signals_heard, whole_steps


@reads(*TABLES, *LINKED, *ITEMS)
def fit(
    context: typer.Context,
    task: TaskName,
    data: Data = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="model folder to write")],
    model: Annotated[str, typer.Option(help="see `ensue models`, or FILE.py:CLASS")] = "best",
    validation: Validation = None,
    set_: Set = None,
    seed: Seed = 0,
    minutes: Annotated[float | None, typer.Option(help="time limit of the training", metavar="N", min=0.01)] = None,
    metric: Annotated[str | None, typer.Option(help="classify: monitor accuracy or macro-f1")] = None,
    min_users: MinUsers = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda [default: GPU if any]")] = None,
    no_refit: Annotated[bool, typer.Option("--no-refit", help="next, suggest: never train on validation data")] = False,
    no_examples: Annotated[bool, typer.Option("--no-examples", help="store no example records in the folder")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="continue from the last checkpoint")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="replace the model there, kept as a version")] = False,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="ray or ray://HOST:PORT?workers=N")] = None,
    json: Json = False,
    reading: Reading,
) -> None:
    """Train a model and write its folder.

    `ensue fit TASK --help` lists its models and the settings of `best`.
    """
    start_time = time.monotonic()
    trained_task = tasks.require(task, context)
    model = require_model(task, model)
    settings = (
        settings_of(set_, min_users) | ({"refit": "false"} if no_refit else {}) | ({"metric": metric} if metric else {})
    )
    require_settings(task, model, settings)
    # The reader has to know it, too: where sessions count as people, a column of users is asked for.
    if (threshold := settings.get("min_users", "")).isdecimal():
        reading = replaced(reading, min_users=int(threshold))
    if cluster is not None:
        from ensue.cli import cluster as ray  # torch

        reading.data(data)
        ray.run(cluster, output, as_json=json)
        return
    predictor = make(task, model, settings=settings, seed=seed, device=device)
    predictor.keeps_examples = not no_examples
    predictor.stop_time = None if minutes is None else start_time + 60 * minutes
    path = reading.data(data)
    require_writable(output)
    _require_free(output, replace)
    from ensue.training.distributed import ranks  # torch

    command = tasks.commands_of(trained_task)
    folder = output.resolve()
    checkpoint = folder.with_name(f".{folder.name}.checkpoint")
    with _until_stopped(checkpoint, resume), ranks() as (rank, _), only_writer(output) if rank == 0 else nullcontext():
        if rank == 0:
            sweep(output)
            _require_free(output, replace)  # another process may have saved a model before this one had the lock
        train_data, schema = command.read(path, reading)
        command.require(train_data, path, training=True)
        valid_data = command.read(validation, reading.later(schema))[0] if validation else None
        display.log(f"training {predictor.model_name} (task {task}), seed {predictor.seed}")
        reports = predictor.fit(train_data, valid_data, checkpoint=checkpoint, resume=resume)
        with display.epochs() if rank == 0 else nullcontext(lambda report: None) as show_report:
            for report in reports:
                show_report(report)
        if rank == 0:
            predictor.metadata.reading = schema.to_dict()
            with whole_steps():  # a signal waits until the folder is written, and then asks for nothing more
                _save(predictor, output)
            for file in _checkpoint_files(checkpoint):
                file.unlink(missing_ok=True)
            for line in command.training_summary(predictor):
                display.log(line)
            if json:
                summary = predictor.summary()
                summary["facts"].pop("examples", None)  # records belong in the folder, and not in what may be a log
                display.print_json({"folder": str(output), **summary})
            else:
                display.log(f"saved {output}")


def _require_free(output: Path, replace: bool) -> None:
    """Refuse to train over a model, unless ``replace``.

    Raises:
        ModelFolderError: the folder holds a model.
    """
    if not replace and (output / "settings.json").exists():
        raise ModelFolderError(f"{output}: holds a model; --replace replaces it and keeps it as a version")


def _save(predictor: AnyPredictor, output: Path) -> None:
    """Write the folder; a model that is there becomes a version first."""
    if (output / "settings.json").exists():
        versions.keep(output)
        predictor.metadata.version = versions.next_number(output)
    predictor.save(output, predictor.card())


def _checkpoint_files(checkpoint: Path) -> list[Path]:
    """Return the files from which a training can be resumed."""
    return [path for path in checkpoint.parent.glob(".*") if path.name.startswith(checkpoint.name)]


@contextmanager
def _until_stopped(checkpoint: Path, resume: bool) -> Iterator[None]:
    """End the training on Ctrl-C, SIGTERM and SIGHUP after its step and a checkpoint, and log how to continue."""
    start = time.time()
    try:
        with signals_heard():
            yield
    except KeyboardInterrupt as stop:
        if os.environ.get("RANK", "0") == "0":
            complete = [path for path in _checkpoint_files(checkpoint) if path.suffix != ".tmp"]
            resumable = any(resume or path.stat().st_mtime > start - 1 for path in complete)
            hint = "stopped; the same command with --resume continues from the last checkpoint"
            with suppress(OSError):  # the terminal has gone
                display.log(hint if resumable else "stopped before the first checkpoint; nothing is stored")
        raise typer.Exit(exit_code(stop)) from None
