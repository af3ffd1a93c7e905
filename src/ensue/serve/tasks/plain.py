"""A task that brings nothing of its own: records by their readers, answers by ``predict`` and ``explain``.

What the other tasks share stands here too; they say what is different.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Generic, TypeVar, cast

import plotly.graph_objects as go

from ensue.errors import DataError
from ensue.predictor import AnyPredictor
from ensue.serve.bodies import Bodies, Explain, Figure, Predict, Update
from ensue.serve.lengths import require_short_texts
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import Drawn, Kind
from ensue.tasks.base import Task

P = TypeVar("P", bound=AnyPredictor)
Q = TypeVar("Q")


class PlainService(Generic[P, Q]):
    """A task by its record alone.

    Args:
        task: whose record is read, and whose example is shown.
    """

    histories = False
    divides = False
    view = "plain"
    bodies = Bodies()
    answer_type: type = dict
    explanation_type: type = dict

    def __init__(self, task: Task) -> None:
        self.task, self._needed = task, task.needed

    @property
    def record(self) -> type:
        """What is asked about."""
        return self.task.record

    def examples(self) -> Mapping[str, Mapping[str, object]]:
        """The task's own, asked in each way."""
        name, record = self.task.name, self.task.example
        question = {name: {"records": [record]}}
        return {"predict": question, "explain": question, "figure": {name: {"record": record}}}

    def read(self, found: object, where: str, settings: ServeSettings, words: str) -> object:
        """A decoded record; see :class:`ensue.serve.tasks.TaskService`."""
        if not isinstance(found, dict):
            raise DataError(f"{where}: must be an object such as {json.dumps(self.task.example)}")
        if self._needed not in found:
            raise DataError(f'{where}: field "{self._needed}" is missing; expected {json.dumps(self.task.example)}')
        record = self.task.record.from_fields(found, where)
        self.require_short(cast(Q, record), where, settings, words)
        return record

    def require_short(self, record: Q, where: str, settings: ServeSettings, words: str) -> None:
        """Refuse a record that would hold the model for long."""
        require_short_texts(self.texts_of(record), where, settings, words)

    def questions(self, body: Predict | Explain | Figure) -> Sequence[Q]:
        """The records."""
        return cast(Sequence[Q], [body.record] if isinstance(body, Figure) else body.records)

    def texts_of(self, question: Q) -> Sequence[str]:
        """Texts in the fields of a record, or in lists there."""
        if not is_dataclass(question):
            return ()
        values = (getattr(question, field.name) for field in fields(question))
        parts = chain.from_iterable(value if isinstance(value, tuple) else (value,) for value in values)
        return [part for part in parts if isinstance(part, str)]

    def answer(self, predictor: P, kind: Kind, questions: Sequence[Q]) -> list[str]:
        """A line of JSON for each question."""
        if kind.verb == "explain":
            return [explanation.to_json() for explanation in predictor.explain(questions, kind.k)]
        return [answer.to_json() for answer in predictor.predict(questions, kind.k, evidence=kind.evidence)]

    def draw(self, predictor: P, drawn: Drawn, question: Q) -> tuple[go.Figure, str]:
        """No figure."""
        raise DataError(f"models of task {self.task.name} have no figures; request an explanation instead")

    def prepares(self, predictor: P) -> bool:
        """Never."""
        return False

    def prepare(self, predictor: P) -> None:
        """Nothing."""

    def made(self, predictor: P) -> bytes:
        """Nothing."""
        return b""

    def take(self, predictor: P, made: bytes) -> None:
        """Nothing."""

    def first_question(self, predictor: P) -> Q | None:
        """None."""
        return None

    def describe(self, predictor: P) -> dict[str, object]:
        """Nothing more."""
        return {}

    def shown(self, predictor: P) -> list[dict[str, object]]:
        """The task's example."""
        return [dict(self.task.example)]

    def data_of(self, predictor: P, body: Update) -> object:
        """Nothing is learned."""
        raise DataError(f"models of task {self.task.name} cannot be updated over HTTP; use `ensue update`")
