"""Texts over HTTP: which label fits."""

from __future__ import annotations

from typing import cast

import plotly.graph_objects as go

from ensue import figures
from ensue.answers import TextAnswer, TextExplanation
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.lines import plural
from ensue.records import Text
from ensue.serve.tasks import NOT_CAUSES, NUM_EXAMPLES, Kind, Question, TaskService, change_in_words, choice_at
from ensue.tasks import CLASSIFY
from ensue.tasks.classify.predictor import ClassifyPredictor

WORDS = 200
"""Example words of the page are among this many most frequent words."""
REVIEW: dict[str, object] = {"texts": ["a fine film"]}


def _draw(predictor: ClassifyPredictor, kind: Kind, question: Question) -> tuple[go.Figure, str]:
    """Draw the graph of the words."""
    (explanation,) = predictor.explain([cast(Text, question.record)], kind.k)
    choice = choice_at(explanation.answer.choices, kind.choice)
    if not any(passage.words for passage in explanation.passages):
        raise DataError("record: the text has no words to draw")
    test = explanation.answer.deletion
    best = explanation.answer.choices[0]
    sentences = [f"{choice.value} has probability {choice.score:.2f}."]
    if test is not None:
        sentences.append(
            f"Without the {plural(test.words, 'word')} with the largest weights, the probability of "
            f"{best.value} {change_in_words(test.score_drop)}; without as many at random it "
            f"{change_in_words(test.random)} on average."
        )
    return figures.word_graph(explanation), " ".join([*sentences, NOT_CAUSES])


def _example_records(predictor: ClassifyPredictor) -> list[dict[str, object]]:
    """Return the most frequent words with the highest probability, one per label; none where pairs are asked for."""
    # Frequent words are nobody's text, and longer ones are no articles and pronouns.
    words = [word for word in predictor.tokenizer.vocabulary.values[:WORDS] if word.isalpha() and len(word) > 3]
    if predictor.metadata.paired or not words:
        return []
    best: dict[str, tuple[float, str]] = {}
    answers = predictor.predict([Text((word,)) for word in words], 1, evidence=False)
    for word, answer in zip(words, answers, strict=True):
        choice = answer.choices[0]
        # Pairs compare by the score first.
        best[choice.value] = max(best.get(choice.value, (0.0, "")), (choice.score, word))
    return [{"texts": [word]} for _, word in sorted(best.values(), reverse=True)[:NUM_EXAMPLES]]


SERVICE = TaskService(
    task=CLASSIFY,
    view="texts",
    answer_type=TextAnswer,
    explanation_type=TextExplanation,
    examples={
        "predict": {CLASSIFY.name: {"records": [REVIEW]}},
        "explain": {CLASSIFY.name: {"records": [REVIEW]}},
        "figure": {CLASSIFY.name: {"record": REVIEW}},
        "update": {CLASSIFY.name: {"records": [{**REVIEW, "label": "good"}]}},
    },
    draw=_draw,
    first_record=lambda predictor: Text(("a", "a") if predictor.metadata.paired else ("a",)),
    describe=lambda predictor: {"labels": predictor.labels, "paired": predictor.metadata.paired},
    example_records=_example_records,
    training_data=lambda predictor, body: Texts.of(body.records),
)
