"""The commands ``models`` and ``settings``, and how the help of all commands is laid out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ensue import registry
from ensue.cli.options import Json
from ensue.errors import SettingError
from ensue.tasks import TASKS


def models(
    task: Annotated[str, typer.Argument(help="next, classify, suggest or link [default: all]")] = "", json: Json = False
) -> None:
    """List the models of each task; * marks those that `best` chooses from."""
    from ensue.cli.show_models import show_models

    show_models([task] if task else [*TASKS], json)


def settings(
    model: Annotated[str, typer.Argument(help="name of a model, or best")],
    task: Annotated[str, typer.Option(help="needed where several tasks have the model")] = "",
    json: Json = False,
) -> None:
    """List the settings of a model, for `--set setting=value`."""
    having = [name for name in ([task] if task else TASKS) if model in registry.names_of(name)]
    if not having:
        raise SettingError(f"model {model!r} is not known; `ensue models` lists them")
    if len(having) > 1:
        raise SettingError(f"{model} is a model of {' and '.join(having)}; choose with --task {having[0]}")
    from ensue.cli.show_models import show_settings

    show_settings(having[0], model, json)


class PlainHelp(TyperCommand):
    """A command whose help lists its options in sections, one line each."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            title = "Arguments" if parameter.param_type_name == "argument" else None
            title = title or getattr(parameter, "rich_help_panel", None) or "Options"
            if record := parameter.get_help_record(ctx):
                sections.setdefault(title, []).append(record)
        _write_sections(formatter, sections)


class CommandGroup(TyperGroup):
    """The program, whose help lists its commands by job."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their first lines, by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name, command.get_short_help_str(100)))
        _write_sections(formatter, sections)


def _write_sections(formatter: Any, sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    for title, records in sections.items():
        with formatter.section(title):
            formatter.write_dl([(name, text.replace("  [", " [")) for name, text in records], col_max=24)


class TaskCommand(PlainHelp):
    """A command whose ``--help``, after the name of a task, is the help of that task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the options that apply to the task, its models, and the settings of ``best``."""
        task = next((word for word in args if word in TASKS), None)
        if task is None or "--help" not in args:
            rest: list[str] = super().parse_args(ctx, args)
            return rest
        from ensue.cli.show_models import show_task

        foreign = TASKS[task].foreign.split()
        self.params, every = [one for one in self.params if one.name not in foreign], self.params
        show_task(self.get_help(ctx), task)
        self.params = every
        raise typer.Exit
