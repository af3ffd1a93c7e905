"""A story's ranking beside its definition over the whole table of scores, which is never held."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ensue import Post
from ensue.cli.ranking import ranked_json
from ensue.data.posts.dataset import Posts
from ensue.tasks.link import scores as scoring
from ensue.tasks.link.corpus_ranking import FileLabels, rank
from ensue.tasks.link.folds import folds_of
from ensue.tasks.link.link_metrics import at_cut, calibrate, cross_fitted
from ensue.tasks.link.predictor import LinkPredictor
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
    taught = np.where(related.any(1), 1, 0)
    sure = cross_fitted(whole.max(1), taught == 1, folds_of(posts, taught == 1))
    assert found.cut is not None
    assert replace(found.cut, cut=0.5) == at_cut(np.where(placed > -np.inf, sure[:, None], 0), related, 0.5)
    assert found.cut.cut == calibrate(whole.max(1), taught == 1).cut(0.5)
    assert found.labels == FileLabels(36, 0, taught=True)


def test_labels_against_the_order_give_one_probability_and_no_cut() -> None:
    """Half of the posts are labelled, and only those that share no word with the story."""
    articles = planted().articles.select(np.array([0]))
    posts = Posts.of(
        [*(Post(f"ferry {n}", f"a{n}") for n in range(9)), *(Post(f"x{n}", f"b{n}", ("ferry",)) for n in range(9))]
    )
    found = rank(LinkPredictor.untrained(articles, posts), articles, posts)
    assert found.cut is None and found.probabilities is not None
    assert np.ptp(found.probabilities) == 0
    assert found.source == (
        "fitted on the labels of this file; they are constant, 0.50 for every post, because labels do not rise "
        "with scores"
    )
    assert "Infinity" not in json.dumps(ranked_json(found, 3)) and ranked_json(found, 3)["cut"] is None


def test_a_folder_says_which_of_the_labelled_posts_it_learned() -> None:
    predictor = LinkPredictor("tfidf")
    list(predictor.fit(planted(), planted(num=2, first=20)))
    posts = Posts.of([post("ferry", 0), Post("a ferry at night", "n", ("ferry",)), post("storm", 1)])
    found = rank(predictor, planted(("ferry",)).articles.select(np.array([0])), posts)
    assert found.labels == FileLabels(2, 1, taught=False) and found.source == "fitted on held-out posts"


def test_a_review_weighs_what_posts_say_together_and_alone() -> None:
    data = planted()
    predictor = LinkPredictor("best")
    list(predictor.fit(data))
    assert not predictor.pulls and rank(predictor, data.articles, data.posts, reviewed=True).alone is None
    predictor.neighbour_weight = 1.0
    found = rank(predictor, data.articles, data.posts, reviewed=True)
    plain = rank(predictor, data.articles, data.posts)
    predictor.neighbour_weight = 0.0
    alone = rank(predictor, data.articles, data.posts)
    assert plain.alone is None and plain.probabilities is not None and alone.probabilities is not None
    np.testing.assert_array_equal(found.probabilities, plain.probabilities)
    np.testing.assert_array_equal(found.alone, alone.probabilities)
    assert np.abs(plain.probabilities - alone.probabilities).max() > 1e-6
    together, own = (ranked.review_start()[0] for ranked in (plain, alone))
    np.testing.assert_array_equal(found.review_start()[0], np.concatenate([together, own], axis=1))
