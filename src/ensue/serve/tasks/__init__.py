"""What the service asks of a task: how its records are read and answered, and what it shows of a model.

The service knows no task by name. :func:`service_of` returns the service of a task, and the routes, the document, the
page and the updates ask that.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, cast

import plotly.graph_objects as go

from ensue.data.edges import Edges
from ensue.errors import DataError
from ensue.predictor import AnyPredictor
from ensue.serve.bodies import Bodies, Explain, Figure, Predict, Update
from ensue.serve.lengths import require_short_texts
from ensue.serve.settings import ServeSettings
from ensue.tasks import TASKS
from ensue.tasks.base import Task, named

SHOWN = 6
"""Records that the page offers, at most."""

P = TypeVar("P", bound=AnyPredictor)
Q = TypeVar("Q")


class Kind(NamedTuple):
    """A kind of question; requests of one kind are answered together."""

    verb: str
    k: int
    evidence: bool = True


class Drawn(NamedTuple):
    """Another kind: the figure of one choice of the first ``k``."""

    k: int
    choice: int
    truth: Edges | None = None
    """True edges between values, where the service knows them."""


class TaskService(ABC, Generic[P, Q]):
    """A task over HTTP, of predictors ``P`` that are asked questions ``Q``: a record and what came with it.

    Args:
        task: whose record is read.
    """

    histories = False
    """Whether its records are histories of items that are ranked, which have edges between them."""
    divides = False
    """Whether a process that has loaded a model may divide: no thread of a library stands behind it."""
    view: str
    """How the page asks it, a name in ``kinds.js``."""
    bodies = Bodies()
    """What requests hold."""
    answer_type: type
    """Of a prediction, for the document."""
    explanation_type: type
    """Of an explanation, for the document."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._required = next(iter(task.example))

    @property
    def record(self) -> type:
        """What is asked about."""
        return self.task.record

    @abstractmethod
    def examples(self) -> Mapping[str, Mapping[str, object]]:
        """By verb and name, bodies that can be sent; without ``update`` where nothing is learned over HTTP."""

    def read(self, found: object, where: str, settings: ServeSettings, words: str) -> object:
        """A decoded record, of no more words than the setting ``words`` allows.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """
        if not isinstance(found, dict):
            raise DataError(f"{where}: must be an object such as {json.dumps(self.task.example)}")
        if self._required not in found:
            raise DataError(f'{where}: field "{self._required}" is missing; expected {json.dumps(self.task.example)}')
        record = self.task.record.from_fields(found, where)
        self.require_short(cast(Q, record), where, settings, words)
        return record

    def require_short(self, record: Q, where: str, settings: ServeSettings, words: str) -> None:
        """Refuse a record that would hold the model for long."""
        require_short_texts(self.texts_of(record), where, settings, words)

    def questions(self, body: Predict | Explain | Figure) -> Sequence[Q]:
        """What a body asks."""
        return cast(Sequence[Q], [body.record] if isinstance(body, Figure) else body.records)

    @abstractmethod
    def texts_of(self, question: Q) -> Sequence[str]:
        """What may be long of a question: its values, its texts, or its text."""

    def answer(self, predictor: P, kind: Kind, questions: Sequence[Q]) -> list[str]:
        """A line of JSON for each question: of an answer, or of an explanation."""
        if kind.verb == "explain":
            return [explanation.to_json() for explanation in predictor.explain(questions, kind.k)]
        return [answer.to_json() for answer in predictor.predict(questions, kind.k, evidence=kind.evidence)]

    @abstractmethod
    def draw(self, predictor: P, drawn: Drawn, question: Q) -> tuple[go.Figure, str]:
        """The evidence behind one choice, and a sentence that says what it shows.

        Raises:
            DataError: there is no such choice, or nothing to draw.
        """

    def prepares(self, predictor: P) -> bool:
        """Whether :meth:`prepare` has anything to do."""
        return False

    def prepare(self, predictor: P) -> None:
        """Make what is made once, and was not when the folder was written."""

    def made(self, predictor: P) -> bytes:
        """What :meth:`prepare` made, for the same predictor in another process."""
        return b""

    def take(self, predictor: P, made: bytes) -> None:
        """Be prepared by what another process made."""

    @abstractmethod
    def first_question(self, predictor: P) -> Q:
        """What is asked before anybody else asks, so that nobody waits for what is made once."""

    def describe(self, predictor: P) -> dict[str, object]:
        """What ``/v1/models`` says of a model, beside its task, name and version."""
        return {}

    @abstractmethod
    def shown(self, predictor: P) -> list[dict[str, object]]:
        """Records that the page offers: nobody's history, nothing that was learned but what anybody may see."""

    @abstractmethod
    def data_of(self, predictor: P, body: Update) -> object:
        """What an update learns of a body.

        Raises:
            DataError: nothing can be learned from it.
        """


AnyService = TaskService[Any, Any]
"""Where the task is known when the program runs."""


def load_of(texts: Sequence[str]) -> int:
    """Roughly what a question costs: its words and values, and something for being one at all."""
    return 20 + len(texts) + sum(text.count(" ") for text in texts)


@cache
def service_of(task: str) -> AnyService:
    """What a task brings to the service."""
    own = TASKS[task]
    service: AnyService = named(own.service)(own)
    return service
