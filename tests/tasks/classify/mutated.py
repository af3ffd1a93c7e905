"""Small models of task ``classify`` whose folders are mutated, and every way in which a loaded one is used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ensue import Text, TextAnswer
from ensue.data.texts import Texts
from ensue.evaluation.comparison import evaluate
from ensue.learning.state import Metadata
from ensue.tasks.classify.predictor import ClassifyPredictor
from tests.mutations import Family
from tests.tasks.classify.contract import FILLERS, TRAINED, planted

SMALL = {**TRAINED, "epochs": 2}
SINGLE = [
    *planted(4, 3), Text(("",)), Text(("who? why?",)), Text(("good. bad! w1 it is",), None, "x"), Text(("w1 " * 40,))
]  # fmt: skip


def pairs(num: int, seed: int) -> list[Text]:
    """Pairs of texts, which agree where their last words are the same."""
    chance, records = np.random.default_rng(seed), []
    for _ in range(num):
        first, second = (" ".join(chance.choice(FILLERS, 3)) for _ in range(2))
        agree = bool(chance.random() < 0.5)
        records.append(Text((f"{first} good", f"{second} {'good' if agree else 'bad'}"), "yes" if agree else "no"))
    return records


def records_for(*, paired: bool) -> list[Text]:
    """What is asked of a model."""
    return [*pairs(4, 3), Text(("", "")), Text(("w1", "who?"))] if paired else SINGLE


def save_model(folder: Path, *, model: str, settings: Mapping[str, object], paired: bool = False) -> None:
    """Train a model on planted texts and write its folder."""
    made = pairs if paired else planted
    with TemporaryDirectory() as scratch:
        if model == "vectors":
            path = Path(scratch) / "vectors.txt"
            chance = np.random.default_rng(0)
            words = ("good", "bad", *FILLERS)
            path.write_text("".join(f"{word} {' '.join(map(str, chance.normal(size=8).round(3)))}\n" for word in words))
            settings = {**settings, "vectors": str(path)}
        predictor = ClassifyPredictor(model, settings=settings, device="cpu")
        list(predictor.fit(Texts.of(made(60, 0)), Texts.of(made(20, 1))))
        predictor.save(folder)


def exercise(predictor: ClassifyPredictor, scratch: Path) -> None:
    """Predict, explain, evaluate, update, predict again, and save."""
    records = records_for(paired=predictor.metadata.paired)
    require_answers(predictor, predictor.predict(records, 3), records)
    require_answers(predictor, predictor.predict(records, 1, evidence=False), records)
    for explanation in predictor.explain(records[:3], 2):
        require_answers(predictor, [explanation.answer], records[:1])
    known: Metadata = predictor.metadata
    assert known.to_dict() and repr(predictor) and predictor._repr_html_()
    made = pairs if predictor.metadata.paired else planted
    for row in evaluate(predictor, Texts.of(made(12, 7))).rows:
        assert all(math.isfinite(number) for number in row.figures.values()), row
    predictor.update(Texts.of(made(6, 8)))
    require_answers(predictor, predictor.predict(records, 3), records)
    predictor.save(scratch / "saved")
    ClassifyPredictor.load(scratch / "saved")


def require_answers(predictor: ClassifyPredictor, answers: Sequence[TextAnswer], records: Sequence[Text]) -> None:
    """Check that each answer holds labels with finite probabilities."""
    assert len(answers) == len(records)
    for answer in answers:
        assert all(0 <= choice.score <= 1.001 for choice in answer.choices), answer
        assert {choice.value for choice in answer.choices} <= {*predictor.labels}, answer
        for attribution in (attribution for choice in answer.choices for attribution in choice.attributions):
            assert math.isfinite(attribution.weight) and math.isfinite(attribution.score_drop or 0.0), answer


def family(model: str, settings: Mapping[str, object] | None = None, *, paired: bool = False) -> Family:
    """A model of this name with these settings."""
    return Family(partial(save_model, model=model, paired=paired, settings=settings or {}), exercise)


FAMILIES: dict[str, Family] = {
    "tfidf": family("tfidf"),
    "tfidf-pairs": family("tfidf", paired=True),
    "majority": family("majority"),
    "vectors": family("vectors"),
    "blend": family("blend", SMALL),
    "blend-pairs": family("blend", SMALL, paired=True),
    "documents": family("centrality", {**SMALL, "architecture": "hierarchical"}),
    "bilinear": family("centrality-bilinear", SMALL),
    "routing": family("routing", SMALL),
}
