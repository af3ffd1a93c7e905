"""The evaluator of links: figures by hand, intervals by whole articles, who wins, and what the card says."""

from __future__ import annotations

import numpy as np
import pytest

from ensue import Article, DataError, Post
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.evaluation import bootstrap
from ensue.evaluation import link as evaluator
from ensue.evaluation.comparison import compare, evaluate
from ensue.evaluation.result import Result
from ensue.tasks.link.link_metrics import Pool
from ensue.tasks.link.predictor import LinkPredictor
from tests.tasks.link.checks import NAMES, planted, post

ARTICLES = [Article("red boat harbour", "a"), Article("blue kite wind", "b"), Article("green lamp wind", "c")]
POSTS = [
    Post("red boat", "1", ("a",)),
    Post("wind lamp", "2", ("b",)),
    Post("kite", "3", ("b",)),
    Post("nothing", "4", ()),
]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 50)


def counted() -> LinkPredictor:
    made = LinkPredictor("tfidf")
    list(made.fit(Corpus(Articles.of(ARTICLES), Posts.of(POSTS)), Corpus(Articles.of(ARTICLES), Posts.of(POSTS))))
    return made


def row(found: Result, model: str) -> dict[str, float]:
    return dict(next(own for own in found.rows if own.model == model).figures)


def test_figures_by_hand() -> None:
    found = evaluate(counted(), Corpus(Articles.of(ARTICLES), Posts.of(POSTS)))
    mine = row(found, "tfidf")
    # "red boat" and "kite" put the true article first; "wind lamp" shares both words with c, one with b: second of
    # three. The post without a link is not scored.
    assert mine["mrr"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert mine["recall@10"] == 1
    # Turned round, over the articles a and b: "red boat" is first for a; for b, "kite" and "wind lamp" come first.
    assert mine["article_mrr"] == 1 and mine["article_map"] == 1
    # The pool of 3 posts and 2 articles: the three true pairs share words, no false one does.
    assert (mine["pooled_ap"], mine["auc"]) == (1, 1)
    assert found.card["data"] == "3 posts, 3 links; 1 post is about no article: left out of every row"
    assert found.card["candidates"].startswith("3: ")
    assert found.card["leaked"] == "articles with posts in training: 2 of 2; posts that were trained on: 3"
    assert [own.model for own in found.rows] == ["tfidf", "bm25"]
    assert found.verdict.startswith("only baselines were scored: ")


def test_every_known_article_is_a_candidate() -> None:
    predictor = LinkPredictor("tfidf")
    list(predictor.fit(planted(), planted(num=1, first=9)))
    new = Corpus(Articles.of([Article("zebra lion", "zoo")]), Posts.of([Post("zebra lion", "z", ("zoo",))]))
    found = evaluate(predictor, new)
    assert found.card["candidates"].startswith("13: ") and row(found, "tfidf")["mrr"] == 1
    assert found.card["leaked"] == "articles with posts in training: 0 of 1; posts that were trained on: 0"


def test_articles_that_the_data_lacks_are_found_where_the_model_knows_them() -> None:
    predictor = counted()
    posts = [Post("red boat", "1", ("a",)), Post("kite", "2", ("b",)), Post("lamp", "3", ("nowhere",))]
    found = evaluate(predictor, Corpus(Articles.of([ARTICLES[0], ARTICLES[2]]), Posts.of(posts)))
    # The model knows b; nobody knows the third article, which counts as not retrieved.
    assert row(found, "tfidf")["mrr"] == row(found, "tfidf")["recall@10"] == pytest.approx(2 / 3)
    assert found.card["candidates"].startswith("3: ")
    assert found.card["data"] == (
        "3 posts, 3 links; 1 link to 1 article that the data lacks, such as 'nowhere', which is all that 1 post is "
        "about: relevant, never retrieved by our models"
    )
    assert found.examples is not None
    frame = found.examples.to_frame().filter(model="tfidf")
    assert frame["rank"].to_list() == [1, 1, None] and frame["target"].to_list() == [["a"], ["b"], ["nowhere"]]
    assert frame["unit"].n_unique() == 3


def test_intervals_resample_articles_with_their_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten posts about one article that are right, ten about another that are wrong: literally."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 400)
    posts = [Post("red boat", f"r{n}", ("a",)) for n in range(10)] + [Post("lamp", f"w{n}", ("b",)) for n in range(10)]
    found = evaluate(counted(), Corpus(Articles.of(ARTICLES), Posts.of(posts)))
    times = np.random.default_rng(0).multinomial(2, [0.5, 0.5], 400)
    # Of the wrong ones c comes first, then a and b with 0 each, ties against: b is third.
    drawn = (times[:, 0] * 1 + times[:, 1] / 3) / 2
    expected = tuple(np.percentile(drawn, [2.5, 97.5]))
    assert found.rows[0].interval["mrr"] == pytest.approx(expected)


def test_resampled_pools_count_posts_as_often_as_they_are_drawn() -> None:
    random = np.random.default_rng(3)
    scores, true = random.normal(size=(6, 4)), random.random((6, 4)) < 0.3
    weights = np.array([[1.0, 1, 1, 1, 1, 1], [2.0, 0, 1, 3, 0, 0]])
    for own in weights:
        figures = Pool(scores, true).metrics(own)
        rows = np.repeat(np.arange(6), own.astype(int))
        flat, hits = scores[rows].ravel(), true[rows].ravel()
        order = np.argsort(-flat, kind="stable")
        precision = np.cumsum(hits[order]) / np.arange(1, len(order) + 1)
        # Copies of a post tie; the resample takes their pairs together, so whole groups are compared.
        groups = np.flatnonzero(np.append(np.diff(flat[order]) != 0, True))
        gained = np.diff(np.cumsum(hits[order])[groups], prepend=0)
        assert figures["pooled_ap"] == pytest.approx((gained * precision[groups]).sum() / hits.sum())
        above = (flat[hits][:, None] > flat[~hits]).mean()
        assert figures["auc"] == pytest.approx(above)


def test_pools_with_ties_resample_around_their_metrics() -> None:
    random = np.random.default_rng(5)
    true = random.random((12, 8)) < 0.3
    scores = np.where(random.random((12, 8)) < 0.3, random.integers(1, 4, (12, 8)), 0.0)  # most pairs are in no list
    pool = Pool(scores, true)
    assert pool.metrics(np.ones(12)) == pool.metrics()
    assert pool.metrics()["mrp"] == pytest.approx(np.mean(list(pool.precision_curve().values())), abs=1e-12)


def test_the_best_model_and_the_best_counting_row_meet() -> None:
    predictor = LinkPredictor("best")
    list(predictor.fit(planted(), planted(num=2, first=20)))
    test = planted(num=3, first=10)
    found = compare([[predictor]], test)
    assert found.rows[0].model == "best" and found.rows[-1].model == "bm25"
    assert row(found, "best")["mrr"] > 0.9
    caught = evaluator.even(found.rows[0])
    assert caught is not None and caught.relevant == 36 and 0 <= caught.recall_interval[0] <= caught.recall
    assert evaluator.even(found.rows[-1]) is None
    assert predictor.metadata.alone == "sum"
    assert found.card["together"].startswith("best uses the score sum alone: no weights rank held-out posts better")
    card = predictor.card(found.card_text())
    assert "- alone: sum" in card and "- floors: sum 1, untrained 1, words 1" in card
    assert "| model | MRR | Recall@10 |" in card and "no text" in card and "## Stored data" in card
    flat = found.to_dict()
    assert flat["task"] == "link" and {own["measure"] for own in flat["paired_tests"]} == {"mrr", "pooled_ap"}


def test_posts_ranked_together_get_a_row_alone() -> None:
    predictor = LinkPredictor("best")
    list(predictor.fit(planted(), planted(num=2, first=20)))
    predictor.prior_strength = 1.0
    # Six clear posts about the ferry, and one that any article might have: together, it is the ferry's.
    clear = [post("ferry", number) for number in range(6)]
    vague = Post("news of today", "v", ("ferry",))
    found = evaluate(predictor, Corpus(planted().articles, Posts.of([*clear, vague])))
    assert [own.model for own in found.rows][:2] == ["best", f"best{evaluator.ALONE}"]
    assert row(found, "best")["mrr"] > row(found, f"best{evaluator.ALONE}")["mrr"]
    assert "prior strength 1" in found.card["together"]


def test_nothing_to_score() -> None:
    with pytest.raises(DataError) as error:
        evaluate(counted(), Corpus(Articles.of(ARTICLES), Posts.of([Post("red", "1", ())])))
    assert str(error.value) == "nothing to score: no post is about a given article"
    assert len(NAMES) == 12
