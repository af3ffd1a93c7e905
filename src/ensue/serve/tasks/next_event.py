"""Histories over HTTP: what comes next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, NamedTuple, cast

import plotly.graph_objects as go
from pydantic import BeforeValidator, Field, ValidationInfo

from ensue import figures
from ensue.answers import Answer, Choice, Explanation
from ensue.arguments import id_list
from ensue.data.edges import Edges
from ensue.data.histories import Histories
from ensue.lines import plural
from ensue.records import History
from ensue.serve.bodies import Bodies, Explain, Figure, Predict, Update
from ensue.serve.lengths import require_short_history
from ensue.serve.sentences import NOT_CAUSES, chosen, of_events
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import SHOWN, Drawn, Kind, TaskService
from ensue.tasks.next.indexing import indexes
from ensue.tasks.next.infer import predict_each
from ensue.tasks.next.item_index import IndexFacts, ItemIndex
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.true_edges import compare, true_pairs

BARS = 60
"""Events whose weights are drawn as bars, at most: the latest."""
HISTORY = {"values": ["a17", "b03", "c44"], "times": [0, 20, 65]}


def _texts_of_ids(ids: object, field: ValidationInfo) -> object:
    """Return the ids of a list as texts, as those of a history; what is no list is refused as such."""
    return [*id_list(ids, field.field_name or "ids")] if isinstance(ids, list) else ids


Ids = Annotated[list[str], BeforeValidator(_texts_of_ids)]


class PredictNext(Predict):
    """Histories, and which values may be answers."""

    exclude: Ids = Field([], description="items never returned, such as sold-out ones")
    allow: Ids | None = Field(None, description="items that may be returned; all by default")
    exclude_seen: bool | None = Field(None, description="whether items of the session are excluded; default: as fitted")
    rank_unknown: bool = Field(
        False, description="whether items of the session that the model does not know may be returned"
    )


class Rules(NamedTuple):
    """What a request says of values that a history holds; histories of one rule are answered together."""

    exclude_seen: bool | None = None
    rank_unknown: bool = False


class Asked(NamedTuple):
    """A history, and the lists and rules of its request."""

    record: History
    exclude: Sequence[str] = ()
    allow: Sequence[str] | None = None
    rules: Rules = Rules()


class NextService(TaskService[NextPredictor, Asked]):
    """See :class:`ensue.serve.tasks.TaskService`."""

    histories = divides = True
    view = "events"
    bodies = Bodies(PredictNext)
    answer_type, explanation_type = Answer, Explanation

    def examples(self) -> Mapping[str, Mapping[str, object]]:
        """Clicks."""
        name, learned = self.task.name, [HISTORY, {"values": ["a17", "d91"]}]
        question = {name: {"records": [HISTORY], "k": 3}}
        return {
            "predict": {**question, f"{name}, without some": {"records": [HISTORY], "k": 3, "exclude": ["d91"]}},
            "explain": question,
            "figure": {name: {"record": HISTORY, "k": 5, "choice": 0}},
            "update": {name: {"records": learned}, f"{name}, tested": {"records": learned, "max_drop": 0.05}},
        }

    def require_short(self, record: object, where: str, settings: ServeSettings, words: str) -> None:
        """Its values are counted, and the longest measured."""
        assert isinstance(record, History)
        require_short_history(record, where, settings)

    def questions(self, body: Predict | Explain | Figure) -> Sequence[Asked]:
        """Histories with the lists of their request."""
        records = [body.record] if isinstance(body, Figure) else body.records
        if not isinstance(body, PredictNext):
            return [Asked(cast(History, record)) for record in records]
        rules = Rules(body.exclude_seen, body.rank_unknown)
        return [Asked(cast(History, record), body.exclude, body.allow, rules) for record in records]

    def texts_of(self, question: Asked) -> Sequence[str]:
        """Its values."""
        return question.record.values

    def answer(self, predictor: NextPredictor, kind: Kind, questions: Sequence[Asked]) -> list[str]:
        """Those of one rule together, each by the lists of its request."""
        if kind.verb == "explain":
            explanations = predictor.explain([question.record for question in questions], kind.k)
            return [explanation.to_json() for explanation in explanations]
        lines = [""] * len(questions)
        for rules in dict.fromkeys(question.rules for question in questions):
            rows = [row for row, question in enumerate(questions) if question.rules == rules]
            lists = predictor.lists.of_each(
                [(questions[row].exclude, questions[row].allow) for row in rows], predictor.vocabulary
            )
            records = [questions[row].record for row in rows]
            answers = predict_each(predictor, records, lists, kind.k, evidence=kind.evidence, **rules._asdict())
            for row, answer in zip(rows, answers, strict=True):
                lines[row] = answer.to_json()
        return lines

    def draw(self, predictor: NextPredictor, drawn: Drawn, question: Asked) -> tuple[go.Figure, str]:
        """The weights between the events where there are any, else how much the answer attended to each."""
        (explanation,) = predictor.explain([question.record], drawn.k)
        choice = chosen(explanation.answer.choices, drawn.choice)
        words = f"{of_events(choice)} {NOT_CAUSES}"
        if drawn.truth is not None:
            words = f"{words} {_of_truth(explanation, drawn.truth)}"
        if explanation.dependency or drawn.truth is not None:
            figure = figures.cascade(explanation, truth=drawn.truth)
        else:
            places = [place for place, value in enumerate(question.record.values) if value in predictor.vocabulary]
            figure = _bars(explanation, choice, places[max(0, len(places) - len(explanation.values)) :])
        return figure, words

    def prepares(self, predictor: NextPredictor) -> bool:
        """Return whether a large catalogue has no index, as where it was fitted without the extra."""
        return predictor.index is None and indexes(predictor)

    def prepare(self, predictor: NextPredictor) -> None:
        """The index."""
        if self.prepares(predictor):
            predictor.index_items()

    def made(self, predictor: NextPredictor) -> bytes:
        """A line of what was measured, then the index."""
        assert predictor.index is not None
        return json.dumps(asdict(predictor.index.facts)).encode() + b"\n" + predictor.index.to_bytes()

    def take(self, predictor: NextPredictor, made: bytes) -> None:
        """The index."""
        facts, _, index = made.partition(b"\n")
        predictor.metadata.index = json.loads(facts)
        predictor.index = ItemIndex.from_bytes(index, IndexFacts(**json.loads(facts)))

    def first_question(self, predictor: NextPredictor) -> Asked:
        """A value it knows, if there is one."""
        return Asked(History(tuple(predictor.vocabulary.values[:1])))

    def describe(self, predictor: NextPredictor) -> dict[str, object]:
        """How many values it ranks, and whether it looks at times."""
        return {"values": len(predictor.vocabulary.values), "timed": predictor.metadata.timed}

    def shown(self, predictor: NextPredictor) -> list[dict[str, object]]:
        """What is common: the answer to a history without events."""
        (answer,) = predictor.predict([History(())], SHOWN, evidence=False)
        return [{"values": [choice.value]} for choice in answer.choices]

    def data_of(self, predictor: NextPredictor, body: Update) -> Histories:
        """The histories."""
        return Histories.of(cast(list[History], body.records))


def _of_truth(explanation: Explanation, edges: Edges) -> str:
    """What the dotted lines are, and how often the strongest weight is one of them."""
    count, found = len(true_pairs(explanation, edges)), compare(explanation, edges)
    told = found.sentence()
    return f"Dotted: {plural(count, 'true edge')} between these." + (
        f" {told[0].upper()}{told[1:]}." if found.steps else ""
    )


def _bars(explanation: Explanation, choice: Choice, places: list[int]) -> go.Figure:
    """Of models without weights between the events: how much the answer attended to each, and the deletion tests.

    Of 3 events of which the model knows the first and the last, ``places`` are 0 and 2: the names are 1 and 3.
    """
    drops = {attribution.position: attribution.score_drop for attribution in choice.attributions}
    names = [f"{place + 1}: {value}" for place, value in zip(places, explanation.values, strict=True)]
    series: dict[str, list[float | None]] = {
        "weight": list[float | None](explanation.influence)[-BARS:],
        "score drop without it": [drops.get(place) for place in places[-BARS:]],
    }
    title = f"{choice.value}: attributions, not causes"
    return figures.bars(title, "weight, and score drop", names[-BARS:], series)
