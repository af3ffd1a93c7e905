"""A task that brings nothing of its own to the service: its record and its predictor are enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import pytest

from ensue.answers import Answer, Choice
from ensue.errors import DataError
from ensue.serve.bodies import Explain, Figure, Limits, Predict, Update, limited, read
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import AnyService, Drawn, Kind
from ensue.serve.tasks.plain import PlainService
from ensue.tasks.base import Task


@dataclass(frozen=True)
class Word:
    """A word, and those around it."""

    word: str
    around: tuple[str, ...] = ()

    @classmethod
    def from_fields(cls, found: dict[str, Any], where: str = "record") -> Self:
        if not isinstance(found["word"], str):
            raise DataError(f'{where}: field "word" must be a text')
        return cls(found["word"], tuple(found.get("around", ())))


class Longer:
    """Answers with the word twice."""

    task = "words"

    def predict(self, records: list[Word], k: int = 10, *, evidence: bool = True) -> list[Answer]:
        return [Answer((Choice(2 * record.word, 1.0),)[:k]) for record in records]

    explain = predict


TASK = Task("words", "?", Word, {"word": "a"}, "", "", "", "", "", "", "ensue.serve.tasks.plain:PlainService")
LIMITS = ServeSettings(records=2, words=3, characters=20, most=5)


@pytest.fixture
def service() -> AnyService:
    return PlainService(TASK)


def body_of(service: AnyService, kind: type[Any], fields: object) -> Any:
    return read(limited("Body", kind, Limits(LIMITS, service.record, service.read)), fields)


def test_records_are_read_and_answered(service: AnyService) -> None:
    body = body_of(service, Predict, {"records": [{"word": "a"}, {"word": "b", "around": ["c"]}]})
    assert (body.k, body.evidence) == (5, True)
    questions = service.questions(body)
    assert questions == [Word("a"), Word("b", ("c",))]
    answers = service.answer(Longer(), Kind("predict", 3), questions)
    assert [Answer((Choice(word, 1.0),)).to_json() for word in ("aa", "bb")] == answers
    assert service.answer(Longer(), Kind("explain", 3), questions) == answers


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"records": [3]}, 'records[0]: must be an object such as {"word": "a"}'),
        ({"records": [{"text": "a"}]}, 'records[0]: field "word" is missing; expected {"word": "a"}'),
        ({"records": [{"word": 3}]}, 'records[0]: field "word" must be a text'),
        ({"records": [{"word": "a", "around": ["b c", "d"]}]}, "records[0]: 4 words are more than the 3 of a record"),
        ({"records": [{"word": "a" * 21}]}, "records[0]: 21 characters are more than the 20 of a record"),
        ({"records": [{"word": "a"}] * 3}, "3 records exceed the limit of 2 per request"),
        ({"records": [], "choice": 1}, "field 'choice' is not known; a body has records, k, evidence"),
        ({"records": [], "k": 6}, 'field "k" must be a whole number from 1 to 5'),
        ({"records": [], "k": 2.0}, 'field "k" must be a whole number from 1 to 5'),
    ],
)
def test_what_is_wrong_is_said(service: AnyService, fields: object, error: str) -> None:
    with pytest.raises(DataError) as caught:
        body_of(service, Predict, fields)
    assert str(caught.value).startswith(error)


def test_what_it_cannot_is_refused_in_a_line(service: AnyService) -> None:
    (question,) = service.questions(body_of(service, Figure, {"record": {"word": "a"}}))
    with pytest.raises(DataError, match="models of task words have no figures; request an explanation instead"):
        service.draw(Longer(), Drawn(1, 0), question)
    with pytest.raises(DataError, match="models of task words cannot be updated over HTTP; use `ensue update`"):
        service.data_of(Longer(), body_of(service, Update, {"records": [{"word": "a"}], "max_drop": 0.5}))


def test_its_examples_are_bodies(service: AnyService) -> None:
    kinds: dict[str, type[Any]] = {"predict": Predict, "explain": Explain, "figure": Figure}
    assert set(service.examples()) == set(kinds)
    for verb, kind in kinds.items():
        assert service.questions(body_of(service, kind, service.examples()[verb]["words"])) == [Word("a")]
    assert service.shown(Longer()) == [{"word": "a"}]
    assert service.describe(Longer()) == {}
