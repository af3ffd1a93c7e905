"""Sessions over HTTP: what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple, cast

import plotly.graph_objects as go
import polars as pl
from pydantic import AfterValidator, Field

from ensue import figures
from ensue.answers import Answer, Choice, Explanation, VariantAnswer
from ensue.data.edges import Edges
from ensue.data.frames import FRAME
from ensue.data.histories import Histories
from ensue.data.inputs import read_item_table
from ensue.errors import EnsueError
from ensue.experiments import require_variant
from ensue.lines import plural
from ensue.records import History
from ensue.serve.bodies import Bodies, Body, Explain, Figure, Ids, Limit, Limits, Predict, Similar, Update, too_long
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
from ensue.tasks import NEXT
from ensue.tasks.next.infer import predict_each
from ensue.tasks.next.item_filter import ALL_ITEMS, Rules
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.similar import similar_items
from ensue.tasks.next.true_edges import compare, true_pairs

BARS = 60
"""Events whose weights are drawn as bars, at most: the latest."""
HISTORY = {"values": ["a17", "b03", "c44"], "times": [0, 20, 65]}
NEW_HISTORIES = [HISTORY, {"values": ["a17", "d91"]}]


Cell = str | int | float | None


def _item_rows(limits: Limits, kind: object) -> object:
    """Narrow rows of an item table: as many as records may be trained on, none longer than an article."""
    max_characters = limits.settings.article_characters

    def require_short(items: list[dict[str, Cell]]) -> list[dict[str, Cell]]:
        for number, item in enumerate(items):
            size = sum(len(str(text)) for pair in item.items() for text in pair)
            if size > max_characters:
                raise too_long(f"items[{number}]", size, "characters", max_characters, "an item", "article_characters")
        return items

    rows = Annotated[list[dict[str, Cell]], Field(max_length=limits.settings.update_records)]
    return Annotated[rows, AfterValidator(require_short)]


class UpdateNext(Update):
    """Histories, and rows of the item table."""

    items: Annotated[list[dict[str, Cell]], Limit(_item_rows)] = Field(
        [], description="a list of new or changed items, an object of column and value each"
    )

    @property
    def empty(self) -> bool:
        """True where there is neither a history nor an item."""
        return not self.records and not self.items


class ItemRules(Body):
    """Which items may be answers."""

    exclude: Ids = Field([], description="items never returned, such as sold-out ones")
    allow: Ids | None = Field(None, description="items that may be returned; all by default")
    exclude_lists: list[str] = Field([], description="names of stored lists whose items are never returned")
    allow_lists: list[str] = Field([], description="names of stored lists; only items on each of them are returned")
    filters: list[str] = Field([], description="conditions on columns of the item table, such as `price < 50`")
    now: float | None = Field(None, description="the time that `within` counts from, in seconds; default: the clock")

    def rules(self, lists: ListStore) -> Rules:
        """Return the rules, with the items of stored lists."""
        rules = Rules.of(self.exclude, self.allow, self.filters, self.now)
        return rules._replace(
            exclude=(*rules.exclude, *map(lists.require, self.exclude_lists)),
            allow=(*rules.allow, *map(lists.require, self.allow_lists)),
        )


class PredictNext(ItemRules, Predict):
    """Histories, and which values may be answers."""

    max_per: dict[str, int] = Field({}, description="column -> number of answers at most with the same value of it")
    diversify: str = Field("", description="re-ranking: `mmr=0.3` or `calibrated:COLUMN=0.3`, a weight from 0 to 1")
    exclude_seen: bool | None = Field(None, description="whether items of the session are excluded; default: as fitted")
    rank_unknown: bool = Field(
        False, description="whether items of the session that the model does not know may be returned"
    )
    variant: Annotated[str, AfterValidator(require_variant)] = Field(
        "", description="a name of at most 64 letters, digits, '.', '_' and '-': the variant of an experiment"
    )


class SimilarNext(ItemRules, Similar):
    """Items, and which ones may be similar to them."""


class AnswerOptions(NamedTuple):
    """Options of a request for its answers.

    Attributes:
        rules: which items may be answers.
        exclude_seen: as in :class:`PredictNext`.
        rank_unknown: as in :class:`PredictNext`.
    """

    rules: Rules = ALL_ITEMS
    exclude_seen: bool | None = None
    rank_unknown: bool = False


DEFAULTS = AnswerOptions()


def _questions(body: Predict | Explain | Figure | Similar, lists: ListStore) -> Sequence[Question]:
    """Return each session, or each item as a session of its own, with the options of its request."""
    if isinstance(body, SimilarNext):
        options = AnswerOptions(body.rules(lists))
        return [Question(History((item,), id=item), options) for item in body.items]
    assert not isinstance(body, Similar)
    options = DEFAULTS
    if isinstance(body, PredictNext):
        rules = body.rules(lists)._replace(max_per=tuple(body.max_per.items()), diversify=body.diversify)
        options = AnswerOptions(rules, body.exclude_seen, body.rank_unknown)
    return [Question(record, options) for record in records_of(body)]


def _similar(predictor: NextPredictor, kind: Kind, questions: Sequence[Question]) -> list[Answer]:
    """Return the most similar items of each item; those of one request share their rules and are compared at once."""
    rows_of: dict[int, list[int]] = {}
    for row, question in enumerate(questions):
        rows_of.setdefault(id(question.options), []).append(row)
    answers: dict[int, Answer] = {}
    for rows in rows_of.values():
        rules = cast(AnswerOptions, questions[rows[0]].options).rules
        items = [questions[row].record.id for row in rows]
        for row, item, choices in zip(rows, items, similar_items(predictor, items, kind.k, rules), strict=True):
            answers[row] = Answer(tuple(choices), in_vocabulary=1, events=1, id=item)
    return [answers[row] for row in range(len(questions))]


def _predict(predictor: NextPredictor, kind: Kind, questions: Sequence[Question]) -> list[Answer]:
    """Answer sessions together whose requests treat items of a session alike, each by the rules of its request."""
    options = [cast(AnswerOptions, question.options or DEFAULTS) for question in questions]
    answers: dict[int, Answer] = {}
    for alike in dict.fromkeys(each[1:] for each in options):
        rows = [row for row, each in enumerate(options) if each[1:] == alike]
        filters = predictor.filters_of([options[row].rules for row in rows])
        records = [cast(History, questions[row].record) for row in rows]
        exclude_seen, rank_unknown = alike
        row_answers = predict_each(
            predictor, records, filters, kind.k,
            evidence=kind.evidence, exclude_seen=exclude_seen, rank_unknown=rank_unknown,
        )  # fmt: skip
        answers |= dict(zip(rows, row_answers, strict=True))
    return [answers[row] for row in range(len(questions))]


def _draw(predictor: NextPredictor, kind: Kind, question: Question) -> tuple[go.Figure, str]:
    """Draw the weights between the events where there are any, else how much the answer attended to each."""
    history = cast(History, question.record)
    (explanation,) = predictor.explain([history], kind.k)
    choice = choice_at(explanation.answer.choices, kind.choice)
    words = f"{attribution_sentence(choice)} {NOT_CAUSES}"
    if kind.truth is not None:
        words = f"{words} {_edges_in_words(explanation, kind.truth)}"
    if explanation.dependency or kind.truth is not None:
        return figures.cascade(explanation, truth=kind.truth), words
    # Only events that the model knows have weights; long sessions are cut to the latest.
    positions = [position for position, value in enumerate(history.values) if value in predictor.vocabulary]
    return _bars(explanation, choice, positions[max(0, len(positions) - len(explanation.values)) :]), words


def _edges_in_words(explanation: Explanation, edges: Edges) -> str:
    """Say what the dotted lines are, and how often the strongest weight is one of them."""
    count = len(true_pairs(explanation, edges))
    comparison = compare(explanation, edges)
    sentence = comparison.sentence()
    return f"Dotted: {plural(count, 'true edge')} between these." + (
        f" {sentence[0].upper()}{sentence[1:]}." if comparison.steps else ""
    )


def _bars(explanation: Explanation, choice: Choice, positions: list[int]) -> go.Figure:
    """Draw how much the answer attended to each event, and the deletion tests, where no weights are between events.

    Of 3 events of which the model knows the first and the last, ``positions`` are 0 and 2: the names are 1 and 3.
    """
    drops = {attribution.position: attribution.score_drop for attribution in choice.attributions}
    names = [f"{position + 1}: {value}" for position, value in zip(positions, explanation.values, strict=True)]
    series: dict[str, list[float | None]] = {
        "weight": list[float | None](explanation.influence)[-BARS:],
        "score drop without it": [drops.get(position) for position in positions[-BARS:]],
    }
    title = f"{choice.value}: attributions, not causes"
    return figures.bars(title, "weight, and score drop", names[-BARS:], series)


def _example_records(predictor: NextPredictor) -> list[dict[str, object]]:
    """Return what is common: the answer to an empty session."""
    (answer,) = predictor.predict([History(())], NUM_EXAMPLES, evidence=False)
    return [{"values": [choice.value]} for choice in answer.choices]


def _training_data(predictor: NextPredictor, body: Update) -> Histories:
    """Return the histories of a body, with the items as their table.

    Raises:
        DataError: the items are no such table as the model was fitted with.
    """
    assert isinstance(body, UpdateNext)
    histories = Histories.of(cast(list[History], body.records))
    if not body.items:
        return histories
    names = dict.fromkeys(name for item in body.items for name in item)
    cells = {name: [None if item.get(name) is None else str(item[name]) for item in body.items] for name in names}
    item_table = predictor.known_items
    try:
        frame = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String))
        items = read_item_table(frame, None, None if item_table is None else item_table.items)
    except EnsueError as error:
        raise type(error)(str(error).replace(FRAME, "items")) from error
    return replace(histories, items=items)


SERVICE = TaskService(
    task=NEXT,
    view="events",
    bodies=Bodies(PredictNext, update=UpdateNext, similar=SimilarNext),
    answer_type=cast(type, VariantAnswer | Answer),
    explanation_type=Explanation,
    examples={
        "predict": {
            NEXT.name: {"records": [HISTORY], "k": 3},
            f"{NEXT.name}, without some": {"records": [HISTORY], "k": 3, "exclude": ["d91"]},
        },
        "explain": {NEXT.name: {"records": [HISTORY], "k": 3}},
        "figure": {NEXT.name: {"record": HISTORY, "k": 5, "choice": 0}},
        "similar": {NEXT.name: {"items": ["a17"], "k": 3}},
        "update": {
            NEXT.name: {"records": NEW_HISTORIES},
            f"{NEXT.name}, tested": {"records": NEW_HISTORIES, "max_drop": 0.05},
            f"{NEXT.name}, new items": {"records": [], "items": [{"item": "e05", "title": "The ferry sails again"}]},
        },
    },
    questions=_questions,
    predict=_predict,
    similar=_similar,
    draw=_draw,
    first_record=lambda predictor: History(tuple(predictor.vocabulary.values[:1])),
    describe=lambda predictor: {"values": len(predictor.vocabulary.values), "timed": predictor.metadata.timed},
    example_records=_example_records,
    training_data=_training_data,
    has_edges=True,
    num_known=lambda predictor, items: len({*predictor.vocabulary.known_each([items])[0].tolist()}),
    forks=True,
)
