"""The command line: the list of commands, the layout of their help, and the exit code.

A command is a function of a module whose imports are light; what is heavy is imported when the command runs. A mistake
that a user can correct is one line on stderr and exit code 2; nothing is half written.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from types import FrameType
from typing import Annotated, Any, cast

import typer
from typer import Abort, BadParameter
from typer.core import TyperCommand, TyperGroup

from ensue.data.file_bytes import TEMPORARY
from ensue.errors import EnsueError
from ensue.lines import printable_message
from ensue.tasks import TASKS, named
from ensue.training.report import signals_heard
from ensue.version import __version__

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # longer slows a busy machine, shorter an idle one
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a process that forks after encoding would be warned


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
    """The program, whose help lists its commands by section."""

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
            formatter.write_dl([(name, text.replace("  [", " [")) for name, text in records], col_max=27)


class TaskCommand(PlainHelp):
    """A command whose ``--help``, after the name of a task, is the help of that task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the options that apply to the task, its models, and the settings of ``best``."""
        task = next((word for word in args if word in TASKS), None)
        if task is None or "--help" not in args:
            return super().parse_args(ctx, args)
        foreign = TASKS[task].foreign.split()
        all_params = self.params
        self.params = [parameter for parameter in all_params if parameter.name not in foreign]
        named("ensue.cli.models:show_task")(self.get_help(ctx), task)
        self.params = all_params
        raise typer.Exit


_COMMANDS = {
    "Data": ("check:check", "prepare:prepare", "split:split"),
    "Models": ("fit:fit", "update:update", "forget:forget", "export:export", "models:models", "models:settings"),
    "Evaluation": ("evaluate:evaluate", "evaluate:compare", "evaluate:score", "tune:tune", "reproduce:reproduce"),
    "Answers": (
        "predict:predict",
        "predict:explain",
        "similar:similar",
        "vectors:vectors",
        "link:link",
        "spreaders:spreaders",
    ),
    "Sharing": ("archive:pack", "archive:unpack", "hub:push", "hub:pull"),
    "Services": ("serve:serve", "stream:stream", "demo:demo"),
}  # fmt: skip
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


def _stop(number: int, frame: FrameType | None) -> None:
    """End the program by a signal: what is half written and what is temporary goes, as it would after an error."""
    with suppress(OSError, RuntimeError):  # the terminal has gone, or something is being written just now
        sys.stderr.write(f"ensue: stopped ({signal.Signals(number).name})\n")
    sys.exit(128 + number)


def main() -> None:
    """Run the command line."""
    misuse = cast("type[BadParameter]", BadParameter.__mro__[1])  # Typer's own UsageError; before 0.29 it was click's
    app = make_app(*sys.argv[1:2])  # to build the options of all commands takes longer than to answer
    # The service ends its workers by signals, and answers what has been asked before it ends itself.
    ends = nullcontext() if sys.argv[1:2] == ["serve"] else signals_heard(_stop)
    try:
        with ends, TEMPORARY:
            code = app(prog_name="ensue", standalone_mode=False)
    except BrokenPipeError:  # the reader of a pipe has gone, as in `ensue … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (EnsueError, OSError) as error:  # a folder that may not be read, or a full disk
        sys.stderr.write(f"ensue: {printable_message(str(error))}\n")
        sys.exit(2)
    except misuse as error:
        if len(sys.argv) < 2:
            error.show()  # the help
            sys.exit(2)
        command = [sys.argv[1]] if len(app.registered_commands) == 1 else []
        message = " ".join(error.format_message().split()).rstrip(".")
        sys.stderr.write(f"ensue: {printable_message(message)}; see `{' '.join(['ensue', *command, '--help'])}`\n")
        sys.exit(2)
    except Abort:
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
