"""What labelled posts choose: never a ranking below the untrained sum, a floor where nothing beats it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ensue.tasks.link.ensembles import selection
from ensue.tasks.link.ensembles.selection import (
    Labelled,
    candidates,
    is_alike,
    losses,
    reciprocal_ranks,
    select_weights,
)
from ensue.tasks.link.ensembles.weighted_sum import standardised
from ensue.tasks.link.link_metrics import by_row
from ensue.text.lexical import Lexical
from ensue.text.terms import word_terms


def labelled(num: int, gains: tuple[float, ...], seed: int = 0, size: int = 40) -> Labelled:
    """Posts whose true article stands out by some gain in each score; the noise of the scores is independent."""
    random = np.random.default_rng(seed)
    related = np.eye(size, dtype=bool)[random.integers(size, size=num)]
    scores = [standardised(random.normal(size=related.shape) + gain * related) for gain in gains]
    names = ["untrained", *(f"s{place}" for place in range(1, len(gains)))]
    return Labelled(names, np.stack(scores, axis=2).astype(np.float32), related, np.arange(num) % 5)


def test_several_scores_that_tell_are_weighed() -> None:
    chosen = select_weights(labelled(200, (2.0, 2.0, 2.0)))
    assert len(chosen.weights) == 3 and min(chosen.weights.values()) > 0.5
    assert reciprocal_ranks(chosen.prior.scores, labelled(200, (2.0, 2.0, 2.0)).related).mean() > max(
        chosen.score_mrr.values()
    )


@pytest.mark.parametrize("num", [6, 20, 200])
def test_scores_that_say_nothing_leave_the_untrained_sum(num: int) -> None:
    for seed in range(4):
        chosen = select_weights(labelled(num, (2.0, 0.0, 0.0), seed))
        if num < 200:
            assert list(chosen.weights) == ["untrained"], seed
        test = labelled(400, (2.0, 0.0, 0.0), seed + 100)
        sums = sum(weight * test.scores[:, :, test.names.index(name)] for name, weight in chosen.weights.items())
        lost = (
            reciprocal_ranks(test.scores[:, :, 0], test.related).mean()
            - reciprocal_ranks(np.asarray(sums), test.related).mean()
        )
        assert lost < 0.005, seed


@pytest.mark.parametrize(("ranked", "likelier", "stay"), [(True, False, 3), (False, True, 3), (False, False, 1)])
def test_weights_stay_if_ranks_or_likelihood_rise(
    ranked: bool, likelier: bool, stay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gains of ranks lie below 1; the loss of some post falls by more here."""
    monkeypatch.setattr(selection, "PENALTIES", (1.0,))
    rises = lambda gains, *_: bool(gains.any()) and (likelier if gains.max() > 1 else ranked)  # noqa: E731
    monkeypatch.setattr(selection, "exceeds_standard_error", rises)
    monkeypatch.setattr(selection, "significantly_positive", rises)
    data = labelled(200, (2.0, 2.0, 2.0))
    assert len(select_weights(data, together=False).weights) == stay
    posts = candidates(data.scores, data.related)
    fit, own = selection._fits(data, candidates(data.scores, data.related))[0], data.folds == 3
    assert fit.losses[own].tolist() == losses(posts.select(own), fit.by_fold[3]).tolist()


def test_weights_that_only_make_labels_likelier_are_held_to_the_centre() -> None:
    """Powers of one score rank as it does; beside it they tell how sure it is."""
    random = np.random.default_rng(0)
    related = np.eye(40, dtype=bool)[random.integers(40, size=300)]
    told = random.normal(size=related.shape) + 3 * related
    scores = [standardised(np.sign(told) * np.abs(told) ** power) for power in (1, 2, 3)]
    data = Labelled(["untrained", "s1", "s2"], np.stack(scores, axis=2).astype(np.float32), related, np.arange(300) % 5)
    fits = selection._fits(data, candidates(data.scores, data.related))
    assert selection._by_ranks(data, fits).penalty == max(selection.PENALTIES)
    assert selection._by_likelihood(data, fits).penalty < select_weights(data, together=False).penalty
    several = labelled(300, (1.0, 3.0, 3.0))
    assert selection._by_ranks(
        several, selection._fits(several, candidates(several.scores, several.related))
    ).penalty < max(selection.PENALTIES)


def test_the_untrained_sum_is_the_centre_where_the_equal_one_is_worse() -> None:
    """Twelve labels: too few for anything else to rise by more than a standard error."""
    for gains, wanted in (((1.0, 2.5), "untrained"), ((2.5, 1.0), "sum")):
        data = labelled(12, gains, 3)
        assert list(select_weights(replace(data, names=["sum", "untrained"])).weights) == [wanted]


def test_a_score_that_no_weights_beat_stands_alone() -> None:
    """The second one is all there is: weights add the noise of the others."""
    data = labelled(60, (0.3, 5.0, 0.0))
    chosen = select_weights(data)
    assert list(chosen.weights) == ["s1"] and chosen.weights["s1"] > 0
    assert chosen.score_mrr["s1"] == pytest.approx(by_row(data.scores[:, :, 1], data.related)[:, 0].mean())


def test_no_fold_teaches_the_weights_that_score_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of fold 0 that are turned round leave its own weights as they are, and move those of all others."""
    monkeypatch.setattr(selection, "PENALTIES", (10.0,))
    data = labelled(100, (2.0, 2.0))
    turned = np.where((data.folds == 0)[:, None], np.roll(data.related, 1, 1), data.related)
    before, after = (
        selection._fits(own, candidates(own.scores, own.related))[0].by_fold
        for own in (data, replace(data, related=turned))
    )
    assert (before == after).all(1).tolist() == [True, False, False, False, False]


def test_posts_tell_of_each_other_only_by_articles_choice_whole() -> None:
    """Ten posts about each of twenty articles: the more posts are about an article, the likelier it is."""
    random = np.random.default_rng(0)
    related = np.repeat(np.eye(20, 60, dtype=bool), 10, axis=0)
    scores = standardised(random.normal(size=related.shape) + 1.5 * related)[:, :, None].astype(np.float32)
    data = Labelled(["untrained"], scores, related, np.repeat(np.arange(20) % 5, 10))
    assert select_weights(data).prior.strength > 0
    assert select_weights(data, together=False).prior.strength == 0
    assert select_weights(replace(data, folds=np.arange(200) % 5)).prior.strength == 0


def test_a_part_that_is_unlike_does_not_teach() -> None:
    one, contrary = labelled(120, (1.0, 3.0)), labelled(120, (3.0, 1.0), 1)
    given = np.arange(240) < 120
    mixed = Labelled(
        one.names, np.concatenate([one.scores, contrary.scores]), np.concatenate([one.related, contrary.related]),
        np.arange(240) % 5,
    )  # fmt: skip
    assert not is_alike(mixed, given)
    more = labelled(240, (1.0, 3.0))
    assert is_alike(more, given)


def test_ranks_are_those_of_the_table() -> None:
    random = np.random.default_rng(0)
    scores, related = np.round(random.normal(size=(50, 9)), 1), random.random((50, 9)) < 0.2
    related[:, 0] |= ~related.any(1)
    assert reciprocal_ranks(scores, related).tolist() == by_row(scores, related)[:, 0].tolist()


def beside(helps: bool) -> Labelled:
    """Posts about ten articles of forty, half of which say nothing of theirs; where it helps, a shared word does."""
    random = np.random.default_rng(0)
    about = random.integers(10, size=200)
    related, plain = np.eye(40, dtype=bool)[about], np.arange(200) % 2 == 0
    scores = standardised(random.normal(size=related.shape) + 6.0 * (related & plain[:, None]))
    words = word_terms(pl.Series([f"word{number}" for number in (about if helps else range(200))]))
    lexical = Lexical("words")
    lexical.add(pl.Series(["an article"] * 40))
    return Labelled(["untrained"], scores[:, :, None].astype(np.float32), related, about % 5, words, lexical)


def test_neighbours_count_where_they_rank_choice_posts_better() -> None:
    chosen = select_weights(beside(True))
    alone = select_weights(replace(beside(True), words=None))
    assert chosen.prior.neighbour_weight > 0 and not alone.prior.neighbour_weight
    ranks = [reciprocal_ranks(own.prior.scores, beside(True).related).mean() for own in (chosen, alone)]
    assert ranks[0] > ranks[1] + 0.1
    assert (
        not select_weights(beside(False)).prior.neighbour_weight
        and not select_weights(beside(True), together=False).prior.neighbour_weight
    )
