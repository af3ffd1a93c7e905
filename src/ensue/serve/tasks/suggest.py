"""Queries over HTTP: what is searched next, with what stands in the search box already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Self, cast

import plotly.graph_objects as go
import polars as pl
from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from ensue import figures
from ensue.answers import Answer, QueryExplanation
from ensue.data.frames import FRAME, read_frame
from ensue.data.queries import Queries, read_queries
from ensue.data.queries.rules import Normalisation, QueryRules
from ensue.errors import DataError
from ensue.lazy import lazy
from ensue.lines import plural
from ensue.records import History, normal_id
from ensue.serve.bodies import Bodies, Explain, Figure, Limit, Limits, Predict, Update, too_long
from ensue.serve.lists import ListStore
from ensue.serve.tasks import (
    NOT_CAUSES,
    NUM_EXAMPLES,
    Kind,
    Question,
    TaskService,
    attribution_sentence,
    choice_at,
    records_of,
)
from ensue.tasks import SUGGEST

if TYPE_CHECKING:
    from ensue.tasks.suggest import explain
    from ensue.tasks.suggest.predictor import SuggestPredictor
else:
    explain = lazy("ensue.tasks.suggest.explain")

SESSION: dict[str, object] = {"values": ["cheap flights"]}
LONGER: dict[str, object] = {"values": ["cheap flights", "flights to rome"]}


def _prefix(limits: Limits, kind: object) -> object:
    """Limit the text in the search box."""
    max_characters = limits.settings.prefix

    def check(prefix: object) -> object:
        return _short(prefix, 'field "prefix"', max_characters)

    return Annotated[str, Field(max_length=max_characters), BeforeValidator(check)]


def _prefixes(limits: Limits, kind: object) -> object:
    """Limit the text in the search box of each session."""
    max_characters = limits.settings.prefix

    def check(prefixes: object, info: ValidationInfo) -> object:
        count = len(info.data["records"])
        if not isinstance(prefixes, list) or len(prefixes) != count:
            raise DataError(f'field "prefixes" must be a list of {plural(count, "text")}, one a record')
        return [_short(prefix, f"prefixes[{at}]", max_characters) for at, prefix in enumerate(prefixes)]

    return Annotated[list[Annotated[str, Field(max_length=max_characters)]], BeforeValidator(check)]


def _users(limits: Limits, kind: object) -> object:
    """Limit the names of users, one per session."""
    max_characters = limits.settings.value_characters

    def check(users: object, info: ValidationInfo) -> object:
        count = len(info.data["records"])
        if users is None:
            return None
        if not isinstance(users, list) or len(users) != count or not all(map(_is_name, users)):
            raise DataError(f'field "users" must be a list of {count} names, one a record')
        if max((len(str(user)) for user in users), default=0) > max_characters:
            raise DataError(f'field "users": a name has more than {max_characters:,} characters')
        return [normal_id(user) for user in users]

    return Annotated[list[str] | None, BeforeValidator(check)]


def _is_name(user: object) -> bool:
    return isinstance(user, str | int | float) and not isinstance(user, bool) and user != ""


def _short(prefix: object, location: str, max_characters: int) -> object:
    if isinstance(prefix, str) and len(prefix) > max_characters:
        raise too_long(location, len(prefix), "characters", max_characters, "a prefix", "prefix")
    return prefix


class PredictQueries(Predict):
    """Sessions, and the text typed in all of them or in each."""

    prefix: Annotated[str, Limit(_prefix)] = Field("", description="text already typed in the search box")
    prefixes: Annotated[list[str], Limit(_prefixes)] = Field([], description="the same of each record")

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if {"prefix", "prefixes"} <= self.model_fields_set:
            raise DataError('fields "prefix" and "prefixes" exclude each other; give one of the two')
        return self


class FigureQueries(Figure):
    """A session, and the text typed in it."""

    prefix: Annotated[str, Limit(_prefix)] = Field("", description="text already typed in the search box")


class UpdateQueries(Update):
    """Sessions, and their users."""

    users: Annotated[list[str] | None, Limit(_users)] = Field(
        None, description="one name per record; they are numbered and never stored"
    )


def _questions(body: Predict | Explain | Figure, lists: ListStore) -> Sequence[Question]:
    """Return each session with the text in its search box."""
    records = records_of(body)
    prefixes = [""] * len(records)
    if isinstance(body, PredictQueries):
        prefixes = body.prefixes or [body.prefix] * len(records)
    elif isinstance(body, FigureQueries):
        prefixes = [body.prefix]
    return [Question(record, prefix) for record, prefix in zip(records, prefixes, strict=True)]


def _predict(predictor: SuggestPredictor, kind: Kind, questions: Sequence[Question]) -> list[Answer]:
    """Answer each question with its own prefix."""
    sessions = [cast(History, question.record) for question in questions]
    prefixes = [str(question.options or "") for question in questions]
    return predictor.predict(sessions, kind.k, evidence=kind.evidence, prefix=prefixes)


def _draw(predictor: SuggestPredictor, kind: Kind, question: Question) -> tuple[go.Figure, str]:
    """Draw the words of the session that the choice attended to, or the queries that were counted for it."""
    (answer,) = _predict(predictor, Kind("predict", kind.k), [question])
    choice = choice_at(answer.choices, kind.choice)
    attended = explain.explanation(predictor, cast(History, question.record), replace(answer, choices=(choice,)))
    drawing = figures.query_weights(attended)
    words = attribution_sentence(choice)
    if not attended.weights:
        return drawing, f"{words} It comes from counts: only queries have weights."
    return drawing, f"{words} {NOT_CAUSES}"


def _example_records(predictor: SuggestPredictor) -> list[dict[str, object]]:
    """Return the answer to a query that nobody meant."""
    (answer,) = predictor.predict([History(("a",))], NUM_EXAMPLES, evidence=False, prefix=[""])
    return [{"values": [choice.value]} for choice in answer.choices]


def _training_data(predictor: SuggestPredictor, body: UpdateQueries) -> Queries:
    """Return sessions by the rules of a log: users and sessions are numbered, their names go nowhere."""
    return _queries(cast(list[History], body.records), body.users, predictor.metadata.normalisation)


def _queries(records: Sequence[History], users: Sequence[str] | None, normalisation: Normalisation) -> Queries:
    # Rows as a log has them, so that an update is read by the same rules.
    rows = [
        {
            **({} if users is None else {"user": users[session]}),
            "session": str(session),
            "query": query,
            "time": record.times[position] if record.times else position,
        }
        for session, record in enumerate(records)
        for position, query in enumerate(record.values)
    ]
    if not rows:
        raise DataError("new data: there are no queries")
    rules = QueryRules(normalisation=normalisation)
    try:
        return read_frame(
            pl.DataFrame(rows, infer_schema_length=None), partial(read_queries, rules=rules, time_unit="s")
        )[0]
    except DataError as error:
        raise DataError(str(error).replace(FRAME, "new data")) from error


SERVICE = TaskService(
    task=SUGGEST,
    view="queries",
    bodies=Bodies(PredictQueries, Explain, FigureQueries, UpdateQueries),
    answer_type=Answer,
    explanation_type=QueryExplanation,
    examples={
        "predict": {SUGGEST.name: {"records": [SESSION], "k": 5, "prefixes": ["fl"]}},
        "explain": {SUGGEST.name: {"records": [LONGER]}},
        "figure": {SUGGEST.name: {"record": SESSION, "choice": 0, "prefix": "fl"}},
        "update": {SUGGEST.name: {"records": [LONGER], "users": ["u1"]}},
    },
    questions=_questions,
    predict=_predict,
    draw=_draw,
    first_record=lambda predictor: History(("a",)),
    example_records=_example_records,
    training_data=_training_data,
)
