"""When a network counts: standard errors by hand, and parts that were made up for a few texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score

from ensue import Text
from ensue.data.texts import Texts
from ensue.tasks.classify.choice import choose_blend, decide, held_out_metric
from ensue.tasks.classify.cross_fitting import FoldedTexts, Unseen, units_of
from ensue.tasks.classify.ensembles.blend import NETWORK
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.classify.settings import ALIGNMENT
from tests.tasks.classify.contract import planted
from tests.tasks.classify.test_predictor import fitted, pairs

HELD = planted(30, 1)


def _noisy(targets: np.ndarray, hint: float, seed: int) -> np.ndarray:
    noise: np.ndarray = np.random.default_rng(seed).normal(size=(len(targets), 3))
    scores: np.ndarray = hint * np.eye(3)[targets] + noise
    return scores


@pytest.mark.parametrize(("num", "sure"), [(30, False), (3000, True)])
def test_significantly_likelier_and_no_fewer_right(num: int, sure: bool) -> None:
    targets = np.tile([0, 1, 2], num // 3)
    weak, strong = Unseen(_noisy(targets, 1.0, 0), targets), Unseen(_noisy(targets, 1.3, 2), targets)
    assert strong.significantly_better(weak) is sure
    assert not weak.significantly_better(strong) and not weak.significantly_better(weak)
    assert not strong._replace(units=np.arange(num) % 4).significantly_better(weak)  # four groups prove nothing


def test_texts_of_a_group_and_copies_are_one_unit() -> None:
    texts = Texts.of([Text(("A film",), "x"), Text(("a  film",), "x"), Text(("a book",), "y")])
    one, copy, other = units_of(texts).tolist()
    assert one == copy != other
    grouped = replace(texts, groups=pl.Series(["g", "h", "g"]))
    assert units_of(grouped)[0] == units_of(grouped)[2] != units_of(grouped)[1]
    both = Texts.of([Text(("a", "b"), "x"), Text(("a", "c"), "y"), Text(("b", "c"), "y")])
    assert units_of(both)[0] == units_of(both)[1] != units_of(both)[2]


def test_macro_f1_chooses_where_it_is_set(blended: ClassifyPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    held = blended.targets(Texts.of(HELD))
    targets = np.concatenate([held, np.tile(held, 10)])
    hints = {"tfidf": 1.0, NETWORK: 0.1}
    by_loss = _weighed(blended, monkeypatch, hints)
    blended.shared = replace(blended.shared, metric="macro-f1")
    by_f1 = _weighed(blended, monkeypatch, hints)
    expected = f1_score(targets, _noisy(targets, 1.0, 0).argmax(1), average="macro")
    assert by_f1["tfidf"] == pytest.approx(1 - expected) != by_loss["tfidf"]
    assert held_out_metric(blended, np.eye(2)[[0, 1, 1]], np.array([0, 1, -1])) == pytest.approx((1 + 2 / 3 + 0) / 3)


@pytest.fixture
def blended() -> ClassifyPredictor:
    return cast(ClassifyPredictor, fitted(planted(60, 0), "blend", HELD, epochs=1))


def _weighed(
    made: ClassifyPredictor, monkeypatch: pytest.MonkeyPatch, hints: dict[str, float], texts: Sequence[Text] = HELD
) -> dict[str, float]:
    """The nats of parts that hint at the labels of held-out texts, and of ten times as many beside them."""
    held = made.targets(Texts.of(texts))
    targets = np.concatenate([held, np.tile(held, 10)])
    numbers = {name: place for place, name in enumerate(("tfidf", "vectors", NETWORK))}
    scores = {name: _noisy(targets, hint, numbers[name]) for name, hint in hints.items()}
    monkeypatch.setattr(ClassifyPredictor, "raw_scores", lambda state, sides, name: scores[name][: len(held)])
    made.metadata.temperature = {"tfidf": 1.0, "vectors": 1.0}
    counted = {name: Unseen(own, targets) for name, own in scores.items() if name != NETWORK}
    return choose_blend(made, FoldedTexts.of(made, Texts.of(texts)), counted)


def test_counting_models_are_pooled_where_the_network_says_nothing(
    blended: ClassifyPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    nats = _weighed(blended, monkeypatch, {"tfidf": 1.0, "vectors": 1.0, NETWORK: -0.5})
    weights = blended.metadata.blend or {}
    assert weights[NETWORK] == 0 and min(weights["tfidf"], weights["vectors"]) > 0.5
    assert nats["blend"] < min(nats["tfidf"], nats["vectors"])
    decide(blended, nats)
    assert blended.model_name == "blend"


@pytest.mark.parametrize(("hint", "chosen"), [(0.0, "tfidf"), (-2.0, "majority")])
def test_one_answer_for_all_texts_has_to_be_earned(
    blended: ClassifyPredictor, monkeypatch: pytest.MonkeyPatch, hint: float, chosen: str
) -> None:
    targets = np.tile(blended.targets(Texts.of(HELD)), 11)
    monkeypatch.setattr(
        ClassifyPredictor, "raw_scores", lambda state, sides, name: _noisy(targets, 0.0, 3)[: len(HELD)]
    )
    counted = {"tfidf": Unseen(_noisy(targets, hint, 0), targets), "majority": Unseen(_same(targets), targets)}
    blended.metadata.temperature = {"tfidf": 1.0 if hint else 100.0}  # what says nothing is warm
    nats = choose_blend(blended, FoldedTexts.of(blended, Texts.of(HELD)), counted)
    assert ("majority" in nats) is (chosen == "majority")


def _same(targets: np.ndarray) -> np.ndarray:
    return np.tile([[0.3, 0.2, 0.1]], (len(targets), 1))


def test_a_network_that_knows_more_has_its_part(blended: ClassifyPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = _weighed(blended, monkeypatch, {"tfidf": 1.0, "vectors": 1.0, NETWORK: -0.5})
    nats = _weighed(blended, monkeypatch, {"tfidf": 1.0, "vectors": 1.0, NETWORK: 3.0})
    assert (blended.metadata.blend or {})[NETWORK] > 0 and nats["blend"] < alone["blend"]


def test_few_texts_say_nothing_of_a_network(blended: ClassifyPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    hints = {"tfidf": 1.0, "vectors": 1.0, NETWORK: 3.0}
    for count, joins in ((24, False), (25, True)):
        _weighed(blended, monkeypatch, hints, HELD[:count])
        assert ((blended.metadata.blend or {})[NETWORK] > 0) == joins


def test_a_blend_aligns_pairs_unless_a_pooling_is_set() -> None:
    texts = Texts.of(pairs(40, 0))
    made, own = (
        ClassifyPredictor("blend", settings={"epochs": 1, "hidden": 4, "head": 4, **more}, device="cpu")
        for more in ({}, {"pooling": "mean"})
    )
    for each in (made, own):
        for _ in each.fit(texts):
            pass
    assert (made.settings.pooling, made.settings.tuned) == (ALIGNMENT, False)  # type: ignore[union-attr]
    assert (own.settings.pooling, own.settings.tuned) == ("mean", True)  # type: ignore[union-attr]
