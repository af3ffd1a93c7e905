"""The verbs ``models`` and ``settings``: what there is to choose from, and the help of a verb for one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ensue import registry
from ensue.cli.options import Json
from ensue.errors import SettingError
from ensue.registry import Setting
from ensue.tasks import TASKS


def models(
    task: Annotated[str, typer.Argument(help="next, classify, suggest or link; all of them unless stated")] = "",
    json: Json = False,
) -> None:
    """List the models of each task, with what each is and where it was published; * is what best chooses from."""
    from ensue.cli import show

    found = {name: registry.models(name) for name in ([task] if task else TASKS)}
    if json:
        show.put_json([asdict(model) for listed in found.values() for model in listed])
        return
    for name in found:
        _show_models(name)
    show.line("*: what `--model best` is, or chooses from on data held out")


def _show_models(task: str) -> None:
    from ensue.cli import show

    rows = (
        (f"{model.name}{' *' * model.default}", model.about, "counting" if model.counting else model.paper)
        for model in registry.models(task)
    )
    show.table(("model", "what it is", "paper"), rows, wraps=("what it is", "paper"), title=f"ensue fit {task}")


def settings(
    model: Annotated[str, typer.Argument(help="a model's name, or best")],
    task: Annotated[str, typer.Option(help="next, classify, suggest or link, where several have the model")] = "",
    json: Json = False,
) -> None:
    """List the settings of a model: what each is unless `--set name=value` changes it, and what it means.

    Raises:
        SettingError: no task has the model, or several have it.
    """
    from ensue.cli import show

    having = [name for name in ([task] if task else TASKS) if model in registry.names_of(name)]
    if not having:
        raise SettingError(f"model {model!r} is not known; `ensue models` lists what there is")
    if len(having) > 1:
        raise SettingError(f"{model} is a model of {' and '.join(having)}; say which: --task {having[0]}")
    rows = registry.settings_of(having[0], model)
    if json:
        show.put_json([asdict(row) for row in rows])
    else:
        _show_settings(rows, f"{having[0]}, {model}: --set name=value")


def _show_settings(rows: Sequence[Setting], title: str) -> None:
    from ensue.cli import show

    cells = ((row.name, str(row.default), row.meaning) for row in rows)
    show.table(("setting", "default", "meaning"), cells, wraps=("meaning",), title=title)


class OfTask(TyperCommand):
    """A verb whose ``--help``, given after the name of a task, is the help of that task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show what concerns the task: its options, its models, and the settings of what ``best`` is."""
        task = next((word for word in args if word in TASKS), None)
        if task is None or "--help" not in args:
            rest: list[str] = super().parse_args(ctx, args)
            return rest
        from ensue.cli import show

        every = self.params
        self.params = [parameter for parameter in every if parameter.name not in TASKS[task].foreign.split()]
        self.format_help(ctx, ctx.make_formatter())
        self.params = every
        _show_models(task)
        _show_settings(registry.settings_of(task, "best"), "--model best: --set name=value")
        show.line("`ensue settings MODEL` lists those of every other model")
        raise typer.Exit
