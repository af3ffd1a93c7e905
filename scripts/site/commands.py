"""The page of the command line: every command with its arguments and options, from what ``--help`` shows."""

from __future__ import annotations

import inspect
from typing import Any

from typer.main import get_command

from ensue.cli import make_app


def page() -> str:
    """Markdown, a section a verb."""
    text = [
        "# Commands",
        "",
        "Every command of `ensue`. `ensue COMMAND --help` prints the same, `ensue fit TASK --help` the part",
        "that applies to one task.",
        "A mistake ends with one line that says what is wrong and what to do, and exit code 2. An update that is",
        "refused because the model would get worse ends with exit code 1.",
    ]
    group: Any = get_command(make_app())
    for name, command in group.commands.items():
        told = inspect.cleandoc(command.help or "").split("\n\nRaises")[0]
        text += ["", f"## ensue {name}", "", told]
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        options = [
            one for one in command.params if one.param_type_name == "option" and one.name != "help" and not one.hidden
        ]
        usage = " ".join(_usage(one) for one in arguments)
        text += ["", f"```text\nensue {name} {usage}{' [OPTIONS]' if options else ''}\n```"]
        rows = [(_usage(one), one.help or "") for one in arguments] + [
            (_option(one), one.help or "") for one in options
        ]
        if rows:
            text += ["", "| argument or option | meaning |", "|---|---|"]
            text += [f"| `{shown}` | {' '.join(meant.replace('|', '&#124;').split())} |" for shown, meant in rows]
    return "\n".join(text) + "\n"


def _usage(argument: Any) -> str:
    shown = str(argument.metavar or argument.name)
    shown = f"{shown}..." if argument.nargs == -1 else shown
    return shown.upper() if argument.required else f"[{shown.upper()}]"


def _option(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {option.metavar or option.name.upper()}"
