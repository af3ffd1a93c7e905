"""Small models of task ``suggest`` whose folders are mutated, and every way in which a loaded one is used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ensue import Answer, History
from ensue.evaluation.comparison import evaluate
from ensue.tasks.suggest.predictor import SuggestPredictor
from tests.mutations import Family
from tests.tasks.suggest.contract import ATTENDING, FLOOR, TRAINED, planted, queries

RECORDS = [*planted(3, 3), History(()), History(("what?", "find lamp")), History(("find car",) * 9 + ("odd",), (), "x")]


def save_model(folder: Path, *, model: str, settings: Mapping[str, object]) -> None:
    """Train a model on planted sessions and write its folder."""
    predictor = SuggestPredictor(model, settings={**FLOOR, **settings}, device="cpu")
    list(predictor.fit(queries(planted(40, 0)), queries(planted(12, 9))))
    predictor.save(folder)


def exercise(predictor: SuggestPredictor, scratch: Path) -> None:
    """Suggest with and without prefixes, explain, evaluate, update, suggest again, and save."""
    require_answers(predictor, predictor.predict(RECORDS, 3), RECORDS)
    require_answers(predictor, predictor.predict(RECORDS, 100, evidence=False, prefix="bu"), RECORDS)
    for explanation in predictor.explain(RECORDS[:3], 2):
        require_answers(predictor, [explanation.answer], RECORDS[:1])
    assert predictor.metadata.to_dict() and repr(predictor) and predictor._repr_html_()
    for row in evaluate(predictor, queries(planted(12, 7))).rows:
        assert all(math.isfinite(number) for number in row.figures.values()), row
    predictor.update(queries([*planted(6, 8), *[History(("find boat", "sell boat"))] * 3]))
    require_answers(predictor, predictor.predict(RECORDS, 3), RECORDS)
    predictor.save(scratch / "saved")
    SuggestPredictor.load(scratch / "saved")


def require_answers(predictor: SuggestPredictor, answers: Sequence[Answer], records: Sequence[History]) -> None:
    """Check that each answer holds different texts with finite shares."""
    assert len(answers) == len(records)
    for answer in answers:
        assert all(0 <= choice.score <= 1.001 for choice in answer.choices), answer
        assert len({choice.value for choice in answer.choices}) == len(answer.choices), answer
        for attribution in (attribution for choice in answer.choices for attribution in choice.attributions):
            assert math.isfinite(attribution.weight) and math.isfinite(attribution.score_drop or 0.0), answer


def family(model: str, settings: Mapping[str, object] | None = None) -> Family:
    """A model of this name with these settings."""
    return Family(partial(save_model, model=model, settings=settings or {}), exercise)


SHORT = {**TRAINED, "epochs": 2}
ATTENTIVE = {**ATTENDING, "epochs": 2}
FAMILIES: dict[str, Family] = {
    "mtn": family("mtn", {**ATTENTIVE, "depth": "1+1+1"}),
    "mtn-pieces": family("mtn", {**ATTENTIVE, "depth": "1+1+1", "tokens": "bpe", "vocabulary_size": 300}),
    "transformer": family("transformer", {**ATTENTIVE, "depth": "1+1"}),
    "seq2seq": family("seq2seq", SHORT),
    "h-lstm": family("h-lstm", SHORT),
    **{
        model: family(model)
        for model in ("reranker", "most-frequent-next", "popular", "co-occurrence", "after-words", "repeat-last")
    },
}
