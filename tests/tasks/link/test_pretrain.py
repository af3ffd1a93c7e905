"""What is learned of articles alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from ensue import Article, Post
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.pretrain import Cloze, Pretraining, headline_words, term_weights
from tests.tasks.link.checks import planted

SMALL = {"dim": 8, "hidden": 8, "filters": 8, "heads": 2, "bag": 32, "epochs": 1}


def fitted(data: Corpus, model: str = "cnn", **settings: object) -> LinkPredictor:
    own = {**SMALL, **settings} if model != "bag" else {"bag": 32, **settings}
    made = LinkPredictor(model, settings=own, seed=3, device="cpu")
    list(made.fit(data))
    return made


def test_passages_find_their_articles_better_than_without() -> None:
    """And two words that stand in the same articles alone come to mean the same, though no post says so."""
    random = np.random.default_rng(0)
    filler = [f"w{number}" for number in range(200)]
    bodies = [[f"name{own}", f"alias{own}"] * 8 + list(random.choice(filler, 40)) for own in range(12)]
    articles = Articles.of(Article(" ".join(random.permutation(body)), f"a{own}") for own, body in enumerate(bodies))
    posts = Posts.of(Post(f"{filler[own]} name{own}", f"p{own}", (f"a{own}",)) for own in range(12))
    losses = {}
    for how in ("none", "cloze"):
        made = fitted(Corpus(articles, posts), "bag", pretrain=how)
        data = Cloze(made.encode(articles.texts), np.arange(12), np.zeros(12, np.int64))
        network = made.network
        assert isinstance(network, Linker)
        torch.manual_seed(1)
        losses[how] = Pretraining(network).loss(data.batch(np.arange(12))).item()
        sides = (made.vectors(pl.Series([f"{kind}{own}" for own in range(12)])) for kind in ("name", "alias"))
        assert float((next(sides) * next(sides)).sum(1).mean()) > 0.8
    assert losses["cloze"] < losses["none"] / 1.2


def test_a_name_of_yesterday_has_a_vector() -> None:
    made = fitted(planted())
    later, _ = made.joined(Articles.of([Article("Zelandonia and the harbour of Zelandonia", "new")]))
    same, form, other = later.vectors(pl.Series(["zelandonia", "zelandonian", "quixotry"]))
    assert float(same @ form) > 0.6 > 0.4 > float(same @ other)
    assert float(np.linalg.norm(later.vectors(pl.Series(["..."])))) == pytest.approx(1)


@pytest.mark.parametrize("bodies", [["one two three four five"] * 3, ["word", "word word", "word"], ["a", "b"]])
def test_articles_of_which_nothing_can_be_learned(bodies: list[str]) -> None:
    articles = Articles.of(Article(body, f"a{own}") for own, body in enumerate(bodies))
    posts = Posts.of(
        Post(f"{bodies[own % len(bodies)]} {own}x {own}y {own}z", f"p{own}", (f"a{own % len(bodies)}",))
        for own in range(9)
    )
    made = fitted(Corpus(articles, posts))
    assert "no pretraining: fewer than two distinct articles" in made.metadata.notes
    assert np.isfinite(made.scores(posts).whole()).all()


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, other = (fitted(planted(), model="ast").network.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one) and one["pieces.weight"].shape[1] == 8 + 32 + 1


@pytest.mark.parametrize("articles", [1, 12])
def test_a_corpus_without_labels(articles: int) -> None:
    """One article or many; posts in several scripts, without words, and twice."""
    data = planted()
    odd = [Post(text) for text in ("東京都知事選挙の結果", "выборы мэра Москвы", "", "🎈", "שלום עולם", "שלום עולם")]
    posts = Posts.of([*(Post(record.text) for record in data.posts.records()), *odd])
    made = LinkPredictor.untrained(data.articles.select(slice(0, articles)), posts, network="bag")
    plain = made.scores(posts).whole()
    stages = {report.stage for report in made.learn(posts)}
    found = made.scores(posts).whole()
    assert stages == {"pretrain"} and np.isfinite(found).all() and (found != plain).any()
    cosines = (found - plain) / made.learned_scale
    assert (np.abs(cosines) < 1 + 1e-6).all()
    assert cosines.std() * made.learned_scale == pytest.approx(plain.std(), rel=0.2)


def test_articles_that_no_training_post_is_about_can_stay_unread() -> None:
    data = planted()
    held = data.articles.select(np.arange(3))
    names = set(held.ids)
    posts = [record for record in data.posts.records() if not names & set(record.about)]
    learned = Corpus(data.articles, Posts.of(posts))
    for model in ("cnn", "bag"):
        read, unread = (fitted(learned, model, pretrain=how) for how in ("cloze", "inductive"))
        words = set(unread.tokenizer.vocabulary.values)
        assert words < set(read.tokenizer.vocabulary.values) and "pretrained on 12 articles" in str(read.metadata.notes)
        assert "pretrained on 12 articles" not in str(unread.metadata.notes)


def test_how_rare_words_are_and_how_long_headlines() -> None:
    made = fitted(planted())
    articles = Articles.of([Article("ferry ferry quay", "a", "Ferry sinks"), Article("ferry", "b")])
    tokens = made.encode(articles.texts)
    ferry = made.tokenizer.vocabulary.id("ferry")
    found = term_weights(tokens, len(made.tokenizer.vocabulary))
    # ln((1 + 2) / (1 + 2)) + 1 of a word that both hold, ln(3) + 1 of one that none does.
    assert found[ferry] == pytest.approx(1) and found.max() == pytest.approx(1 + np.log(3))
    assert found[-1] == pytest.approx((1 + np.log(3)) / 6**0.5)
    assert headline_words(made, articles)[1] == 0 < headline_words(made, articles)[0]
