"""What labelled posts decide: never a ranking below the untrained sum, a floor where nothing beats it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue.data.posts import Corpus
from ensue.tasks.link import held_out, scores
from ensue.tasks.link.ensembles.likelihood import candidates, losses
from ensue.tasks.link.ensembles.weighted_sum import standardised
from ensue.tasks.link.held_out import Labelled, alike, choose, reciprocal
from ensue.tasks.link.measures import by_row
from ensue.tasks.link.predictor import LinkPredictor
from ensue.text.lexical import Lexical
from ensue.text.terms import word_terms
from tests.tasks.link.checks import NAMES, planted
from tests.tasks.link.contract import NETWORK


def labelled(num: int, gains: tuple[float, ...], seed: int = 0, size: int = 40) -> Labelled:
    """Posts whose true article stands out by some gain in each score; the noise of the scores is independent."""
    random = np.random.default_rng(seed)
    related = np.eye(size, dtype=bool)[random.integers(size, size=num)]
    scores = [standardised(random.normal(size=related.shape) + gain * related) for gain in gains]
    names = ["untrained", *(f"s{place}" for place in range(1, len(gains)))]
    return Labelled(names, np.stack(scores, axis=2).astype(np.float32), related, np.arange(num) % 5)


def test_several_scores_that_tell_are_weighed() -> None:
    chosen = choose(labelled(200, (2.0, 2.0, 2.0)))
    assert len(chosen.weights) == 3 and min(chosen.weights.values()) > 0.5
    assert reciprocal(chosen.scores, labelled(200, (2.0, 2.0, 2.0)).related).mean() > max(chosen.floors.values())


@pytest.mark.parametrize("num", [6, 20, 200])
def test_scores_that_say_nothing_leave_the_untrained_sum(num: int) -> None:
    for seed in range(4):
        chosen = choose(labelled(num, (2.0, 0.0, 0.0), seed))
        if num < 200:
            assert list(chosen.weights) == ["untrained"], seed
        test = labelled(400, (2.0, 0.0, 0.0), seed + 100)
        sums = sum(weight * test.scores[:, :, test.names.index(name)] for name, weight in chosen.weights.items())
        lost = reciprocal(test.scores[:, :, 0], test.related).mean() - reciprocal(np.asarray(sums), test.related).mean()
        assert lost < 0.005, seed


@pytest.mark.parametrize(("ranked", "likelier", "stay"), [(True, False, 3), (False, True, 3), (False, False, 1)])
def test_weights_stay_if_ranks_or_likelihood_rise(
    ranked: bool, likelier: bool, stay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gains of ranks lie below 1; the loss of some post falls by more here."""
    monkeypatch.setattr(held_out, "PENALTIES", (1.0,))
    rises = lambda gains, *_: bool(gains.any()) and (likelier if gains.max() > 1 else ranked)  # noqa: E731
    monkeypatch.setattr(held_out, "_rises", rises)
    data = labelled(200, (2.0, 2.0, 2.0))
    assert len(choose(data, together=False).weights) == stay
    posts = candidates(data.scores, data.related)
    fit, own = held_out._fits(data, candidates(data.scores, data.related))[0], data.folds == 3
    assert fit.costs[own].tolist() == losses(posts.select(own), fit.by_fold[3]).tolist()


def test_weights_that_only_make_labels_likelier_are_held_to_the_centre() -> None:
    """Powers of one score rank as it does; beside it they tell how sure it is."""
    random = np.random.default_rng(0)
    related = np.eye(40, dtype=bool)[random.integers(40, size=300)]
    told = random.normal(size=related.shape) + 3 * related
    scores = [standardised(np.sign(told) * np.abs(told) ** power) for power in (1, 2, 3)]
    data = Labelled(["untrained", "s1", "s2"], np.stack(scores, axis=2).astype(np.float32), related, np.arange(300) % 5)
    fits = held_out._fits(data, candidates(data.scores, data.related))
    assert held_out._by_ranks(data, fits).penalty == max(held_out.PENALTIES)
    assert held_out._by_likelihood(data, fits).penalty < choose(data, together=False).penalty
    several = labelled(300, (1.0, 3.0, 3.0))
    assert held_out._by_ranks(
        several, held_out._fits(several, candidates(several.scores, several.related))
    ).penalty < max(held_out.PENALTIES)


def test_the_untrained_sum_is_the_centre_where_the_equal_one_is_worse() -> None:
    """Twelve labels: too few for anything else to rise by more than a standard error."""
    for gains, wanted in (((1.0, 2.5), "untrained"), ((2.5, 1.0), "sum")):
        data = labelled(12, gains, 3)
        assert list(choose(replace(data, names=["sum", "untrained"])).weights) == [wanted]


def test_a_score_that_no_weights_beat_stands_alone() -> None:
    """The second one is all there is: weights add the noise of the others."""
    data = labelled(60, (0.3, 5.0, 0.0))
    chosen = choose(data)
    assert list(chosen.weights) == ["s1"] and chosen.weights["s1"] > 0
    assert chosen.floors["s1"] == pytest.approx(by_row(data.scores[:, :, 1], data.related)[:, 0].mean())


def test_no_fold_teaches_the_weights_that_score_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of fold 0 that are turned round leave its own weights as they are, and move those of all others."""
    monkeypatch.setattr(held_out, "PENALTIES", (10.0,))
    data = labelled(100, (2.0, 2.0))
    turned = np.where((data.folds == 0)[:, None], np.roll(data.related, 1, 1), data.related)
    before, after = (
        held_out._fits(own, candidates(own.scores, own.related))[0].by_fold
        for own in (data, replace(data, related=turned))
    )
    assert (before == after).all(1).tolist() == [True, False, False, False, False]


def test_posts_tell_of_each_other_only_by_articles_held_out_whole() -> None:
    """Ten posts about each of twenty articles: the more posts are about an article, the likelier it is."""
    random = np.random.default_rng(0)
    related = np.repeat(np.eye(20, 60, dtype=bool), 10, axis=0)
    scores = standardised(random.normal(size=related.shape) + 1.5 * related)[:, :, None].astype(np.float32)
    data = Labelled(["untrained"], scores, related, np.repeat(np.arange(20) % 5, 10))
    assert choose(data).strength > 0
    assert choose(data, together=False).strength == 0
    assert choose(replace(data, folds=np.arange(200) % 5)).strength == 0


def test_a_part_that_is_unlike_does_not_teach() -> None:
    one, contrary = labelled(120, (1.0, 3.0)), labelled(120, (3.0, 1.0), 1)
    given = np.arange(240) < 120
    mixed = Labelled(
        one.names, np.concatenate([one.scores, contrary.scores]), np.concatenate([one.related, contrary.related]),
        np.arange(240) % 5,
    )  # fmt: skip
    assert not alike(mixed, given)
    more = labelled(240, (1.0, 3.0))
    assert alike(more, given)


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
    monkeypatch.setattr(held_out, "_CELLS", 12 * 20)
    predictor = LinkPredictor("best")
    list(predictor.fit(planted()))
    assert (predictor.metadata.posts, predictor.metadata.validation_posts) == (48, 20)


def test_ranks_are_those_of_the_table() -> None:
    random = np.random.default_rng(0)
    scores, related = np.round(random.normal(size=(50, 9)), 1), random.random((50, 9)) < 0.2
    related[:, 0] |= ~related.any(1)
    assert reciprocal(scores, related).tolist() == by_row(scores, related)[:, 0].tolist()


def test_all_labels_teach_and_the_folder_says_what_stands() -> None:
    predictor = LinkPredictor("best")
    list(predictor.fit(planted()))
    metadata = predictor.metadata
    assert metadata.held_out == "5 folds of 48 posts, each scored by what the others taught"
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
    predictor = LinkPredictor("best", settings={**NETWORK, "learned": "cnn"})
    list(predictor.fit(data))
    metadata, note = predictor.metadata, "the network is not weighed: held-out posts are ranked no better by it"
    assert (scores.LEARNED in predictor.weights) == helps
    assert any(own.startswith(note) for own in metadata.notes) != helps
    every, held = len(data), len(data.split(0)[1])
    assert (metadata.posts, metadata.validation_posts) == ((every - held, held) if helps else (every, every))
    assert ("5 folds" in metadata.held_out) != helps
    assert len(predictor.train_prints) == metadata.posts


def beside(helps: bool) -> Labelled:
    """Posts about ten articles of forty, half of which say nothing of theirs; where it helps, a shared word does."""
    random = np.random.default_rng(0)
    about = random.integers(10, size=200)
    related, plain = np.eye(40, dtype=bool)[about], np.arange(200) % 2 == 0
    scores = standardised(random.normal(size=related.shape) + 6.0 * (related & plain[:, None]))
    words = word_terms(pl.Series([f"word{number}" for number in (about if helps else range(200))]))
    counted = Lexical("words")
    counted.add(pl.Series(["an article"] * 40))
    return Labelled(["untrained"], scores[:, :, None].astype(np.float32), related, about % 5, words, counted)


def test_neighbours_count_where_they_rank_held_out_posts_better() -> None:
    chosen = choose(beside(True))
    alone = choose(replace(beside(True), words=None))
    assert chosen.beside > 0 and not alone.beside
    ranks = [reciprocal(own.scores, beside(True).related).mean() for own in (chosen, alone)]
    assert ranks[0] > ranks[1] + 0.1
    assert not choose(beside(False)).beside and not choose(beside(True), together=False).beside


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
