"""The evidence behind one choice of an answer, as a Plotly figure with a sentence that says what it shows.

Weights are what a model leaned on, not causes; so the sentence carries what was measured: how far the score falls when
the thing leaned on most is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ensue import figures
from ensue.answers import Choice, Explanation
from ensue.errors import DataError
from ensue.records import Post, Text
from ensue.tasks.link import explain as links
from ensue.tasks.suggest import explain as queries

NOT_CAUSES = "Weights are what the model leaned on, not causes."
EVENTS = 60
"""Events whose weights are drawn as bars, at most: the latest."""


class Drawn(NamedTuple):
    """A kind of question: the figure of one choice."""

    k: int
    choice: int


def draw(predictor: Any, asked: Drawn, record: Any) -> str:
    """``{"figure": …, "words": "…"}`` as a line of JSON.

    Raises:
        DataError: there is no such choice, or nothing to draw.
    """
    figure, words = _DRAWERS[predictor.task](predictor, asked, record)
    return f'{{"figure": {figure.to_json()}, "words": {json.dumps(words, ensure_ascii=False)}}}'


def _next(predictor: Any, asked: Drawn, record: Any) -> tuple[go.Figure, str]:
    (explanation,) = predictor.explain([record], asked.k)
    choice = _chosen(explanation.answer.choices, asked.choice)
    if explanation.dependency:
        figure = figures.dependency(explanation)
    else:
        known = [place for place, value in enumerate(record.values) if value in predictor.vocabulary]
        figure = _bars(explanation, choice, known[max(0, len(known) - len(explanation.values)) :])
    return figure, f"{_of_events(choice)} {NOT_CAUSES}"


def _bars(explanation: Explanation, choice: Choice, places: list[int]) -> go.Figure:
    """Of models without weights between the events: how much the answer leaned on each, and the deletion tests."""
    lost = {heed.position: heed.lost for heed in choice.heeded}
    names = [f"{place + 1}: {value}" for place, value in zip(places, explanation.values, strict=True)]
    series: dict[str, list[float | None]] = {
        "weight": list[float | None](explanation.influence)[-EVENTS:],
        "score lost without it": [lost.get(place) for place in places[-EVENTS:]],
    }
    title = f"{choice.value}: what it leaned on, not causes"
    return figures.bars(title, "weight, and score lost", names[-EVENTS:], series)


def _suggest(predictor: Any, asked: Drawn, typed: Any) -> tuple[go.Figure, str]:
    (answer,) = predictor.predict([typed.record], asked.k, prefix=[typed.prefix])
    choice = _chosen(answer.choices, asked.choice)
    alone = replace(answer, choices=(choice,))
    explanation = queries.explanation(predictor, typed.record, alone)
    if not explanation.weights:
        return figures.leanings(explanation), f"{choice.value} was counted: no word of the session was weighed."
    return figures.leanings(explanation), f"{_of_events(choice)} {NOT_CAUSES}"


def _classify(predictor: Any, asked: Drawn, record: Text) -> tuple[go.Figure, str]:
    (explanation,) = predictor.explain([record], asked.k)
    choice = _chosen(explanation.answer.choices, asked.choice)
    if not any(part.words for part in explanation.passages):
        raise DataError("record: the text has no word, so there is nothing to draw")
    test, best = explanation.answer.deletion, explanation.answer.choices[0]
    said = [f"{choice.value} has probability {choice.score:.2f}."]
    if test is not None:
        said.append(
            f"Without the {_count(test.words, 'word')} leaned on most, the probability of {best.value} "
            f"{_falls(test.lost)}; without as many at random it {_falls(test.random)} on average."
        )
    return figures.word_graph(explanation), " ".join([*said, NOT_CAUSES])


def _link(predictor: Any, asked: Drawn, record: Post) -> tuple[go.Figure, str]:
    (answer,) = predictor.predict([record], asked.k)
    choice = _chosen(answer.choices, asked.choice)
    explanation = links.explanation(predictor, record, replace(answer, choices=(choice,)))
    if not explanation.lost:
        raise DataError("record: the post has no word, so there is nothing to draw")
    at = max(range(len(explanation.lost)), key=lambda place: explanation.lost[place])
    said = [
        f"Article {choice.value}: the score {_falls(explanation.lost[at])} without “{explanation.words[at]}”, "
        "more than without any other word of the post."
    ]
    if choice.sentence:
        said.append(f"Its sentence closest to the post: “{choice.sentence}”")
    return figures.deletions(explanation), " ".join(said)


def _chosen(choices: tuple[Any, ...], place: int) -> Any:
    if not choices:
        raise DataError("the answer has no choice, so there is nothing to draw")
    if place >= len(choices):
        raise DataError(f'field "choice" is {place}, but the answer has {len(choices)} choices, counted from 0')
    return choices[place]


def _of_events(choice: Choice) -> str:
    if not choice.heeded:
        return f"{choice.value} (score {choice.score:.3f}) leaned on nothing of this history: it is what is common."
    most = choice.heeded[0]
    said = f"{choice.value} (score {choice.score:.3f}) leaned most on {most.value}: share {most.share:.2f}"
    return f"{said}." if most.lost is None else f"{said}; without it the score {_falls(most.lost)}."


def _falls(lost: float) -> str:
    if abs(lost) < 0.0005:
        return "stays as it is"
    return f"falls by {lost:.3f}" if lost > 0 else f"rises by {-lost:.3f}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


_DRAWERS: Mapping[str, Callable[[Any, Drawn, Any], tuple[go.Figure, str]]] = {
    "next": _next,
    "suggest": _suggest,
    "classify": _classify,
    "link": _link,
}
