"""What the command line, the service and the studies see of any model: make, load, and six verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from ensue.data.histories import Histories
from ensue.errors import ModelFolderError, SettingError
from ensue.folder import read_settings
from ensue.next_event.predictor import NextPredictor
from ensue.records import Answer, Explanation, History
from ensue.training import Report

TASKS: Mapping[str, type[NextPredictor]] = {"next": NextPredictor}


class Predictor(Protocol):
    """The six verbs, the same for trained and for counting models."""

    def fit(self, data: Histories, valid: Histories | None = None) -> Iterator[Report]:
        """Learn from nothing, yielding a report a step."""
        ...

    def update(self, data: Histories) -> Report:
        """Go on from what is known; new values are welcome."""
        ...

    def predict(self, records: Sequence[History], k: int = 10) -> list[Answer]:
        """The ``k`` likeliest answers to each record, best first."""
        ...

    def explain(self, records: Sequence[History]) -> list[Explanation]:
        """What the model leaned on."""
        ...

    def save(self, folder: str | Path) -> None:
        """Write the model folder at once."""
        ...

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model folder."""
        ...


def make(
    task: str,
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> NextPredictor:
    """A predictor that has learned nothing yet.

    Args:
        task: the question, ``next``.
        model: a model's name, or ``best``.
        settings: settings to change, by name.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.

    Raises:
        SettingError: an unknown task, model or setting.
    """
    if task not in TASKS:
        raise SettingError(f"task {task!r} is not known; choose from {', '.join(TASKS)}")
    return TASKS[task](model, settings=settings, seed=seed, device=device)


def load(folder: str | Path, **options: Any) -> NextPredictor:
    """Read a model folder, whatever its task.

    Raises:
        ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
    """
    task = read_settings(Path(folder))["task"]
    if not isinstance(task, str) or task not in TASKS:
        raise ModelFolderError(f"{folder}: task {task!r} is not known to this ensue; update ensue")
    return TASKS[task].load(folder, **options)
