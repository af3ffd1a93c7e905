"""Re-ranking beside scikit-learn's logistic regression, and labels that come in any order."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ensue.metrics import Floats
from ensue.tasks.link.review.reranker import STRENGTH, ReviewReranker
from ensue.text.sparse import SparseRows, sparse_rows


def rows(seed: int, num: int = 40, width: int = 15) -> tuple[SparseRows, Floats]:
    random = np.random.default_rng(seed)
    dense: Floats = random.random((num, width)) * (random.random((num, width)) < 0.3)
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    owners, columns = np.nonzero(dense)
    return sparse_rows(owners, columns, dense[owners, columns], dense.shape), dense


def test_without_labels_the_order_is_the_models() -> None:
    start = np.array([1.0, 3, 2])
    sparse = sparse_rows(np.arange(3), np.arange(3), np.ones(3), (3, 3))
    assert ReviewReranker(start, sparse).odds(np.empty(0, np.int64), np.empty(0, bool)).tolist() == start.tolist()


def test_the_weights_are_scikit_learns() -> None:
    sparse, dense = rows(0)
    random = np.random.default_rng(2)
    start = np.zeros((40, 2))  # scikit-learn knows no offset
    start[:, 1] = random.normal(size=40)
    read, labels = random.permutation(40)[:25], random.random(25) < 0.4
    found = ReviewReranker(start, sparse).odds(read, labels)
    # Its features: the row, the start (0 here), what else was said, and a one whose weight is held as the others are.
    model = LogisticRegression(C=STRENGTH, fit_intercept=False, tol=1e-10, max_iter=10_000)
    features = np.column_stack([dense, (start[:, 1] - start[:, 1].mean()) / start[:, 1].std(), np.ones(40)])
    expected = features @ model.fit(features[read], labels).coef_[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_labels_may_come_a_few_at_a_time() -> None:
    sparse, _ = rows(4)
    random = np.random.default_rng(5)
    start, read, labels = random.normal(size=40), random.permutation(40)[:30], random.random(30) < 0.5
    whole = ReviewReranker(start, sparse).odds(read, labels)
    ranking = ReviewReranker(start, sparse)
    for end in (7, 20, 30):
        found = ranking.odds(read[:end], labels[:end])
    assert found == pytest.approx(whole, abs=1e-5)
    assert found[read][labels].mean() > found[read][~labels].mean()
