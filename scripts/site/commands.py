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
        output = inspect.cleandoc(command.help or "").split("\n\nRaises")[0]
        text += ["", f"## ensue {name}", "", output]
        arguments = [entry for entry in command.params if entry.param_type_name == "argument"]
        options = [
            entry
            for entry in command.params
            if entry.param_type_name == "option" and entry.name != "help" and not entry.hidden
        ]
        usage = " ".join(_usage(entry) for entry in arguments)
        text += ["", f"```text\nensue {name} {usage}{' [OPTIONS]' if options else ''}\n```"]
        rows = [(_usage(entry), entry.help or "") for entry in arguments] + [
            (_option(entry), entry.help or "") for entry in options
        ]
        if rows:
            text += ["", "| argument or option | meaning |", "|---|---|"]
            text += [f"| `{listed}` | {' '.join(meant.replace('|', '&#124;').split())} |" for listed, meant in rows]
    return "\n".join(text) + "\n"


def _usage(argument: Any) -> str:
    metavar = str(argument.metavar or argument.name)
    metavar = f"{metavar}..." if argument.nargs == -1 else metavar
    return metavar.upper() if argument.required else f"[{metavar.upper()}]"


def _option(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {option.metavar or option.name.upper()}"
