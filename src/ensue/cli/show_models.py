"""Tables of models and of their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ensue import registry
from ensue.cli import show


def show_models(tasks: Sequence[str], json: bool) -> None:
    """Print the models of some tasks."""
    if json:
        show.put_json([asdict(model) for task in tasks for model in registry.models(task)])
        return
    for task in tasks:
        rows = (
            (f"{model.name}{' *' * model.default}", model.about, "baseline" if model.counting else model.paper)
            for model in registry.models(task)
        )
        show.table(("model", "description", "paper"), rows, wraps=("description", "paper"), title=f"ensue fit {task}")
    show.line("*: `--model best` is this model, or chooses it by validation data")


def show_settings(task: str, model: str, json: bool) -> None:
    """Print the settings of a model with their defaults and meanings."""
    rows = registry.settings_of(task, model)
    if json:
        show.put_json([asdict(row) for row in rows])
        return
    cells = ((row.name, str(row.default), row.meaning) for row in rows)
    title = f"{task}, {model}: --set setting=value"
    show.table(("setting", "default", "meaning"), cells, wraps=("meaning",), title=title)


def show_task(help: str, task: str) -> None:
    """Print the help of a command for one task, with its models and the settings of ``best``."""
    show.line(help)
    show_models([task], json=False)
    show_settings(task, "best", json=False)
    show.line("`ensue settings MODEL` lists the settings of other models")
