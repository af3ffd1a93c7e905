"""What the command line, the service and the studies see of any model: make, load, and six verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar, overload

from ensue.classify.predictor import ClassifyPredictor
from ensue.errors import ModelFolderError, SettingError
from ensue.folder import read_settings
from ensue.link.predictor import LinkPredictor
from ensue.next_event.predictor import NextPredictor
from ensue.suggest.predictor import SuggestPredictor
from ensue.training import Report

TASKS: Mapping[str, type[NextPredictor] | type[ClassifyPredictor] | type[SuggestPredictor] | type[LinkPredictor]] = {
    "next": NextPredictor,
    "classify": ClassifyPredictor,
    "suggest": SuggestPredictor,
    "link": LinkPredictor,
}
Data = TypeVar("Data", contravariant=True)
Record = TypeVar("Record", contravariant=True)
Found = TypeVar("Found", covariant=True)
Reasons = TypeVar("Reasons", covariant=True)


class Predictor(Protocol[Data, Record, Found, Reasons]):
    """The six verbs, the same for every task, for trained and for counting models.

    Task ``next`` learns ``Histories`` and answers a ``History`` with an ``Answer`` and an ``Explanation``; ``classify``
    learns ``Texts`` and answers a ``Text`` with a ``TextAnswer`` and a ``TextExplanation``; ``suggest`` learns
    ``Queries`` and answers a ``History`` of queries with an ``Answer`` and a ``QueryExplanation``; ``link`` learns a
    ``Corpus`` and answers a ``Post`` with a ``LinkAnswer`` and a ``LinkExplanation``.
    """

    def fit(self, data: Data, valid: Data | None = None) -> Iterator[Report]:
        """Learn from nothing, yielding a report a step."""
        ...

    def update(self, data: Data) -> Report:
        """Go on from what is known; new values and words are welcome."""
        ...

    def predict(self, records: Sequence[Record], k: int = 10) -> Sequence[Found]:
        """The ``k`` likeliest answers to each record, best first."""
        ...

    def explain(self, records: Sequence[Record]) -> Sequence[Reasons]:
        """What the model leaned on."""
        ...

    def save(self, folder: str | Path) -> None:
        """Write the model folder at once."""
        ...

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model folder."""
        ...


@overload
def make(
    task: Literal["next"],
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> NextPredictor: ...
@overload
def make(
    task: Literal["classify"],
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> ClassifyPredictor: ...
@overload
def make(
    task: Literal["suggest"],
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> SuggestPredictor: ...
@overload
def make(
    task: Literal["link"],
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> LinkPredictor: ...
@overload
def make(
    task: str,
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> Any: ...
def make(
    task: str,
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """A predictor that has learned nothing yet.

    Args:
        task: the question, ``next``, ``classify``, ``suggest`` or ``link``.
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


def task_of(folder: str | Path) -> str:
    """The task of a model folder.

    Raises:
        ModelFolderError: it is half, foreign, or of a newer ensue.
    """
    task = read_settings(Path(folder))["task"]
    if not isinstance(task, str) or task not in TASKS:
        raise ModelFolderError(f"{folder}: task {task!r} is not known to this ensue; update ensue")
    return task


def load(folder: str | Path, **options: Any) -> Any:
    """Read a model folder as the predictor of its task, such as a :class:`NextPredictor`.

    Raises:
        ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
    """
    return TASKS[task_of(folder)].load(folder, **options)
