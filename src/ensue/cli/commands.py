"""The list of commands, and how their help is laid out.

A command is a function of a module whose imports are light: what is heavy it imports when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ensue.tasks import TASKS, named
from ensue.version import __version__


def _version(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"ensue {__version__}")
        raise typer.Exit


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
            remaining: list[str] = super().parse_args(ctx, args)
            return remaining
        foreign = TASKS[task].foreign.split()
        all_params = self.params
        self.params = [parameter for parameter in all_params if parameter.name not in foreign]
        named("ensue.cli.models:show_task")(self.get_help(ctx), task)
        self.params = all_params
        raise typer.Exit


_COMMANDS = {
    "Data": ("check:check", "prepare:prepare", "split:split"),
    "Models": ("fit:fit", "update:update", "forget:forget", "models:models", "models:settings"),
    "Evaluation": ("evaluate:evaluate", "evaluate:compare", "evaluate:score", "reproduce:reproduce"),
    "Answers": ("predict:predict", "predict:explain", "predict:similar", "link:link", "spreaders:spreaders"),
    "Services": ("serve:serve", "stream:stream", "demo:demo"),
}
"""By section of the help, the module of each command and its function, whose name is that of the command."""


def make_app(command: str = "") -> typer.Typer:
    """Return the program with one command, whose module alone is imported, or with all if none has this name."""
    app = typer.Typer(
        cls=CommandGroup,
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Predict the next event, label texts, suggest queries and link posts to articles, with attributions.",
    )
    app.callback(invoke_without_command=True)(_version)
    commands = [(section, reference) for section, references in _COMMANDS.items() for reference in references]
    for section, reference in [row for row in commands if row[1].endswith(f":{command}")] or commands:
        kind = TaskCommand if reference == "fit:fit" else PlainHelp
        app.command(cls=kind, rich_help_panel=section)(named(f"ensue.cli.{reference}"))
    return app
