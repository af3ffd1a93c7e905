"""What the demonstration's model of texts makes of sentences that nobody took from the made-up town."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensue import Text
from ensue.demo.models import PANELS, data_of
from ensue.demo.town import make_town
from ensue.tasks.classify.predictor import ClassifyPredictor

SENTENCES = Path(__file__).with_name("everyday.tsv")
"""Sixty sentences, twelve a feeling, written before the words of the town were."""


@pytest.fixture(scope="module")
def predictor() -> ClassifyPredictor:
    """The model of the demonstration, as it is trained there."""
    part = next(part for part in PANELS if part.name == "stance")
    found = ClassifyPredictor(part.model, settings=part.settings, seed=0, device="cpu")
    known = data_of(make_town(num_reads=10, num_searches=10))["stance"]
    for _ in found.fit(known.train, known.valid):
        pass
    return found


def said(predictor: ClassifyPredictor, texts: list[str]) -> list[str]:
    return [str(answer.choices[0].value) for answer in predictor.predict([Text((text,)) for text in texts], 1)]


def test_everyday_sentences_are_answered_sensibly(predictor: ClassifyPredictor) -> None:
    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 60
    found = said(predictor, [text for _, text in rows])
    right = sum(label == own for (label, _), own in zip(rows, found, strict=True))
    # 47 with seed 0, 49 and 50 with seeds 1 and 2; 27 with the town's forty-five templates of before, 12 by chance.
    assert right >= 42


def test_what_a_reader_typed_first(predictor: ClassifyPredictor) -> None:
    asked = {
        "I am hopeful about the hearings": "hopeful",
        "I am hopeful about the hearings.": "hopeful",
        "I am worried about the hearings": "worried",
        "I am angry about the hearings": "angry",
        "I am not worried, I am happy": "hopeful",
    }
    assert said(predictor, [*asked]) == [*asked.values()]
