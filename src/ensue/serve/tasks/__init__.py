"""Tasks over HTTP: how their records are read and answered, and what the service shows of a model.

The service knows no task by name. Each task has a module that ends in a row, ``SERVICE``; :func:`service_of` returns
it, and the routes, the document, the page and the updates read its columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import plotly.graph_objects as go

from ensue.answers import Answer, Choice
from ensue.data.edges import Edges
from ensue.errors import DataError
from ensue.serve.bodies import AnyRecord, Bodies, Explain, Figure, Predict, require_short
from ensue.serve.lists import ListStore
from ensue.serve.settings import ServeSettings
from ensue.tasks import TASKS, Task, named

NUM_EXAMPLES = 6
"""Number of example records of the page, at most."""
NOT_CAUSES = "Attention weights are not causes."
AnyChoice = TypeVar("AnyChoice")
Fitted: TypeAlias = Any
"""A predictor of the task, which is known when the program runs."""


class Kind(NamedTuple):
    """A kind of question; requests of one kind are answered together."""

    verb: str
    k: int
    evidence: bool = True
    choice: int = 0
    """Index of the choice that a figure shows."""
    truth: Edges | None = None
    """True edges between items, which a figure shows where the service has them."""


class Question(NamedTuple):
    """A record, and the options of its request that are of its task alone."""

    record: AnyRecord
    options: object = None


def records_of(body: Predict | Explain | Figure) -> Sequence[AnyRecord]:
    """Return the records of a body."""
    return [body.record] if isinstance(body, Figure) else body.records


def _describe(predictor: Fitted) -> dict[str, object]:
    """Return nothing besides task, name and version."""
    return {}


def _questions(body: Predict | Explain | Figure, lists: ListStore) -> Sequence[Question]:
    """Return one question per record of a body."""
    return [Question(record) for record in records_of(body)]


def _predict(predictor: Fitted, kind: Kind, questions: Sequence[Question]) -> Sequence[Any]:
    """Return the answer to each question."""
    return list(predictor.predict([question.record for question in questions], kind.k, evidence=kind.evidence))


@dataclass(frozen=True, kw_only=True)
class TaskService:
    """One row per task: its part of the service."""

    task: Task
    view: str
    """Panel of the page, a name in ``kinds.js``."""
    answer_type: type
    explanation_type: type
    examples: Mapping[str, Mapping[str, object]]
    """Bodies that can be sent, by verb and name."""
    draw: Callable[[Fitted, Kind, Question], tuple[go.Figure, str]]
    """Return the evidence behind one choice, and a sentence that says what it shows; ``DataError`` where there is no
    such choice, or nothing to draw."""
    first_record: Callable[[Fitted], AnyRecord]
    """Return what a model is asked before any request, so that none waits for what is made once."""
    example_records: Callable[[Fitted], list[dict[str, object]]]
    """Return example records of the page: nobody's history, nothing from the training data but what is public."""
    training_data: Callable[[Fitted, Any], object]
    """Return what an update trains on, from a body; ``DataError`` where nothing can be trained on."""
    describe: Callable[[Fitted], dict[str, object]] = _describe
    """Return what ``/v1/models`` says of a model besides its task, name and version."""
    bodies: Bodies = field(default_factory=Bodies)
    """Models of the bodies of requests."""
    questions: Callable[[Any, ListStore], Sequence[Question]] = _questions
    """Return the questions of a body, which may name stored lists."""
    predict: Callable[[Fitted, Kind, Sequence[Question]], Sequence[Any]] = _predict
    """Return the answer to each question."""
    has_edges: bool = False
    """True where items can have true edges between them."""
    num_known: Callable[[Fitted, Sequence[str]], int] | None = None
    """Return how many items of a list a model knows; ``None`` where requests cannot name stored lists of items."""
    forks: bool = False
    """True where a process that has loaded a model may fork: no library runs threads in it."""
    similar: Callable[[Fitted, Kind, Sequence[Question]], Sequence[Answer]] | None = None
    """Return the most similar items of each item; ``None`` where nothing is compared."""

    def read(self, decoded: object, location: str, settings: ServeSettings, words: str) -> AnyRecord:
        """Return a decoded record, of no more words than the setting ``words`` allows.

        Raises:
            DataError: naming ``location``, the field and what to do.
        """
        if not isinstance(decoded, dict):
            raise DataError(f"{location}: must be an object such as {json.dumps(self.task.example)}")
        # The library's own reader: the service says of a record what the library says.
        record: AnyRecord = self.task.record.from_fields(decoded, location)  # type: ignore[assignment]
        require_short(record, location, settings, words)
        return record

    def answer(self, predictor: Fitted, kind: Kind, questions: Sequence[Question]) -> list[str]:
        """Return one line of JSON per question: an answer, an explanation or a figure."""
        if kind.verb == "figure":
            return [_figure_line(*self.draw(predictor, kind, question)) for question in questions]
        if kind.verb == "similar" and self.similar is not None:
            return [answer.to_json() for answer in self.similar(predictor, kind, questions)]
        if kind.verb == "explain":
            explanations = predictor.explain([question.record for question in questions], kind.k)
            return [explanation.to_json() for explanation in explanations]
        return [answer.to_json() for answer in self.predict(predictor, kind, questions)]


def service_of(task: str) -> TaskService:
    """Return the row of a task."""
    return named(TASKS[task].service)


def _figure_line(figure: go.Figure, words: str) -> str:
    """Return the JSON of a figure of Plotly and the sentence that says what it shows."""
    return f'{{"figure": {figure.to_json()}, "words": {json.dumps(words, ensure_ascii=False)}}}'


def choice_at(choices: tuple[AnyChoice, ...], index: int) -> AnyChoice:
    """Return the choice at an index.

    Raises:
        DataError: there is none.
    """
    if not choices:
        raise DataError("the answer has no choice to draw")
    if index >= len(choices):
        raise DataError(f'field "choice" is {index}, but the answer has {len(choices)} choices, counted from 0')
    return choices[index]


def attribution_sentence(choice: Choice) -> str:
    """Say which event a choice attended to most, and the drop of its score without that."""
    if not choice.attributions:
        return f"{choice.value} (score {choice.score:.3f}) has no attributions: it is generally frequent."
    # The largest weight is first.
    strongest = choice.attributions[0]
    attribution = f"largest attribution {strongest.value}, weight {strongest.weight:.2f}"
    sentence = f"{choice.value} (score {choice.score:.3f}): {attribution}"
    if strongest.score_drop is None:
        return f"{sentence}."
    return f"{sentence}; without it the score {change_in_words(strongest.score_drop)}."


def change_in_words(score_drop: float) -> str:
    """Say how far a score falls."""
    if abs(score_drop) < 0.0005:
        return "stays as it is"
    return f"falls by {score_drop:.3f}" if score_drop > 0 else f"rises by {-score_drop:.3f}"
