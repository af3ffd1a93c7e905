"""The tasks at the command line: which one a command is about, and what the commands need of each."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from ensue.answers import Choices
from ensue.cli import display
from ensue.cli.options import Reading
from ensue.data.encodings import json_lines_of, mend_halves, mended
from ensue.data.schema import DataSchema
from ensue.errors import DataError, SettingError
from ensue.registry import require_task, task_of
from ensue.tasks import TASKS, Task, named

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Records:
    """Records to predict, one per row or per sequence of a file, or of stdin."""

    records: Iterator[Any]
    total: int | None = None
    """Number of records, where it is known before the last one is read."""
    join: Callable[[pl.DataFrame, bool], pl.DataFrame] | None = None
    """Join columns to the rows of the file, nested fields of JSON flattened on demand; ``None`` without such rows."""
    byte_order_mark: bool = False
    """Whether the file begins with a byte-order mark, so that tables written of it should too."""


class TaskCommands(Protocol):
    """The functions of a module of this package."""

    WRITES_ATTRIBUTIONS: bool
    """Whether tables of answers (``predict --output``) hold columns that need the attributions."""
    COLUMNS: Sequence[display.Column]
    """Columns of the choices of an answer, in tables of the terminal and in files."""
    NO_ANSWER: str
    """Message in place of the table of an answer without choices; empty for an empty table."""

    def read(self, path: Path, reading: Reading) -> tuple[Any, DataSchema]:
        """Return the data of a file and how later files of its model are to be read, after logging how it was read."""

    def read_update(self, path: Any, reading: Reading, predictor: Any) -> Any:
        """Return new data that fits the model; ``path`` is ``None`` for a table of items."""

    def read_people(self, path: Path, reading: Reading, users: Sequence[str], column: str) -> object:
        """Return the records of a file for :func:`ensue.refresh.forget.forget`, by the column that names people."""

    def read_records(self, source: str, reading: Reading, predictor: Any) -> Records:
        """Return the records of a file, or of stdin."""

    def require(self, data: Any, path: Path, predictor: Any = None, *, training: bool = False) -> None:
        """Refuse data that cannot be scored on (by the predictor), or with ``training`` that cannot be trained on."""

    def read_for_check(self, path: Path, paths: Sequence[Path], reading: Reading) -> tuple[Any, ...]:
        """Return the arguments of the function ``check`` of the task: data, report, other data by name, and more."""

    def training_summary(self, predictor: Any) -> list[str]:
        """Return the lines that ``fit`` logs after a training."""

    def notes(self, answer: Any) -> list[str]:
        """Return the lines below the table of an answer."""

    def show_attention(self, explanation: Any) -> None:
        """Print the weights of an explanation."""


def commands_of(task: Task) -> TaskCommands:
    """Import the module of a task."""
    return named(task.command)


def show_answer(answer: Choices, commands: TaskCommands) -> None:
    """Print one answer: its id, its choices and the notes of its task."""
    if answer.id:
        display.line(display.one_line(answer.id))
    if not answer.choices and commands.NO_ANSWER:
        display.line(commands.NO_ANSWER)
        return
    display.choices(answer.choices, commands.COLUMNS)
    for note in commands.notes(answer):
        display.line(note)


def require(task: str, context: typer.Context | None = None) -> Task:
    """Return the task of this name, and refuse options that mean nothing to it.

    Raises:
        SettingError: an unknown task, or an option of another one.
    """
    required_task = TASKS[require_task(task)]
    for parameter in context.command.params if context is not None else ():
        source = context.get_parameter_source(str(parameter.name)) if context is not None else None
        if parameter.name in required_task.foreign.split() and source is not None and source.name == "COMMANDLINE":
            raise SettingError(f"{parameter.opts[0]} means nothing to task {task}; leave it out")
    return required_task


def of_folder(folder: Path, context: typer.Context | None = None) -> Task:
    """Return the task of a model folder.

    Raises:
        ModelFolderError: no model folder.
        SettingError: an option of another task.
    """
    return require(task_of(folder), context)


def of_file(path: Path, reading: Reading, task: str, context: typer.Context) -> Task:
    """Return the task that is named, else the one that a file is for.

    Raises:
        DataError: a file that cannot be read.
        SettingError: an option of another task.
    """
    if task:
        return require(task, context)
    from ensue.data.kinds import kind_of

    articles = bool(reading.articles or reading.queries or reading.qrels)
    kind = kind_of(path, reading.roles, phrases=reading.phrases, articles=articles, **reading.opening)
    return require(next(name for name, row in TASKS.items() if kind in row.kinds), context)


def stdin_lines() -> Iterator[tuple[int, str]]:
    """Yield the lines of stdin with their numbers; in JSON, halves of characters are replaced and counted.

    Raises:
        DataError: not UTF-8.
    """
    num_halves = 0
    try:
        for number, line in enumerate(_raw_lines(), 1):
            if not line.lstrip().startswith("{") or "\\u" not in line:
                yield number, line
                continue
            # Programs that cut texts leave half of an emoji in an escape; it is replaced and counted.
            content, count = mend_halves(line.encode())
            num_halves += count
            yield number, content[:].decode()
    except UnicodeDecodeError as error:
        raise DataError(f"-: not UTF-8 ({error.reason} at byte {error.start}); send UTF-8") from error
    for note in mended(num_halves):
        display.log(f"-: {note}")


def _raw_lines() -> Iterator[str]:
    """Yield the lines of stdin, or the records of a JSON array."""
    for line in sys.stdin:
        # A JSON array spans all lines, and its records are read as lines.
        if line.lstrip().startswith("["):
            remainder = sys.stdin.read()
            lines = json_lines_of("stdin", f"{line}{remainder}".encode())
            yield from io.StringIO(f"{line}{remainder}" if lines is None else lines[0].decode())
            return
        yield line
        if line.strip():
            break
    yield from sys.stdin
