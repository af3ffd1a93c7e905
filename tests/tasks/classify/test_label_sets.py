"""Texts with several labels: each label has a probability and a threshold of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MultiLabelBinarizer

from ensue import DataError, Text, TextClassifier
from ensue.data.texts import Texts
from ensue.evaluation.comparison import evaluate
from ensue.metrics import micro_f1, set_counts
from ensue.records import labels_text
from ensue.tasks.classify.calibration import thresholds
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.text import linear

TOPICS = {"sea": "ferry harbour sail", "road": "bus bridge lane", "sky": "plane airport wing"}


def texts_of(num: int, seed: int = 0) -> Texts:
    """Return texts that hold a word of each of their topics; some have no topic."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(num):
        topics = [topic for topic in TOPICS if random.random() < 0.4]
        words = [str(random.choice(TOPICS[topic].split())) for topic in topics]
        texts.append(" ".join([*words, str(random.choice(["today", "again", "late"]))]))
        labels.append(topics)
    return Texts((pl.Series(texts),), pl.Series(labels, dtype=pl.List(pl.String)))


def fitted(texts: Texts) -> ClassifyPredictor:
    predictor = ClassifyPredictor("tfidf", device="cpu")
    for _ in predictor.fit(texts):
        pass
    return predictor


def test_weights_are_those_of_one_regression_per_label() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(60, 4))
    targets = (rows[:, :3] + random.normal(size=(60, 3)) > 0).astype(np.int64)
    fitted, _ = linear.fit(rows, targets, 3, strength=2.0, start=linear.zeros(4, 3))
    for label in range(3):
        expected = LogisticRegression(C=2.0, tol=1e-8).fit(rows, targets[:, label])
        assert fitted.weight[:, label] == pytest.approx(expected.coef_[0], abs=1e-4)
        assert fitted.bias[label] == pytest.approx(expected.intercept_[0], abs=1e-4)


def test_thresholds_have_the_highest_f1() -> None:
    probabilities = np.array([[0.9, 0.2], [0.3, 0.1], [0.25, 0.05], [0.1, 0.01]]).repeat(100, axis=0)
    targets = np.array([[1, 1], [1, 0], [0, 0], [0, 0]]).repeat(100, axis=0)
    first, second = thresholds(probabilities, targets)
    assert 0.25 < first <= 0.3
    assert 0.1 < second <= 0.2
    assert thresholds(probabilities, np.zeros_like(targets)).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("model", ["tfidf", "best"])
def test_fit_save_and_load(tmp_path: Path, model: str) -> None:
    predictor = ClassifyPredictor(model, device="cpu")
    for _ in predictor.fit(texts_of(200)):
        pass
    assert predictor.labels == ["road", "sea", "sky"]
    test = texts_of(100, seed=1)
    probabilities = predictor.scores(test)
    predicted = predictor.predicted_sets(probabilities)
    targets = predictor.targets(test).astype(np.bool_)
    assert micro_f1(set_counts(predicted, targets)) > 0.97
    assert not np.allclose(probabilities.sum(1), 1)
    predictor.save(tmp_path / "m")
    assert ClassifyPredictor.load(tmp_path / "m").scores(test) == pytest.approx(probabilities, abs=1e-6)


@pytest.fixture(scope="module")
def blended() -> ClassifyPredictor:
    """A blend whose network has a weight: it reads pairs of words that mean a label only together."""
    predictor = ClassifyPredictor("blend", settings={"epochs": 12, "dim": 16, "hidden": 16}, device="cpu")
    for _ in predictor.fit(texts_of(300)):
        pass
    return predictor


def test_a_blend_pools_the_odds_of_each_label(blended: ClassifyPredictor, tmp_path: Path) -> None:
    assert blended.model_name == "blend" and blended.metadata.blend is not None
    weights = blended.metadata.blend
    test = texts_of(100, seed=1)
    sides = blended.encode(test)
    odds = sum(weight * blended.raw_scores(sides, name) for name, weight in weights.items())
    expected = 1 / (1 + np.exp(-np.asarray(odds)))
    probabilities = blended.scores(test)
    has_words = probabilities[np.array([len(text.split()) for text in test.texts[0]]) > 0]
    assert probabilities == pytest.approx(expected, abs=1e-6) and len(has_words)
    predicted = blended.predicted_sets(probabilities)
    assert micro_f1(set_counts(predicted, blended.targets(test).astype(np.bool_))) > 0.97
    assert {"blend", "network", "tfidf"} <= {*blended.metadata.thresholds}
    blended.save(tmp_path / "m")
    assert ClassifyPredictor.load(tmp_path / "m").scores(test) == pytest.approx(probabilities, abs=1e-6)
    rows = [row.model for row in evaluate(blended, test).rows]
    assert rows[0] == "blend" and "tfidf" in rows


def test_a_blend_explains_each_predicted_label(blended: ClassifyPredictor) -> None:
    (explanation,) = blended.explain([Text(("the ferry and the airport",))])
    assert explanation.answer.labels is not None and {*explanation.answer.labels} == {"sea", "sky"}
    words = {choice.value: choice.attributions for choice in explanation.answer.choices}
    for label, word in (("sea", "ferry"), ("sky", "airport")):
        largest = max(words[label], key=lambda attribution: attribution.score_drop or 0.0)
        assert largest.value == word and (largest.score_drop or 0.0) > 0.3
    assert words["road"] == ()


def test_networks_have_a_sigmoid_for_each_label() -> None:
    predictor = ClassifyPredictor("centrality", settings={"epochs": 12, "dim": 16}, device="cpu")
    for _ in predictor.fit(texts_of(300)):
        pass
    test = texts_of(100, seed=1)
    predicted = predictor.predicted_sets(predictor.scores(test))
    targets = predictor.targets(test).astype(np.bool_)
    assert micro_f1(set_counts(predicted, targets)) > 0.9


def test_each_predicted_label_has_its_own_words() -> None:
    predictor = fitted(texts_of(300))
    (answer,) = predictor.predict([Text(("the ferry and the airport",))])
    assert answer.labels == ("sea", "sky")
    words = {choice.value: choice.attributions[0].value for choice in answer.choices[:2]}
    assert words == {"sea": "ferry", "sky": "airport"}
    assert answer.choices[2].attributions == ()
    (nothing,) = predictor.predict([Text(("late",))])
    assert nothing.labels == ()


def test_evaluation_compares_with_the_most_frequent_labels() -> None:
    result = evaluate(fitted(texts_of(300)), texts_of(150, seed=1))
    rows = {row.model: {**row.figures, **row.notes} for row in result.rows}
    assert list(rows) == ["tfidf", "majority"]
    for metric in ("micro_f1", "macro_f1", "subset_accuracy", "lrap"):
        assert rows["tfidf"][metric] > 0.97 > rows["majority"][metric]
    assert rows["tfidf"]["calibration_error"] < 0.05
    assert rows["tfidf"]["labels"]["sea"]["recall"] == 1
    assert "labels per text" in result.card["labels"]


def test_texts_of_one_label_are_refused() -> None:
    predictor = fitted(texts_of(60))
    single = Texts((pl.Series(["a ferry", "a bus"]),), pl.Series(["sea", "road"]))
    with pytest.raises(DataError, match="trained on texts with several labels each; read the column"):
        evaluate(predictor, single)
    new = Texts((pl.Series(["a train"]),), pl.Series([["rail"]]))
    with pytest.raises(DataError, match="the label 'rail' is not a label of the model"):
        predictor.update(new)
    assert predictor.labels == ["road", "sea", "sky"] and predictor.metadata.updates == 0
    predictor.update(texts_of(20, seed=3))
    assert predictor.labels == ["road", "sea", "sky"] and predictor.metadata.updates == 1


def test_estimator_follows_scikit_learn() -> None:
    texts, sets = (
        ["the ferry", "the bus", "ferry and bus", "today"] * 20,
        [{"sea"}, {"road"}, {"road", "sea"}, set()] * 20,
    )
    model = TextClassifier("tfidf").fit(texts, sets)
    assert model.classes_.tolist() == ["road", "sea"]
    assert model.predict(["a ferry", "ferry, bus", "late"]).tolist() == [[0, 1], [1, 1], [0, 0]]
    assert model.predict_proba(["a ferry"]).shape == (1, 2)
    assert model.score(texts, sets) == 1
    matrix = MultiLabelBinarizer().fit_transform(sets)
    other = TextClassifier("tfidf").fit(texts, matrix)
    assert other.classes_.tolist() == [0, 1]
    assert (other.predict(texts) == matrix).all()
    assert other.score(texts, matrix) == 1
    shuffled = [texts[-1], *texts[:-1]]
    model.update(shuffled, sets)
    other.update(shuffled, matrix)
    assert (other.predict_proba(texts) == model.predict_proba(texts)).all()
    with pytest.raises(DataError, match="y is a matrix of other numbers than 0 and 1"):
        TextClassifier("tfidf").fit(texts, matrix * 2)


def test_records_hold_lists_of_labels() -> None:
    record = Text.from_json('{"texts": ["a film"], "label": ["good", 3]}')
    assert record.label == ("good", "3")
    assert Text.from_json(record.to_json()) == record
    assert list(Texts.of([record]).records()) == [record]
    with pytest.raises(DataError, match="give every text one label, or every text a list of labels"):
        Texts.of([record, Text(("b",), "good")])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([set()] * 8, "no text has a label; give texts of at least two labels"),
        ([{"sea", None}, {"road"}] * 4, "labels of several types, such as a text and None"),
        (
            pl.DataFrame({"sea": [0, 1] * 4, "road": [1, 0] * 4}),
            "y is a frame of 2 columns; give one column, or y.to_numpy",
        ),
    ],
)
def test_sets_of_no_labels_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TextClassifier("tfidf").fit(["the ferry", "the bus"] * 4, labels)
    assert labels_text({"sea", "air"}) == ("air", "sea")
