"""What the command line, the service and the studies see of any model: make, load, and six verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
    runtime_checkable,
)

from ensue.answers import Forecast
from ensue.errors import SettingError
from ensue.records import History
from ensue.registry import require_task, task_of
from ensue.tasks import TASKS
from ensue.tasks.base import named
from ensue.tasks.own import add_named

if TYPE_CHECKING:  # of four tasks the one that is asked for is imported
    from ensue.tasks.classify.predictor import ClassifyPredictor
    from ensue.tasks.link.predictor import LinkPredictor
    from ensue.tasks.metadata import Metadata
    from ensue.tasks.next.predictor import NextPredictor
    from ensue.tasks.suggest.predictor import SuggestPredictor
    from ensue.training.report import Report

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

    Example:
        >>> from ensue import Text
        >>> from ensue.data.texts import Texts
        >>> from ensue.predictor import make
        >>> predictor = make("classify", "tfidf")
        >>> for report in predictor.fit(Texts.of([Text(("good film",), "yes"), Text(("bad film",), "no")] * 10)):
        ...     pass
        >>> predictor.predict([Text(("a good one",))], k=1)[0].choices[0].value
        'yes'
    """

    @property
    def task(self) -> str:
        """The question: next, classify, suggest or link."""
        ...

    @property
    def model_name(self) -> str:
        """The name of the model, as in ``MODELS``."""
        ...

    @property
    def seed(self) -> int:
        """The same seed, data and machine give the same bytes on the CPU."""
        ...

    @property
    def metadata(self) -> Metadata:
        """What was learned from; the rest of it is the task's own."""
        ...

    keeps_examples: bool
    """Whether a training keeps some held-out records in the folder, word for word, for the page to show."""

    def fit(
        self, data: Data, valid: Data | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Learn from nothing, yielding a report a step."""
        ...

    def update(self, data: Data) -> Report:
        """Go on from what is known; new values and words are welcome."""
        ...

    def predict(self, records: Sequence[Record], k: int = 10, *, evidence: bool = True) -> Sequence[Found]:
        """The ``k`` likeliest answers to each record, best first."""
        ...

    def explain(self, records: Sequence[Record], k: int = 3) -> Sequence[Reasons]:
        """What the model leaned on."""
        ...

    def summary(self) -> dict[str, Any]:
        """What was learned from what, and how."""
        ...

    def stored_data(self) -> list[str]:
        """Return what the model folder stores of the training data, as lines of a Markdown list."""
        ...

    def files(self, card: str = "") -> dict[str, bytes]:
        """What the model folder holds, by file name."""
        ...

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once."""
        ...

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a model folder."""
        ...

    def _repr_html_(self) -> str: ...


@runtime_checkable
class Forecasts(Protocol):
    """A predictor that looks some steps ahead."""

    def forecast(self, records: Sequence[History], steps: int, k: int = 10) -> Sequence[Forecast]:
        """Roll each record forward."""
        ...


AnyPredictor: TypeAlias = Predictor[Any, Any, Any, Any]
"""Where the task is known when the program runs."""


class Options(TypedDict, total=False):
    """Keywords of :func:`make`."""

    settings: Mapping[str, object] | None
    seed: int
    device: str | None


@overload
def make(task: Literal["next"], model: str = "best", **options: Unpack[Options]) -> NextPredictor: ...
@overload
def make(task: Literal["classify"], model: str = "best", **options: Unpack[Options]) -> ClassifyPredictor: ...
@overload
def make(task: Literal["suggest"], model: str = "best", **options: Unpack[Options]) -> SuggestPredictor: ...
@overload
def make(task: Literal["link"], model: str = "best", **options: Unpack[Options]) -> LinkPredictor: ...
@overload
def make(task: str, model: str = "best", **options: Unpack[Options]) -> AnyPredictor: ...
def make(
    task: str,
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> AnyPredictor:
    """A predictor that has learned nothing yet.

    Args:
        task: the question, ``next``, ``classify``, ``suggest`` or ``link``.
        model: a model's name, or ``best``.
        settings: settings to change, by name; ``pooling`` of ``classify`` may be ``FILE.py:CLASS``.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.

    Raises:
        SettingError: an unknown task, model or setting.

    Example:
        >>> from ensue import History
        >>> from ensue.data.histories import Histories
        >>> from ensue.predictor import make
        >>> predictor = make("next", "markov")
        >>> for report in predictor.fit(Histories.of([History(("a", "b")), History(("a", "b"))])):
        ...     pass
        >>> [choice.value for choice in predictor.predict([History(("a",))], k=1)[0].choices]
        ['b']
    """
    if not isinstance(settings, Mapping | None):
        raise SettingError(f"settings is of type {type(settings).__name__}; give a dictionary such as {{'dim': 64}}")
    if isinstance(pooling := (settings or {}).get("pooling"), str):
        settings = {**(settings or {}), "pooling": add_named(pooling)}
    made: AnyPredictor = named(TASKS[require_task(task)].predictor)(model, settings=settings, seed=seed, device=device)
    return made


def load(folder: str | Path, *, device: str | None = None) -> AnyPredictor:
    """Read a model folder as the predictor of its task, such as a :class:`NextPredictor`.

    Args:
        folder: what :meth:`Predictor.save` wrote.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.

    Raises:
        ModelFolderError: it is half, foreign, damaged, or of a newer ensue.

    Example:
        >>> from ensue import History
        >>> from ensue.data.histories import Histories
        >>> from ensue.predictor import load, make
        >>> predictor = make("next", "markov")
        >>> for report in predictor.fit(Histories.of([History(("a", "b")), History(("a", "b"))])):
        ...     pass
        >>> predictor.save("models/tiny")
        >>> load("models/tiny").model_name
        'markov'
    """
    found: AnyPredictor = named(TASKS[task_of(folder)].predictor).load(folder, device=device)
    return found
