"""A story's ranking beside its definition over the whole table of scores, which is never held."""

from __future__ import annotations

import numpy as np
import pytest

from ensue.data.posts import Posts
from ensue.tasks.link import scores as scoring
from ensue.tasks.link.measures import at_cut
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.ranked import rank
from tests.tasks.link.checks import NAMES, planted, post


def test_the_best_article_of_each_post_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted()
    posts = Posts.of([*(post(name, number) for name in NAMES for number in range(3)), post("ferry", 9, about=False)])
    predictor = LinkPredictor.untrained(data.articles, posts)
    whole = predictor.scores(posts).whole()
    monkeypatch.setattr(scoring, "_CELLS", 5 * len(data.articles))  # five posts a block
    found = rank(predictor, data.articles, posts, grouped=False)
    assert len([*predictor.scores(posts).blocks()]) == 8
    assert found.columns.tolist() == whole.argmax(1).tolist()
    assert found.scores.tolist() == whole.max(1).tolist()
    # What a cut of one half catches: each post under its own article, or else under the best.
    numbers, rows = posts.pairs(data.articles)[0].T
    related = np.zeros(whole.shape, bool)
    related[rows, numbers] = True
    own = np.where(related.any(1), related.argmax(1), whole.argmax(1))
    placed = np.full(whole.shape, -np.inf)
    placed[np.arange(len(whole)), own] = whole.max(1)
    assert found.cut is not None
    assert found.cut == at_cut(placed, related, found.cut.cut)
