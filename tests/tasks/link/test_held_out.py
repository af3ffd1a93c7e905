"""What labelled posts decide, and the folder says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue.data.posts.corpus import Corpus
from ensue.tasks.link import scores, train
from ensue.tasks.link.predictor import LinkPredictor
from tests.tasks.link.checks import NAMES, planted
from tests.tasks.link.contract import NETWORK


@pytest.mark.parametrize("num", [2, 3, 5])
@pytest.mark.parametrize("model", ["best", "tfidf"])
def test_a_handful_of_labels_is_enough(model: str, num: int) -> None:
    """Nothing is a warning, no number is missing, and the untrained sum stands."""
    data = planted(NAMES[:num], 1)
    predictor = LinkPredictor(model)
    list(predictor.fit(data))
    assert np.isfinite(predictor.scores(data.posts).whole()).all()
    assert predictor.metadata.alone == ("sum" if model == "best" else None)
    json.dumps(predictor.summary(), allow_nan=False)


def test_posts_that_teach_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "_CELLS", 12 * 20)
    predictor = LinkPredictor("best")
    list(predictor.fit(planted()))
    assert (predictor.metadata.posts, predictor.metadata.validation_posts) == (48, 20)


def test_all_labels_teach_and_the_folder_says_what_stands() -> None:
    predictor = LinkPredictor("best")
    list(predictor.fit(planted()))
    metadata = predictor.metadata
    assert metadata.held_out == "5 folds of 48 posts, each scored by a model trained on the others"
    assert (metadata.posts, metadata.validation_posts) == (48, 48)
    # Every score ranks these posts perfectly, so nothing is better than a sum that needs no label.
    assert metadata.floors is not None and metadata.floors["untrained"] == 1
    assert metadata.alone == "sum" and list(predictor.weights) == ["sum"]
    assert predictor.summary()["facts"]["alone"] == "sum"
    assert metadata.validation is not None and metadata.validation.mrr == 1
    data: Corpus = planted(num=2, first=20)
    untrained = LinkPredictor("best")
    list(untrained.fit(planted()))
    untrained.weights = {}
    assert (predictor.scores(data.posts).whole().argmax(1) == untrained.scores(data.posts).whole().argmax(1)).all()


def ciphered(num: int = 6) -> Corpus:
    """Posts that share no word with their article: what they say for it is told by other posts alone."""
    corpus = planted(num=num)
    texts = corpus.posts.texts.str.strip_chars("!").str.split(" ").list.eval(pl.element().str.reverse()).list.join(" ")
    parts = pl.Series(["train"] * (num - 2) + ["valid"] * 2)
    return replace(corpus, posts=replace(corpus.posts, texts=texts, parts=pl.concat([parts] * len(NAMES))))


@pytest.mark.parametrize(("data", "helps"), [(planted(), False), (ciphered(), True)])
def test_a_network_is_weighed_where_held_out_posts_are_ranked_better_by_it(data: Corpus, *, helps: bool) -> None:
    """Else the posts that it was trained on teach weights too."""
    predictor = LinkPredictor("best", settings={**NETWORK, "network": "cnn"})
    list(predictor.fit(data))
    metadata, note = predictor.metadata, "the network is left out: it does not improve the ranking of held-out posts"
    assert (scores.LEARNED in predictor.weights) == helps
    assert any(own.startswith(note) for own in metadata.notes) != helps
    every, held = len(data), len(data.split(0)[1])
    assert (metadata.posts, metadata.validation_posts) == ((every - held, held) if helps else (every, every))
    assert ("5 folds" in metadata.held_out) != helps
    assert len(predictor.train_prints) == metadata.posts


def test_posts_tell_of_each_other_only_together(tmp_path: Path) -> None:
    """A post alone, or among others that share no word with it, is ranked as it was; a folder keeps how they tell."""
    predictor = LinkPredictor("best")
    list(predictor.fit(planted()))
    predictor.neighbour_weight = 1.0
    data = planted(num=2, first=20).posts
    whole, few = predictor.scores(data).whole(), predictor.scores(data.select(np.arange(1))).whole()
    predictor.save(tmp_path / "model")
    loaded = LinkPredictor.load(tmp_path / "model")
    assert loaded.neighbour_weight == 1.0
    np.testing.assert_array_equal(loaded.scores(data).whole(), whole)
    predictor.neighbour_weight = 0.0
    np.testing.assert_allclose(predictor.scores(data.select(np.arange(1))).whole(), few)
    assert np.abs(predictor.scores(data).whole() - whole).max() > 1e-3


def test_a_sample_of_the_posts_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size say the same, and posts outside the sample hear those inside."""
    predictor = LinkPredictor("best")
    list(predictor.fit(planted()))
    predictor.neighbour_weight = predictor.prior_strength = 1.0
    data = planted(num=2, first=20).posts
    monkeypatch.setattr(scores, "SAMPLE", 5)
    whole = predictor.scores(data).whole()
    monkeypatch.setattr(scores, "_POSTS", 3)
    np.testing.assert_allclose(predictor.scores(data).whole(), whole, rtol=1e-9)


def test_labels_that_are_too_many_to_teach_leave_a_network_its_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted()
    monkeypatch.setattr(train, "_CELLS", 12 * 40)
    predictor = LinkPredictor("best", settings={**NETWORK, "network": "cnn"})
    list(predictor.fit(data))
    held = len(data.split(0)[1])
    assert (predictor.metadata.posts, predictor.metadata.validation_posts) == (len(data) - held, held)
    assert not any("the network is left out" in note for note in predictor.metadata.notes)
