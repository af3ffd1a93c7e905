"""The command ``tune``: search for settings that are better than the defaults on held-out data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from ensue.cli import display, tasks
from ensue.cli.options import ITEMS, LINKED, TABLES, Data, Json, Reading, Seed, Set, TaskName, reads, settings_of
from ensue.errors import SettingError
from ensue.registry import require_model


@reads(*TABLES, *LINKED, *ITEMS)
def tune(
    context: typer.Context,
    task: TaskName,
    data: Data = None,
    *,
    model: Annotated[str, typer.Option(help="see `ensue models`")],
    minutes: Annotated[float, typer.Option(help="duration of the search", metavar="N", min=0.01)] = 30.0,
    trials: Annotated[int | None, typer.Option(help="maximum number of trials", min=1)] = None,
    search: Annotated[
        list[str] | None, typer.Option(help="setting=low:high or setting=a,b,c; repeatable [default: usual ranges]")
    ] = None,
    storage: Annotated[Path | None, typer.Option(help="SQLite file to resume the search from")] = None,
    set_: Set = None,
    seed: Seed = 0,
    json: Json = False,
    reading: Reading,
) -> None:
    """Search for better settings of a model on held-out data.

    DATA is training data: a part of it scores the trials, another part measures the gain over the defaults.
    """
    tuned_task = tasks.require(task, context)
    name = require_model(task, model)
    path = reading.data(data)
    spaces = dict(entry.partition("=")[::2] for entry in search or ())
    if not all(spaces.values()):
        raise SettingError("--search: give setting=low:high or setting=a,b,c, such as --search dim=64,128")
    from ensue.tuning import tune as tune_settings  # torch

    train, _ = tasks.commands_of(tuned_task).read(path, reading)

    settings = settings_of(set_, None)

    def log(trial: Mapping[str, object]) -> None:
        display.log(f"trial {trial['number']}: {trial['state']}, {trial['value']}, {trial['settings']}")

    tuning = tune_settings(
        task, train, name, search=spaces or None, minutes=minutes, trials=trials, storage=storage, seed=seed,
        settings=settings, report=log,
    )  # fmt: skip
    if json:
        display.print_json(asdict(tuning))
        return
    display.log(tuning.sentence)
    if tuning.settings:
        fit_settings = {**settings, **tuning.settings}
        changes = [word for key, value in fit_settings.items() for word in ("--set", f"{key}={value}")]
        display.log(f"fit it: {join(['ensue', 'fit', task, str(path), '-o', 'FOLDER', '--model', name, *changes])}")
