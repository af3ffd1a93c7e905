"""The pool of network and counting: weights by hand and against SciPy, and what a blend answers."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from scipy.optimize import minimize

from ensue.data.texts import Texts
from ensue.evaluation.comparison import compare
from ensue.tasks.classify.ensembles.blend import choose_weights, pool, smoothed
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.text.linear import log_softmax, sigmoid
from tests.tasks.classify.contract import planted
from tests.tasks.classify.test_predictor import fitted


def _log(rows: list[list[float]]) -> np.ndarray:
    logs: np.ndarray = np.log(np.array(rows))
    return logs


def test_pool_by_hand() -> None:
    # 0.8^1 * 0.5^2 = 0.2 against 0.2^1 * 0.5^2 = 0.05: shares 0.8 and 0.2; then 0.6 * 0.9^2 = 0.486 against 0.004
    scores = {"network": _log([[0.8, 0.2], [0.6, 0.4]]), "tfidf": _log([[0.5, 0.5], [0.9, 0.1]])}
    found = np.exp(log_softmax(pool(scores, {"network": 1.0, "tfidf": 2.0})))
    assert found[0].tolist() == pytest.approx([0.8, 0.2])
    assert found[1].tolist() == pytest.approx([0.486 / 0.49, 0.004 / 0.49])


def test_weights_are_those_of_least_loss() -> None:
    random = np.random.default_rng(0)
    targets = random.integers(3, size=400)
    hint = np.eye(3)[targets]
    scores = {
        name: sharp * hint + random.normal(size=(400, 3))
        for name, sharp in (("network", 1.5), ("tfidf", 0.7), ("vectors", 0.3))
    }
    found = choose_weights(scores, targets)
    logs = np.stack([log_softmax(values) for values in scores.values()])
    wanted = smoothed(targets, 3)

    def loss(weights: np.ndarray) -> float:
        pooled = np.einsum("m,mtl->tl", weights, logs)
        return float((np.log(np.exp(pooled).sum(1)) - (wanted * pooled).sum(1)).sum())

    best = minimize(loss, np.full(3, 0.5), bounds=[(0, 8)] * 3)
    assert list(found.values()) == pytest.approx(best.x, abs=2e-3)


def test_pool_of_sets_by_hand() -> None:
    # Odds of 4 and of 2 to the powers 1 and 2: 4 * 2² = 16, a probability of 16 / 17.
    scores = {"network": np.log([[4.0, 1.0]]), "tfidf": np.log([[2.0, 1.0]])}
    found = sigmoid(pool(scores, {"network": 1.0, "tfidf": 2.0}, sets=True))
    assert found[0].tolist() == pytest.approx([16 / 17, 1 / 2])


def test_weights_of_sets_are_those_of_least_loss() -> None:
    random = np.random.default_rng(0)
    targets = (random.random((300, 4)) < 0.3).astype(np.int64)
    scores = {
        name: sharp * (2 * targets - 1) + random.normal(size=targets.shape)
        for name, sharp in (("network", 1.5), ("tfidf", 0.7))
    }
    found = choose_weights(scores, targets, {"network": 0.0, "tfidf": 1.0})

    def loss(weights: np.ndarray) -> float:
        odds = weights[0] * scores["network"] + weights[1] * scores["tfidf"]
        return float((np.logaddexp(0, odds) - odds * targets).sum() + ((weights - [0, 1]) ** 2).sum() / 2)

    best = minimize(loss, np.full(2, 0.5), bounds=[(0, 8)] * 2)
    assert list(found.values()) == pytest.approx(best.x, abs=2e-3)


def test_a_model_that_misleads_has_no_weight() -> None:
    targets = np.arange(90) % 3
    hint = np.eye(3)[targets]
    noise = np.random.default_rng(1).normal(size=(2, 90, 3)) / 2
    found = choose_weights({"network": hint + noise[0], "tfidf": noise[1] - hint}, targets)
    assert found["tfidf"] == 0 < found["network"]


def test_few_texts_leave_a_weight_near_where_it_was() -> None:
    # One text of two labels, whose label has the odds e^1: the slope of ln(1 + e^-w) + (w - 0)² / 2 is 0 where
    # w = 1 / (1 + e^w): w = 0.4010 gives 1 / 2.4933 = 0.4011.
    scores, targets = {"network": np.array([[1.0, 0.0]])}, np.zeros(1, np.int64)
    assert choose_weights(scores, targets, {"network": 0.0})["network"] == pytest.approx(0.4010, abs=2e-4)
    assert choose_weights({"network": np.zeros((0, 2))}, targets[:0], {"network": 0.25}) == {"network": 0.25}


def test_no_texts_no_preference() -> None:
    no_texts = {"network": np.zeros((0, 2)), "tfidf": np.zeros((0, 2))}
    assert choose_weights(no_texts, np.zeros(0, np.int64)) == {"network": 1.0, "tfidf": 1.0}


@pytest.fixture(scope="module")
def blended() -> ClassifyPredictor:
    return cast(ClassifyPredictor, fitted(planted(150, 0), "blend", planted(60, 1), epochs=4))


def test_a_blend_is_its_parts(blended: ClassifyPredictor) -> None:
    texts = Texts.of(planted(30, 2))
    sides, weights = blended.encode(texts), blended.metadata.blend or {}
    parts = [weight * log_softmax(blended.raw_scores(sides, name)) for name, weight in weights.items()]
    wanted = np.exp(log_softmax(np.sum(parts, axis=0) / blended.metadata.temperature["blend"]))
    assert blended.scores(texts) == pytest.approx(wanted)
    assert set(weights) == {"network", "tfidf"}


def test_words_are_weighed_by_all_parts(blended: ClassifyPredictor) -> None:
    own, records = blended.metadata.blend or {}, planted(4, 3)
    whole = sum(own.values())

    def weights(parts: dict[str, float]) -> np.ndarray:
        blended.metadata.blend = parts
        found = blended.explain(records)
        return np.array([np.array(one.passages[0].weights)[:3] for one in found])

    both, network, counted = weights(own), weights({"network": whole}), weights({"tfidf": whole})
    blended.metadata.blend = own
    share = own["tfidf"] / whole
    assert both == pytest.approx(network * (1 - share) + counted * share, abs=1e-6)


def test_the_referee_shows_the_network_alone(blended: ClassifyPredictor) -> None:
    found = compare([[blended]], Texts.of(planted(40, 4)))
    assert [row.model for row in found.rows] == ["blend", "network", "tfidf", "majority"]


def test_the_network_row_is_of_the_seeds_that_have_one(blended: ClassifyPredictor) -> None:
    data = Texts.of(planted(40, 4))
    counted = cast(ClassifyPredictor, fitted(planted(150, 0), "tfidf"))
    rows = {row.model: row for row in compare([[blended, counted]], data).rows}
    alone = {row.model: row for row in compare([[blended]], data).rows}
    assert rows["blend"].notes["seeds"] == 2 and "seeds" not in rows["network"].notes
    assert rows["network"].figures == alone["network"].figures
