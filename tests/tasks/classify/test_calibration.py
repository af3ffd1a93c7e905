"""Temperature and calibration error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from ensue import Text
from ensue.data.texts import Texts
from ensue.evaluation import bootstrap
from ensue.evaluation.comparison import evaluate
from ensue.tasks.classify.calibration import calibration_error, temperature
from ensue.tasks.classify.cross_fitting import cross_entropy
from ensue.tasks.classify.predictor import ClassifyPredictor

COMMON = [f"word{place}" for place in range(20)]


def made(num_labels: int, num_texts: int, seed: int, noise: float = 0.15) -> Texts:
    """Return texts of two words of their label (with some noise, of any label) among three common words."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(num_texts) % num_labels)
    topics = np.where(random.random(num_texts) < noise, random.integers(0, num_labels, num_texts), labels)
    words = [
        [*(f"t{topic}{letter}" for letter in random.choice(list("abc"), 2)), *random.choice(COMMON, 3)]
        for topic in topics
    ]
    return Texts.of([Text((" ".join(own),), f"label{label}") for own, label in zip(words, labels, strict=True)])


def fitted(model: str, texts: Texts, **settings: object) -> ClassifyPredictor:
    predictor = ClassifyPredictor(model, settings=settings, device="cpu")
    for _ in predictor.fit(texts):
        pass
    return predictor


@pytest.mark.parametrize(("num_labels", "num_texts"), [(2, 200), (20, 400), (77, 770), (150, 2000)])
def test_probabilities_of_many_labels_are_calibrated(
    monkeypatch: pytest.MonkeyPatch, num_labels: int, num_texts: int
) -> None:
    """The smoothed target of a label with few held-out texts once drove the temperature up to 5, and ECE to 0.8."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 2)
    test = made(num_labels, 1000, seed=1)
    predictor = fitted("tfidf", made(num_labels, num_texts, seed=0), strength=1.0)
    row = evaluate(predictor, test).rows[0]
    predictor.metadata.temperature = {}
    raw = evaluate(predictor, test).rows[0]
    assert row.figures["accuracy"] == raw.figures["accuracy"] > 0.7
    assert row.figures["log_loss"] < raw.figures["log_loss"] + 0.01
    assert row.figures["calibration_error"] < min(0.15, raw.figures["calibration_error"] + 0.03)
    assert ("warnings" in row.to_dict()) == (row.figures["calibration_error"] > 0.1)


def test_probabilities_that_are_far_off_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 2)
    predictor = fitted("tfidf", made(20, 600, seed=0))
    predictor.metadata.temperature["tfidf"] = 5.0
    result = evaluate(predictor, made(20, 600, seed=1))
    error = result.rows[0].figures["calibration_error"]
    assert error > 0.5
    assert result.to_dict()["rows"][0]["warnings"] == [
        f"calibration error {error:.3f}: the probabilities do not match the accuracy"
    ]
    assert "warnings" not in result.to_dict()["rows"][1]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(2, 30), st.floats(-4, 4), st.floats(0, 3))
def test_calibration_never_raises_the_loss_of_the_texts_given(
    seed: int, num_texts: int, num_labels: int, scale: float, hint: float
) -> None:
    random = np.random.default_rng(seed)
    targets = random.integers(num_labels, size=num_texts)
    scores = random.normal(size=(num_texts, num_labels))
    scores = math.exp(scale) * (scores + hint * np.eye(num_labels)[targets])
    found = temperature(scores, targets)
    assert math.exp(-5) <= found <= math.exp(5)
    assert cross_entropy(scores / found, targets).mean() <= cross_entropy(scores, targets).mean() + 1e-12


def test_the_temperature_is_the_one_that_scipy_finds() -> None:
    random = np.random.default_rng(0)
    scores = 3 * random.normal(size=(400, 3))
    targets = (scores / 2.5 + random.gumbel(size=(400, 3))).argmax(1)  # drawn by their probabilities

    def loss(logarithm: float) -> float:
        return float(cross_entropy(scores / math.exp(logarithm), targets).sum()) + logarithm**2 / 2

    best = minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9})
    assert temperature(scores, targets) == pytest.approx(math.exp(best.x), rel=1e-5)
    assert 2.1 < temperature(scores, targets) < 3.1  # they were drawn at 2.5


def test_where_all_is_right_the_temperature_stays_finite() -> None:
    """Four texts, scores +-1, x = 1 / T: the slope of 4 ln(1 + e^(-2x)) + (ln x)^2 / 2 is 0, 8x / (1 + e^2x) = ln x."""
    scores, targets = np.array([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]]), np.array([0, 0, 1, 1])
    inverse = 1 / temperature(scores, targets)
    assert 8 * inverse / (1 + math.exp(2 * inverse)) == pytest.approx(math.log(inverse), rel=1e-9)
    weighed = temperature(scores, targets, np.array([1.0, 1.0, 0.0, 0.0]))
    assert weighed == pytest.approx(temperature(scores[:2], targets[:2]), rel=1e-9)


def test_nothing_to_go_by_leaves_the_scores_alone() -> None:
    assert temperature(np.zeros((0, 2)), np.zeros(0, np.int64)) == 1.0
    assert temperature(np.zeros((3, 2)), np.array([0, 1, 1])) == 1.0


def test_calibration_error_by_hand() -> None:
    # Two bins. (0, 0.5]: one text, sure 0.5, wrong: 0.5 apart. (0.5, 1]: 0.9 right, 0.8 wrong, 1 right: 2.7 against 2.
    shares = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [1.0, 0.0]])
    assert calibration_error(shares, np.array([1, 0, -1, 0]), bins=2) == pytest.approx((0.5 + 0.7) / 4)
    assert calibration_error(np.zeros((0, 2)), np.zeros(0, np.int64)) == 0.0
