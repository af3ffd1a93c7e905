"""Where a list without labels stops: the walk by hand, planted lists, and the real sets' test parts."""

from __future__ import annotations

import numpy as np
import pytest

from ensue.tasks.link.cut import BACKGROUNDS, MIN_POSTS, TAILS, Background, placed, suggested_cut, walked_cut

FLAT = Background(1.0, tuple(float(np.log(1 - tail)) for tail in TAILS), 0.0, 0.0, 0.5, 2.0)
"""Scores of the background are uniform between 0 and 1."""


def test_the_walk_by_hand() -> None:
    # Of 100 posts k score at least s, where 100 (1 - s) of the background are expected; gained is k - 200 (1 - s):
    # .998: 1 - .4 = .6; .995: 2 - 1 = 1; .994: 3 - 1.2 = 1.8; .98: 4 - 4 = 0; then ever less.
    scores = np.concatenate([[0.998, 0.995, 0.994, 0.98], np.linspace(0.01, 0.9, 96)])
    assert walked_cut(scores, FLAT) == 0.994
    # Nothing is gained where all is background: the first post alone.
    assert walked_cut(np.linspace(0.005, 0.995, 100), FLAT) == 0.995


def test_the_survival_goes_through_its_points_and_falls_beyond_them() -> None:
    for known in BACKGROUNDS.values():
        assert known.survival(np.array(known.points)) == pytest.approx(TAILS)
        beyond = known.survival(np.linspace(known.points[-1], known.points[-1] + 2, 50))
        assert (np.diff(beyond) < 0).all() and beyond[-1] < 1e-4
        assert known.survival(np.array([-30.0])) == 1


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_a_planted_story_is_cut_out(share: float) -> None:
    random = np.random.default_rng(0)
    true = np.arange(600) < 600 * share
    scores = np.exp(random.normal(np.where(true, np.log(0.4), np.log(0.07)), 0.3))
    found = suggested_cut(scores, "best")
    assert found is not None and found.min_posts <= found.posts <= found.max_posts
    assert found.low < found.cut < found.high
    chosen = scores >= found.cut
    assert 2 * (chosen & true).sum() / (chosen.sum() + true.sum()) > 0.95


def test_a_cut_moves_with_the_scale_of_the_corpus() -> None:
    """By a score without a scale of its own, lists that differ by a factor are cut at the same place."""
    scores = np.exp(np.random.default_rng(0).normal(0, 0.5, 400))
    free = Background(0.0, BACKGROUNDS["tfidf"].points, 0.0, 0.0, 0.5, 2.0)
    assert walked_cut(7 * scores, free) == pytest.approx(7 * walked_cut(scores, free))
    assert placed(7 * scores, 0.0) == pytest.approx(placed(scores, 0.0))


def test_nothing_is_said_where_nothing_is_known() -> None:
    scores = np.random.default_rng(0).random(MIN_POSTS)
    assert suggested_cut(scores, "best") is not None
    assert suggested_cut(scores[:-1], "best") is None
    assert suggested_cut(scores, "sbert") is None
    assert suggested_cut(np.zeros(100), "best") is None
    assert suggested_cut(np.append(np.zeros(100), 0.5), "tfidf") is not None
