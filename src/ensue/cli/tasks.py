"""Where a verb's task is chosen: by its name, by a model folder, or by what a file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from ensue.cli.asked import Asked
from ensue.cli.options import Reading
from ensue.errors import SettingError
from ensue.registry import require_task, task_of
from ensue.tasks import TASKS
from ensue.tasks.base import named

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Command(Protocol):
    """What the verbs ask of a task; a module is one."""

    FOREIGN: tuple[str, ...]
    """Options, by the names of their parameters, that mean nothing here."""

    def read(self, path: Path, reading: Reading) -> Any:
        """The data of a file, after showing what was understood of it."""
        ...

    def require(self, data: Any, path: Path, *, learn: bool) -> None:
        """Refuse data that nothing can be learned from or, unless ``learn``, that cannot be scored."""
        ...

    def require_like(self, data: Any, path: Path, predictor: Any) -> None:
        """Refuse data that this predictor cannot be scored on."""
        ...

    def check(self, path: Path, others: Sequence[Path], reading: Reading, json: bool) -> None:
        """Show what was understood, and what would spoil a result."""
        ...

    def told(self, predictor: Any) -> list[str]:
        """What a training has to say, line by line."""
        ...

    def scoring(self, protocol: str, at: str) -> dict[str, Any]:
        """Keywords of ``evaluate`` and ``compare``."""
        ...

    def show_result(self, found: Any, scoring: Mapping[str, Any]) -> None:
        """A table for people."""
        ...

    def records(self, source: str, reading: Reading, predictor: Any) -> Asked:
        """The records of a file, or of stdin."""
        ...

    def show_answer(self, found: Any) -> None:
        """One answer for people."""
        ...

    def show_explanation(self, found: Any) -> None:
        """One explanation for people."""
        ...

    def pictures(self, explanation: Any) -> list[go.Figure]:
        """The figures of a page."""
        ...

    def update(self, folder: Path, new: Path, reading: Reading, max_drop: float | None, keep: int, json: bool) -> None:
        """Learn a file on top of a model, and show what came of it."""
        ...


def command_of(task: str) -> Command:
    """What the command line asks of a task.

    Raises:
        SettingError: an unknown task.
    """
    found: Command = named(TASKS[require_task(task)].command)
    return found


def chosen(task: str, context: typer.Context | None = None) -> Command:
    """The task of this name, options that mean nothing to it refused.

    Raises:
        SettingError: an unknown task, or an option of another one.
    """
    command = command_of(task)
    for parameter in context.command.params if context is not None else ():
        source = context.get_parameter_source(str(parameter.name)) if context is not None else None
        if parameter.name in command.FOREIGN and source is not None and source.name == "COMMANDLINE":
            raise SettingError(f"{parameter.opts[0]} means nothing to task {task}; leave it out")
    return command


def of_folder(folder: Path, context: typer.Context | None = None) -> Command:
    """The task of a model folder.

    Raises:
        ModelFolderError: no model folder.
        SettingError: an option of another task.
    """
    return chosen(task_of(folder), context)


def of_file(path: Path, reading: Reading, context: typer.Context | None = None) -> Command:
    """The task that a file is for.

    Raises:
        DataError: a file that cannot be read.
        SettingError: an option of another task.
    """
    from ensue.data.kinds import kind_of

    beside = reading.articles is not None
    kind = kind_of(path, reading.roles, phrases=reading.phrases, articles=beside, **reading.opening)
    return chosen(next(name for name, task in TASKS.items() if kind in task.kinds), context)
