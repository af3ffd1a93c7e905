"""Metrics of sets of labels are scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, label_ranking_average_precision_score

from ensue import metrics


@pytest.mark.parametrize("seed", range(5))
def test_metrics_of_sets_equal_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    targets = random.random((40, 6)) < random.random(6)
    targets[:2] = [[False] * 6, [True] * 6]
    scores = np.round(random.random((40, 6)) + targets / 2, 1)  # with ties
    predicted = scores > 0.8
    counts = metrics.set_counts(predicted, targets)
    assert metrics.micro_f1(counts) == pytest.approx(f1_score(targets, predicted, average="micro"))
    by_label = metrics.precision_recall_f1(counts)[2]
    assert by_label == pytest.approx(f1_score(targets, predicted, average=None, zero_division=0))
    assert metrics.subset_accuracy(predicted, targets).mean() == pytest.approx(accuracy_score(targets, predicted))
    expected = label_ranking_average_precision_score(targets, scores)
    assert metrics.label_ranking_precision(scores, targets).mean() == pytest.approx(expected)


def test_weights_of_sets_count_texts_as_often() -> None:
    random = np.random.default_rng(0)
    targets, predicted = (random.random((10, 3)) < 0.4 for _ in range(2))
    times = random.integers(0, 3, 10)
    weighted = metrics.set_counts(predicted, targets, times.astype(np.float64))
    assert weighted == pytest.approx(metrics.set_counts(predicted.repeat(times, axis=0), targets.repeat(times, axis=0)))
