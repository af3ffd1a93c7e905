"""Ranking measures: goldens, ties, the literal loop, scikit-learn."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, top_k_accuracy_score

from ensue import metrics
from tests.oracles import measures as oracles

AT = (1, 3, 10)


def random_scores(
    seed: int, num: int = 60, candidates: int = 12, *, tied: bool = False
) -> tuple[metrics.Floats, npt.NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    scores = random.integers(0, 4, (num, candidates)) if tied else random.normal(size=(num, candidates))
    return scores.astype(np.float64), random.integers(0, candidates, num)


def test_ranks_by_hand() -> None:
    scores = np.array([[0.1, 0.7, 0.2], [0.1, 0.7, 0.2], [0.1, 0.7, 0.2], [0.5, 0.5, 0.1]])
    # 0.7 is best; 0.2 second; 0.1 last; of two at 0.5 the target stands below the other.
    assert metrics.ranks(scores, np.array([1, 2, 0, 0])).tolist() == [1, 2, 3, 2]


def test_a_constant_scorer_earns_the_last_rank() -> None:
    assert metrics.ranks(np.zeros((5, 12)), np.arange(5)).tolist() == [12] * 5


def test_a_ruled_out_target_ranks_last_and_a_ruled_out_candidate_is_no_rival() -> None:
    scores = np.array([[-np.inf, 1.0, 0.0], [-np.inf, 1.0, 0.0]])
    assert metrics.ranks(scores, np.array([0, 2])).tolist() == [3, 2]


def test_what_is_no_number_ranks_last_and_above_any_target() -> None:
    scores = np.array([[np.nan, 1.0, 0.0], [np.nan, 1.0, 0.0], [np.nan] * 3])
    # the target is no number: all three stand above it; a rival that is no number stands above the target
    assert metrics.ranks(scores, np.array([0, 1, 2])).tolist() == [3, 2, 3]
    rivals = np.array([[1, 2], [0, 2], [0, 1]])
    assert metrics.sampled_ranks(scores, np.array([0, 1, 2]), rivals).tolist() == [3, 2, 3]


def test_values_by_hand() -> None:
    # Rank 1: everything is 1. Rank 3: 1/3, beyond 1, within 3 and 10 with gain 1 / log2 4 = 1/2. A miss: nothing.
    third = [1 / 3, 0.0, 0.0, 0.0, 1.0, 1 / 3, 0.5, 1.0, 1 / 3, 0.5]
    columns = metrics.rank_metrics(np.array([1, 3, metrics.MISS]), AT)
    found = np.stack([*columns.values()], axis=1)
    np.testing.assert_allclose(found, np.array([[1.0] * 10, third, [0.0] * 10]), rtol=0, atol=1e-15)
    assert list(columns)[:5] == ["mrr", "hit@1", "mrr@1", "ndcg@1", "hit@3"]


@pytest.mark.parametrize("long_row", [0, 2048])
@pytest.mark.parametrize("tied", [False, True])
def test_ranks_and_values_equal_the_loop(tied: bool, long_row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "LONG_ROW", long_row)
    scores, targets = random_scores(1, tied=tied)
    found = metrics.ranks(scores, targets)
    expected = [oracles.rank(row, target) for row, target in zip(scores.tolist(), targets.tolist(), strict=True)]
    assert found.tolist() == expected
    values = np.array([oracles.measures(rank, AT) for rank in expected])
    np.testing.assert_allclose(np.stack([*metrics.rank_metrics(found, AT).values()], axis=1), values)


def test_equals_scikit_learn_without_ties() -> None:
    scores, targets = random_scores(2)
    rank = metrics.ranks(scores, targets)
    truth = np.eye(scores.shape[1])[targets]
    for k in AT:
        accuracy = top_k_accuracy_score(targets, scores, k=k, labels=np.arange(scores.shape[1]))
        assert metrics.hit(rank, k).mean() == pytest.approx(accuracy, abs=1e-12)
        assert metrics.gain(rank, k).mean() == pytest.approx(ndcg_score(truth, scores, k=k), abs=1e-12)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 40), st.integers(1, 40))
def test_no_measure_falls_as_k_grows(ranks: list[int], one: int, other: int) -> None:
    low, high = sorted((one, other))
    rank = np.array(ranks, np.float64)
    for measure in (metrics.hit, metrics.reciprocal_rank, metrics.gain):
        assert (measure(rank, low) <= measure(rank, high)).all()
        assert (measure(rank, high) <= 1).all()
    assert (metrics.reciprocal_rank(rank, low) <= metrics.gain(rank, low)).all()  # log2(r + 1) <= r
    assert (metrics.gain(rank, low) <= metrics.hit(rank, low)).all()
