"""The commands ``models`` and ``settings``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from ensue import registry
from ensue.cli import display
from ensue.cli.options import Json
from ensue.errors import SettingError
from ensue.tasks import TASKS


def models(
    task: Annotated[str, typer.Argument(help="next, classify, suggest or link [default: all]")] = "", json: Json = False
) -> None:
    """List the models of each task; * marks those that `best` chooses from."""
    show_models([task] if task else [*TASKS], json)


def settings(
    model: Annotated[str, typer.Argument(help="name of a model, or best")],
    task: Annotated[str, typer.Option(help="needed where several tasks have the model")] = "",
    json: Json = False,
) -> None:
    """List the settings of a model, for `--set setting=value`."""
    tasks = [name for name in ([task] if task else TASKS) if model in registry.names_of(name)]
    if not tasks:
        raise SettingError(f"model {model!r} is not known; `ensue models` lists them")
    if len(tasks) > 1:
        raise SettingError(f"{model} is a model of {' and '.join(tasks)}; choose with --task {tasks[0]}")
    show_settings(tasks[0], model, json)


def show_models(tasks: Sequence[str], json: bool) -> None:
    """Print the models of some tasks."""
    if json:
        display.print_json([asdict(model) for task in tasks for model in registry.models(task)])
        return
    for task in tasks:
        rows = (
            (f"{model.name}{' *' * model.default}", model.about, "baseline" if model.counting else model.paper)
            for model in registry.models(task)
        )
        display.table(
            ("model", "description", "paper"), rows, wraps=("description", "paper"), title=f"ensue fit {task}"
        )
    display.line("*: `--model best` is this model, or chooses it by validation data")


def show_settings(task: str, model: str, json: bool) -> None:
    """Print the settings of a model with their defaults and meanings."""
    rows = registry.settings_of(task, model)
    if json:
        display.print_json([asdict(row) for row in rows])
        return
    cells = ((row.name, str(row.default), row.meaning) for row in rows)
    title = f"{task}, {model}: --set setting=value"
    display.table(("setting", "default", "meaning"), cells, wraps=("meaning",), title=title)


def show_task(help: str, task: str) -> None:
    """Print the help of a command for one task, with its models and the settings of ``best``."""
    display.line(help)
    show_models([task], json=False)
    show_settings(task, "best", json=False)
    display.line("`ensue settings MODEL` lists the settings of other models")
