"""Texts over HTTP: which label fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import plotly.graph_objects as go

from ensue import figures
from ensue.answers import TextAnswer, TextExplanation
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.lines import plural
from ensue.records import Text
from ensue.serve.bodies import Update
from ensue.serve.sentences import NOT_CAUSES, chosen, falls
from ensue.serve.tasks import SHOWN, Drawn, TaskService
from ensue.tasks.classify.predictor import ClassifyPredictor

WORDS = 200
"""The commonest words that an example on the page may be."""


class ClassifyService(TaskService[ClassifyPredictor, Text]):
    """See :class:`ensue.serve.tasks.TaskService`."""

    view = "texts"
    answer_type, explanation_type = TextAnswer, TextExplanation

    def examples(self) -> Mapping[str, Mapping[str, object]]:
        """A review."""
        name, review = self.task.name, {"texts": ["a fine film"]}
        question = {name: {"records": [review]}}
        learned = {"records": [{**review, "label": "good"}]}
        return {
            "predict": question,
            "explain": question,
            "figure": {name: {"record": review}},
            "update": {name: learned},
        }

    def texts_of(self, question: Text) -> Sequence[str]:
        """The text, or the pair."""
        return question.texts

    def draw(self, predictor: ClassifyPredictor, drawn: Drawn, question: Text) -> tuple[go.Figure, str]:
        """The graph of the words."""
        (explanation,) = predictor.explain([question], drawn.k)
        choice = chosen(explanation.answer.choices, drawn.choice)
        if not any(part.words for part in explanation.passages):
            raise DataError("record: the text has no words to draw")
        test, best = explanation.answer.deletion, explanation.answer.choices[0]
        sentences = [f"{choice.value} has probability {choice.score:.2f}."]
        if test is not None:
            sentences.append(
                f"Without the {plural(test.words, 'word')} with the largest weights, the probability of "
                f"{best.value} {falls(test.score_drop)}; without as many at random it {falls(test.random)} on "
                "average."
            )
        return figures.word_graph(explanation), " ".join([*sentences, NOT_CAUSES])

    def first_question(self, predictor: ClassifyPredictor) -> Text:
        """A word, or a pair of them."""
        return Text(("a", "a") if predictor.metadata.paired else ("a",))

    def describe(self, predictor: ClassifyPredictor) -> dict[str, object]:
        """The labels, and whether it takes pairs."""
        return {"labels": predictor.labels, "paired": predictor.metadata.paired}

    def shown(self, predictor: ClassifyPredictor) -> list[dict[str, object]]:
        """Words that tell a label; none where pairs are asked for."""
        return [] if predictor.metadata.paired else [{"texts": [word]} for word in _telling(predictor)]

    def data_of(self, predictor: ClassifyPredictor, body: Update) -> Texts:
        """The texts and their labels."""
        return Texts.of(cast(list[Text], body.records))


def _telling(predictor: ClassifyPredictor) -> Iterable[str]:
    """Of the commonest words, the one that says most for each label."""
    words = [word for word in predictor.tokenizer.vocabulary.values[:WORDS] if word.isalpha() and len(word) > 3]
    if not words:
        return []
    best: dict[str, tuple[float, str]] = {}
    answers = predictor.predict([Text((word,)) for word in words], 1, evidence=False)
    for word, answer in zip(words, answers, strict=True):
        choice = answer.choices[0]
        best[choice.value] = max(best.get(choice.value, (0.0, "")), (choice.score, word))
    return [word for _, word in sorted(best.values(), reverse=True)[:SHOWN]]
