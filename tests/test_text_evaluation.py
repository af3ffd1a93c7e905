"""The evaluator of texts: figures by hand and against scikit-learn, intervals, the paired test, what the card says."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import accuracy_score, f1_score, log_loss, precision_recall_fscore_support

from ensue import DataError, Text, metrics
from ensue.data.texts import Texts
from ensue.evaluation import bootstrap, comparison
from ensue.evaluation.classify import METRICS
from ensue.evaluation.comparison import compare, evaluate
from ensue.evaluation.result import Result
from ensue.predictor import load, make
from ensue.registry import task_of
from ensue.tasks.classify.predictor import ClassifyPredictor

TRAIN = [Text((f"good {word}",), "a") for word in "uvwxyz"] + [Text((f"bad {word}",), "b") for word in "uvwxy"]
Scores = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


@cache
def learned(model: str, records: tuple[Text, ...]) -> ClassifyPredictor:
    predictor = ClassifyPredictor(model, settings={}, device="cpu")
    for _ in predictor.fit(Texts.of(records), Texts.of(records)):
        pass
    return predictor


def fitted(model: str = "tfidf", records: Sequence[Text] = TRAIN) -> ClassifyPredictor:
    """A predictor that a test may change."""
    return deepcopy(learned(model, tuple(records)))


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick, where no interval or p-value is looked at."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 50)


def planted(
    monkeypatch: pytest.MonkeyPatch, ours: Sequence[float], counted: Sequence[float], majority: float = 0.4
) -> ClassifyPredictor:
    """A "centrality" whose probabilities of label a are given, beside a tfidf of the same kind and a majority."""
    predictor = fitted()
    predictor.model_name = "centrality"
    shares = {"centrality": np.array(ours), "tfidf": np.array(counted), "majority": np.full(len(ours), majority)}

    def scores(texts: Texts, counting: str | None = None) -> np.ndarray[Any, np.dtype[np.float64]]:
        own = shares[counting or "centrality"]
        return np.stack([own, 1 - own], axis=1)

    monkeypatch.setattr(predictor, "scores", scores)
    monkeypatch.setattr(comparison, "reads_others", lambda *_: "")  # what it predicts is not planted
    return predictor


def texts(labels: str, groups: Sequence[int] | None = None) -> Texts:
    """One text a label."""
    found = Texts.of([Text((f"good {place}",), label) for place, label in enumerate(labels)])
    return Texts(found.texts, found.labels, None, None if groups is None else pl.Series(map(str, groups)))


def test_figures_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right, wrong, right, right, and a label that was never learned."""
    predictor = planted(monkeypatch, [0.9, 0.4, 0.3, 0.2, 0.6], [0.9] * 5)
    row = evaluate(predictor, texts("aabbc")).rows[0]
    assert row.figures["accuracy"] == 3 / 5
    # F1 = 2 right / (given + true): a 2 / (2 + 2), b 4 / (3 + 2), c 0.
    assert row.figures["macro_f1"] == pytest.approx((0.5 + 0.8 + 0) / 3)
    # Surest labels .9 .6 .7 .8 .6; both wrong ones share a bin: |.9 - 1| + |.6 + .6 - 0| + |.7 - 1| + |.8 - 1| = 1.8.
    assert row.figures["calibration_error"] == pytest.approx(1.8 / 5)
    never = np.finfo(float).eps
    expected = -(math.log(0.9) + math.log(0.4) + math.log(0.7) + math.log(0.8) + math.log(never)) / 5
    assert row.figures["log_loss"] == pytest.approx(expected)
    assert row.notes["labels"] == {
        "a": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "texts": 2},
        "b": {"precision": pytest.approx(2 / 3), "recall": 1.0, "f1": pytest.approx(0.8), "texts": 2},
        "c": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "texts": 1},
    }


def test_measures_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    targets, shares = random.integers(0, 4, 200), random.dirichlet(np.ones(5), 200)
    given = shares.argmax(1)
    counts = metrics.label_counts(given, targets, 5)
    assert (given == targets).mean() == accuracy_score(targets, given)
    assert metrics.macro_f1(counts) == pytest.approx(f1_score(targets, given, average="macro"))
    expected = precision_recall_fscore_support(targets, given, labels=np.arange(5), zero_division=0)
    assert metrics.precision_recall_f1(counts) == pytest.approx(np.stack(expected[:3]))
    own = shares[np.arange(200), targets]
    assert metrics.log_loss(own).mean() == pytest.approx(log_loss(targets, shares, labels=np.arange(5)))


def answers(right: Sequence[bool]) -> list[float]:
    """Probabilities of a for texts that are all a."""
    return [0.8 if one else 0.3 for one in right]


def outcomes(num: int, ours: int, theirs: int) -> tuple[list[float], list[float]]:
    """Of so many texts, some that only we have right, some that only counting has; the others both have right."""
    return (
        answers([place < ours or place >= ours + theirs for place in range(num)]),
        answers([place >= ours for place in range(num)]),
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (30, 10, "centrality is significantly better than tfidf (best of 2 baselines): accuracy +10.00 points (95 "),
        (10, 30, "tfidf (best of 2 baselines) is significantly better than centrality: accuracy +10.00 points (95 "),
        (12, 8, "centrality and tfidf (best of 2 baselines) do not differ significantly: accuracy +2.00 points (9"),
        (9, 9, "centrality and tfidf (best of 2 baselines) do not differ significantly: accuracy +0.00 points (9"),
    ],
)  # fmt: skip
def test_the_verdict_is_paired_and_names_the_winner(
    monkeypatch: pytest.MonkeyPatch, ours: int, theirs: int, verdict: str
) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1000)
    result = evaluate(planted(monkeypatch, *outcomes(200, ours, theirs)), texts("a" * 200))
    assert result.verdict.startswith(verdict)
    assert result.winner == {30: "centrality", 10: "tfidf"}.get(ours)
    assert result.beats_baselines is (ours == 30)
    # McNemar: z = (30 - 10) / sqrt(40) = 3.16, p = 0.002; (12 - 8) / sqrt(20) = 0.89, p = 0.37. Alike: p = 1.
    expected = {30: 0.002, 10: 0.002, 12: 0.37, 9: 1.0}[ours]
    assert result.p_value == pytest.approx(expected, abs=0.01 if expected < 0.1 else 0.08)


def test_counting_alone_has_no_network_to_beat() -> None:
    result = evaluate(fitted(), Texts.of(TRAIN))
    assert [row.model for row in result.rows] == ["tfidf", "majority"]
    assert (result.model, result.winner, result.beats_baselines) == (None, None, False)
    assert result.verdict == (
        "only baselines were scored: tfidf (best of 2 baselines) has the highest accuracy (100.00 %); only baselines "
        "were scored: tfidf (best of 2 baselines) has the highest macro F1 (100.00 %)"
    )


def test_intervals_are_those_of_a_share_and_hold_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1000)
    right = [place % 5 > 0 for place in range(400)]
    result = evaluate(planted(monkeypatch, answers(right), answers(right)), texts("a" * 400))
    low, high = result.rows[0].interval["accuracy"]
    assert (high - low) / 2 == pytest.approx(1.96 * math.sqrt(0.8 * 0.2 / 400), rel=0.1)  # binomial
    for row in result.rows:
        assert list(row.figures) == list(row.interval) == list(METRICS)
        for name, (low, high) in row.interval.items():
            assert low <= row.figures[name] <= high, (row.model, name)


@pytest.mark.parametrize("kind", ["groups", "pairs"])
def test_what_belongs_together_is_drawn_together(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Twenty texts a group are all right or all wrong: as good as one text a group, so sqrt(20) times as wide."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1000)
    right, groups = [place // 20 % 5 > 0 for place in range(400)], [place // 20 for place in range(400)]
    widths = []
    for data in (texts("a" * 400), texts("a" * 400, groups)):
        predictor = planted(monkeypatch, answers(right), answers(right))
        if kind == "pairs" and data.groups is not None:
            data = Texts((data.groups, data.texts[0]), data.labels)
            predictor.metadata.paired = True
        result = evaluate(predictor, data)
        low, high = result.rows[0].interval["accuracy"]
        widths.append(high - low)
    assert widths[1] / widths[0] == pytest.approx(math.sqrt(20), rel=0.15)
    what = "whole groups" if kind == "groups" else "first texts with all their pairs"
    assert result.card["interval"].startswith(f"95 %, 1000 resamples of {what}, 20 in all")


def test_a_row_that_is_not_above_the_majority_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = [0.4] * 30 + [0.9] * 70, [0.9] * 60 + [0.2] * 40
    result = evaluate(planted(monkeypatch, ours, theirs, 0.6), texts("a" * 60 + "b" * 40))
    centrality, tfidf, majority = result.rows
    assert centrality.figures["accuracy"] == 0.3 and tfidf.figures["accuracy"] == 1.0
    assert centrality.warning == (
        "centrality: accuracy 30.00 % is not significantly above 60.00 %, that of always predicting the "
        "most frequent label"
    )
    assert centrality.to_dict()["at_chance_level"] is True and tfidf.warning == majority.warning == ""


def test_the_card_counts_what_would_spoil_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [Text(("GOOD  u",), "a"), Text(("good nothing",), "b"), Text(("who? why?",), "new"), Text(("",), "a")]
    card = evaluate(fitted(), Texts.of(asked)).card
    assert card["data"] == "4 texts"
    assert card["labels"] == "a 2, b 1, new 1; 1 (25.0 %) have a label unseen in training and count as wrong"
    assert card["leaked"] == "1 (25.0 %) are in the training data, ignoring case and spaces"
    assert card["unknown"] == "2 (50.0 %) have no word in the vocabulary; 1 of these are empty"
    assert card["interval"] == "95 %, 50 resamples of texts"
    assert card["significance"] == (
        "paired and two-sided, on the same resamples; significant is p < .05; the best model and the best baseline are "
        "chosen by their metrics on this test data"
    )


def test_seeds_are_averaged_and_counting_stands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = texts("aaaabbbb")
    seeds = [planted(monkeypatch, [share] * 8, [0.9] * 8) for share in (0.9, 0.1)]  # all a, all b
    alone = [evaluate(predictor, data).rows[0].figures for predictor in seeds]
    result = compare([seeds, [fitted("majority")]], data)
    assert [row.model for row in result.rows] == ["centrality", "majority", "tfidf"]
    for name, value in result.rows[0].figures.items():
        assert value == pytest.approx((alone[0][name] + alone[1][name]) / 2), name
    assert [row.notes.get("seeds", 1) for row in result.rows] == [2, 1, 2]  # the counting row of each network, too
    assert result.rows[0].notes["labels"]["a"]["recall"] == 0.5
    assert result.rows[0].notes["labels"]["a"]["texts"] == 4


def test_models_that_know_other_labels_are_scored_on_the_same_ones() -> None:
    one, other = fitted(), fitted(records=[*TRAIN, *(Text((f"fine {word}",), "0") for word in "uvwxy")])
    data = Texts.of([Text(("good",), "a"), Text(("fine",), "0"), Text(("bad",), "b")])
    first, second = compare([[other], [one]], data), compare([[one], [other]], data)
    assert [row.figures["accuracy"] for row in first.rows[:2]] == [1.0, pytest.approx(2 / 3)]
    assert [row.figures for row in second.rows[:2]] == [row.figures for row in first.rows[1::-1]]


def test_json_form() -> None:
    found = json.loads(json.dumps(evaluate(fitted(), Texts.of(TRAIN)).to_dict()))
    assert list(found) == [
        *(
            "task",
            "protocol",
            "rows",
            "paired_tests",
            "best_baseline",
            "beats_baselines",
            "winner",
            "p_value",
            "verdict",
        ),
    ]
    assert list(found["rows"][0]) == ["model", *METRICS, "interval", "seconds_per_1000", "labels"]
    assert found["task"] == "classify" and list(found["rows"][0]["labels"]) == ["a", "b"]


def test_the_same_question_twice_gives_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, data = planted(monkeypatch, *outcomes(60, 9, 4)), texts("a" * 60)
    one, two = evaluate(predictor, data), evaluate(predictor, data)
    assert [row.interval for row in one.rows] == [row.interval for row in two.rows] and one.p_value == two.p_value


def test_the_card_of_a_folder_tells_facts_and_scores() -> None:
    predictor = fitted()
    before, result = predictor.card(), evaluate(predictor, Texts.of(TRAIN))
    assert before.startswith("# tfidf for task classify\n") and "- labels: a, b\n" in before
    assert "None yet: run `ensue evaluate FOLDER TEST`." in before and "remembered=0` stores none" in before
    after = predictor.card(result.card_text())
    assert isinstance(result, Result) and result.verdict in after
    row = result.rows[0]
    half = (row.interval["log_loss"][1] - row.interval["log_loss"][0]) / 2
    assert f" | {row.figures['log_loss']:.3f} ± {half:.3f} |" in after  # nats, not x 100
    assert "| tfidf | 100.00 ± 0.00 | 100.00 ± 0.00 |" in after


def test_make_and_load_know_the_task(tmp_path: Path) -> None:
    assert isinstance(make("classify", "majority"), ClassifyPredictor)
    fitted("majority").save(tmp_path / "m")
    assert isinstance(load(tmp_path / "m"), ClassifyPredictor) and task_of(tmp_path / "m") == "classify"


def test_refusals() -> None:
    predictor = fitted()
    for data, message in (
        (Texts.of([]), "nothing to score: there are no texts"),
        (Texts.of([Text(("good",))]), "the texts have no labels; name the column, such as label=COLUMN"),
        (
            Texts.of([Text(("good", "bad"), "a")]),
            "these are pairs, but the model was trained on single texts; give single texts",
        ),
    ):
        with pytest.raises(DataError) as error:
            evaluate(predictor, data)
        assert str(error.value) == message


def test_the_verdict_names_rare_labels_and_goes_by_macro_f1_where_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty texts of a and two of b: always saying a is right more often than a model that finds one b."""
    predictor = planted(monkeypatch, [0.9] * 17 + [0.1] * 4 + [0.9], [0.9] * 22, majority=0.9)
    data = texts("a" * 20 + "b" * 2)
    result = evaluate(predictor, data)
    parts = result.verdict.split("; ")
    assert (result.paired_tests[0].measure, result.paired_tests[1].measure) == ("accuracy", "macro_f1")
    assert ": accuracy +" in parts[0] and ": macro F1 +" in parts[1]
    assert parts[-1] == "mean recall of rare labels (b 2): centrality 50.00, tfidf 0.00"
    predictor.shared = replace(predictor.shared, metric="macro-f1")
    assert [duel.measure for duel in evaluate(predictor, data).paired_tests] == ["macro_f1", "accuracy"]
