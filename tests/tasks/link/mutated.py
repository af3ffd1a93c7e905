"""Small models of task ``link`` whose folders are mutated, and every way in which a loaded one is used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ensue import Article, LinkAnswer, Post
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.evaluation.comparison import evaluate
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.sync import sync
from tests.mutations import Family
from tests.tasks.link.checks import planted, post
from tests.tasks.link.contract import NETWORK

RECORDS = [post("storm", 2), Post("", "e"), Post("what? ferry"), Post("deck " * 300, "x"), post("bakery", 3)]
FEW = ("ferry", "train", "school", "storm")


def save_model(folder: Path, *, model: str, settings: Mapping[str, object]) -> None:
    """Train a model on planted links and write its folder."""
    predictor = LinkPredictor(model, settings=settings, device="cpu")
    list(predictor.fit(planted(), planted(num=2, first=20)))
    predictor.save(folder)


def exercise(predictor: LinkPredictor, scratch: Path) -> None:
    """Predict, explain, keep vectors of posts, evaluate, update, predict again, and save."""
    require_answers(predictor, predictor.predict(RECORDS, 3), RECORDS)
    require_answers(predictor, predictor.predict(RECORDS, 100, evidence=False), RECORDS)
    predictor.explain(RECORDS[:3], 2)
    assert predictor.metadata.to_dict() and repr(predictor) and predictor._repr_html_()
    if predictor.model is not None:
        posts = Posts.of(RECORDS[2:])
        sync(predictor, posts, scratch / "model")
        predictor.scores(posts)
        predictor.post_index = None
    for row in evaluate(predictor, planted(FEW, 1, 30)).rows:
        assert all(math.isfinite(number) for number in row.figures.values()), row
    new = Article("A swimming pool with lanes. Swimmers dive.", "pool", "News of the pool")
    predictor.update(Corpus(Articles.of([new]), Posts.of([Post("swimmers dive in lanes", "p", ("pool",))])))
    require_answers(predictor, predictor.predict(RECORDS, 3), RECORDS)
    predictor.save(scratch / "saved")
    LinkPredictor.load(scratch / "saved")


def require_answers(predictor: LinkPredictor, answers: Sequence[LinkAnswer], records: Sequence[Post]) -> None:
    """Check that each answer holds articles of the index with finite scores."""
    known = {*predictor.articles.ids}
    assert len(answers) == len(records)
    for answer in answers:
        assert all(math.isfinite(choice.score) for choice in answer.choices), answer
        assert all(0 <= (choice.probability or 0.0) <= 1 for choice in answer.choices), answer
        assert {choice.value for choice in answer.choices} <= known, answer


def family(model: str, settings: Mapping[str, object] | None = None) -> Family:
    """A model of this name with these settings."""
    return Family(partial(save_model, model=model, settings=settings or {}), exercise)


def network(model: str, *others: str) -> Family:
    """A network without the settings of others."""
    return family(model, {key: value for key, value in {**NETWORK, "epochs": 2}.items() if key not in others})


FAMILIES: dict[str, Family] = {
    "best": family("best"),
    "best-bag": family("best", {"network": "bag", "dim": 16}),
    "ast": network("ast", "filters"),
    "cnn": network("cnn", "hidden", "heads"),
    "gru": network("gru", "filters", "heads"),
    "bigru": network("bigru", "filters", "heads"),
    "tfidf": family("tfidf"),
    "bm25": family("bm25"),
}
