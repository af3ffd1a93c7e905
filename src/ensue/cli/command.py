"""What the verbs ask of a task at the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ensue.cli.options import Reading
from ensue.data.schema import DataSchema
from ensue.tasks.base import Task, named

if TYPE_CHECKING:
    from ensue.cli.asked import Asked


class Command(Protocol):
    """What the commands ask of a task: the interface of a module."""

    WRITES_EVIDENCE: bool
    """Whether what an answer leaned on stands in the tables that ``predict --output`` writes."""

    def read(self, path: Path, reading: Reading) -> Any:
        """The data of a file, after showing what was understood of it."""
        ...

    def read_for_training(self, path: Path, reading: Reading) -> tuple[Any, DataSchema]:
        """As :meth:`read`, and how later files of the model are to be read."""
        ...

    def read_people(self, path: Path, reading: Reading, users: Sequence[str], column: str) -> object:
        """The records of a file for :func:`ensue.refresh.forget.forget`, by the column that names people."""
        ...

    def require(self, data: Any, path: Path, *, learn: bool) -> None:
        """Refuse data that nothing can be learned from or, unless ``learn``, that cannot be scored."""
        ...

    def require_like(self, data: Any, path: Path, predictor: Any) -> None:
        """Refuse data that this predictor cannot be scored on."""
        ...

    def check(self, path: Path, others: Sequence[Path], reading: Reading, json: bool) -> None:
        """Show what was understood, and warnings."""
        ...

    def leaks(self, train: Any, other: Any, name: str) -> Iterable[str]:
        """What lets answers of another part be read off what is trained on, a line each."""
        ...

    def told(self, predictor: Any) -> list[str]:
        """What a training has to say, line by line."""
        ...

    def scoring(self, protocol: str, unknown: str, cutoffs: str) -> dict[str, Any]:
        """Keywords of ``evaluate`` and ``compare``."""
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

    def read_update(self, path: Any, reading: Reading, predictor: Any) -> tuple[Any, dict[str, int]]:
        """Return new data that fits the model, and how much of what it holds.

        The counts are empty where the test of an update is shown as a table. ``path`` is ``None`` for a table of items.
        """
        ...


def command_of(task: Task) -> Command:
    """The commands of a task."""
    command: Command = named(task.command)
    return command
