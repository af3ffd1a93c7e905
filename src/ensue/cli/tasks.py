"""Where a verb's task is chosen: by its name, by a model folder, or by what a file holds."""

from __future__ import annotations

from pathlib import Path

import typer

from ensue.cli.options import Reading
from ensue.errors import SettingError
from ensue.registry import require_task, task_of
from ensue.tasks import TASKS
from ensue.tasks.base import Task


def chosen(task: str, context: typer.Context | None = None) -> Task:
    """The task of this name, options that mean nothing to it refused.

    Raises:
        SettingError: an unknown task, or an option of another one.
    """
    found = TASKS[require_task(task)]
    for parameter in context.command.params if context is not None else ():
        source = context.get_parameter_source(str(parameter.name)) if context is not None else None
        if parameter.name in found.foreign.split() and source is not None and source.name == "COMMANDLINE":
            raise SettingError(f"{parameter.opts[0]} means nothing to task {task}; leave it out")
    return found


def of_folder(folder: Path, context: typer.Context | None = None) -> Task:
    """The task of a model folder.

    Raises:
        ModelFolderError: no model folder.
        SettingError: an option of another task.
    """
    return chosen(task_of(folder), context)


def of_file(path: Path, reading: Reading, context: typer.Context | None = None) -> Task:
    """The task that a file is for.

    Raises:
        DataError: a file that cannot be read.
        SettingError: an option of another task.
    """
    from ensue.data.kinds import kind_of

    beside = bool(reading.articles or reading.queries or reading.qrels)
    kind = kind_of(path, reading.roles, phrases=reading.phrases, articles=beside, **reading.opening)
    return chosen(next(name for name, task in TASKS.items() if kind in task.kinds), context)
