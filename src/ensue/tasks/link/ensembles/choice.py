"""Fit the weighted sum on labelled posts: weights, the null logit and the strength of the cross-post prior.

Each fold of the posts is scored by the weights of the other folds; the final weights are fitted on all folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.significance import exceeds_standard_error, significantly_positive
from ensue.tasks.link.ensembles.likelihood import Candidates, candidates, fit_weights, losses
from ensue.tasks.link.ensembles.neighbours import WEIGHTS, Neighbours
from ensue.tasks.link.ensembles.weighted_sum import STRENGTHS, log_shares, transductive_prior
from ensue.tasks.link.folds import FOLDS
from ensue.tasks.link.measures import Mask, Pool, by_row
from ensue.text.lexical import Lexical, chosen_terms
from ensue.text.terms import Terms

UNTRAINED = "untrained"
"""The score that needs no label, beside which all others are weighed."""
PENALTIES = (10_000.0, 1000.0, 100.0, 10.0, 1.0)
"""Grid of the L2 penalty that draws weights to the central score, chosen by held-out ranks."""
LESS = (0.0, 2.0)
"""Grid of the reduction of s_0, chosen on held-out posts; 2 makes "no article" e^2 times less likely. It is bounded
because no label says which posts are about no article."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled posts that teach, with all scores of theirs.

    Attributes:
        names: of the scores, one that needs no label first; ``UNTRAINED`` is among them.
        scores: (posts, articles, scores) standardised.
        related: (posts, articles).
        folds: (posts,).
        words: of the posts, by which those of a corpus are neighbours; ``None`` where they tell nothing.
        counted: the articles' words.
    """

    names: list[str]
    scores: npt.NDArray[np.float32]
    related: Mask
    folds: Index
    words: Terms | None = None
    counted: Lexical | None = None

    @property
    def clusters(self) -> Index:
        """(posts,) as :func:`clusters` has them."""
        return clusters(self.related)


def clusters(related: Mask) -> Index:
    """(posts,) the first article of each: posts about one article are right and wrong together."""
    first: Index = np.unique(related.argmax(1), return_inverse=True)[1]
    return first


@dataclass(frozen=True, eq=False)
class Chosen:
    """Weights fitted on labelled posts.

    Attributes:
        weights: by name of a score; of one name where that score stands alone.
        null_logit: s_0.
        strength: how much posts of one corpus tell which articles are discussed.
        beside: how much counts what posts with the same rare words are about.
        scores: (posts, articles) the logarithms of shares, of each fold by what the other folds taught.
        penalty: how strongly the weights are drawn to the centre.
        floors: the MRR of each score alone.
        alone: (posts,) one over the rank of the best true article, each post alone, by what the other folds taught.
    """

    weights: dict[str, float]
    null_logit: float
    strength: float
    beside: float
    scores: Floats
    penalty: float
    floors: dict[str, float]
    alone: Floats


def alike(data: Labelled, given: Mask, seed: int = 0) -> bool:
    """Return whether held-out posts of a subset are as likely with weights of all posts as with those of the subset.

    Args:
        data: labelled posts.
        given: (posts,) those of the part.
        seed: of the articles that are drawn as candidates.
    """
    posts, total = candidates(data.scores, data.related, seed), 0.0
    for fold in range(FOLDS):
        own = data.folds == fold
        every, part = (fit_weights(posts.select(taught & ~own), PENALTIES[-2]) for taught in (given | True, given))
        asked = posts.select(given & own)
        total += float((losses(asked, every) - losses(asked, part)).sum())
    return total <= 0


def choose(data: Labelled, seed: int = 0, *, together: bool = True) -> Chosen:
    """Weights where they rank held-out posts better than each score alone does; else the best of these.

    The centre is the first score, which needs no label, unless held-out posts are ranked better by the untrained one.
    What stands instead must be better by more than one standard error (not a test of significance: the
    one-standard-error rule of Breiman et al. 1984), and so must posts that tell of each other: a score
    by its MRR; weights, whose MRR must be above that of every score, by MRR or by how likely they make held-out posts.

    The penalty goes by ranks: free weights make labels far likelier and rank no better, and posts unlike the labelled
    ones worse. That under which labels are likeliest takes its place where it ranks held-out posts significantly better
    as they will be ranked, together where they tell of each other: shares that are true tell how much is discussed.

    Args:
        data: labelled posts.
        seed: of the articles that are drawn as candidates.
        together: whether posts may tell of each other; they do not where folds tear the posts about an article.
    """
    ranks = [reciprocal(data.scores[:, :, place], data.related) for place in range(len(data.names))]
    floors = {name: float(own.mean()) for name, own in zip(data.names, ranks, strict=True)}
    untrained = data.names.index(UNTRAINED)
    centre = 0 if ranks[0].mean() >= ranks[untrained].mean() else untrained
    # Labels of few articles, or of one above all, say nothing of how many posts of a corpus are about the same one.
    whole = len(np.unique(data.clusters * FOLDS + data.folds)) == len(np.unique(data.clusters))
    strengths = STRENGTHS if together and whole else STRENGTHS[:1]
    posts = candidates(data.scores, data.related, seed)
    fits = _fits(data, posts, centre)
    chosen, other = _by_ranks(data, fits), _by_likelihood(data, fits)
    told = _strength(data, chosen, strengths)
    if other.penalty != chosen.penalty:
        theirs = _strength(data, other, strengths)
        rank_gains = reciprocal(theirs.scores, data.related) - reciprocal(told.scores, data.related)
        if significantly_positive(rank_gains, data.clusters):
            chosen, told = other, theirs
    weighed = reciprocal(_crossed(data, chosen), data.related)
    best = max(range(len(ranks)), key=lambda place: float(ranks[place].mean()))
    alone = _one(data, centre)
    gains = weighed - ranks[centre], _fits(alone, candidates(alone.scores, data.related, seed))[0].costs - chosen.costs
    if weighed.mean() <= ranks[best].mean() or not any(exceeds_standard_error(own, data.clusters) for own in gains):
        data = _one(data, best if exceeds_standard_error(ranks[best] - ranks[centre], data.clusters) else centre)
        posts = candidates(data.scores, data.related, seed)
        chosen, centre = _fits(data, posts)[0], 0
        told = _strength(data, chosen, strengths)
        weighed = reciprocal(_crossed(data, chosen), data.related)
    fitted = fit_weights(posts, chosen.penalty, chosen.by_fold.mean(0), centre)
    weights = dict(zip(data.names, fitted[:-1].tolist(), strict=True))
    return Chosen(
        weights, float(fitted[-1]) - told.less, told.strength, told.beside, told.scores, chosen.penalty, floors, weighed
    )


def _one(data: Labelled, place: int) -> Labelled:
    """Return the data with a single score."""
    return replace(data, names=[data.names[place]], scores=data.scores[:, :, [place]])


class _Fit(NamedTuple):
    """Weights under one penalty."""

    penalty: float
    by_fold: Floats
    """(folds, scores + 1) what the posts outside each fold teach."""
    costs: Floats
    """(posts,) the loss of each by these."""


def _fits(data: Labelled, posts: Candidates, centre: int = 0) -> list[_Fit]:
    """Weights under each penalty, the highest first; of one score, which is the centre, under one."""
    starts: list[Floats | None] = [None] * FOLDS
    found = []
    for penalty in PENALTIES if len(data.names) > 1 else PENALTIES[:1]:
        costs, by_fold = np.empty(len(data.folds)), np.empty((FOLDS, len(data.names) + 1))
        for fold in range(FOLDS):
            own = data.folds == fold
            by_fold[fold] = fit_weights(posts.select(~own), penalty, starts[fold], centre)
            starts[fold] = by_fold[fold]
            costs[own] = losses(posts.select(own), by_fold[fold])
        found.append(_Fit(penalty, by_fold, costs))
    return found


def _by_ranks(data: Labelled, fits: Sequence[_Fit]) -> _Fit:
    """The highest penalty under which held-out posts, each alone, are not ranked significantly worse than under any."""
    ranks = [reciprocal(_crossed(data, own), data.related) for own in fits]
    best = max(ranks, key=lambda own: float(own.mean()))
    pairs = zip(fits, ranks, strict=True)
    return next(fit for fit, own in pairs if not significantly_positive(best - own, data.clusters))


def _by_likelihood(data: Labelled, fits: Sequence[_Fit]) -> _Fit:
    """The highest whose held-out loss is not above the least by more than a standard error (Breiman et al. 1984)."""
    least = min(fits, key=lambda own: float(own.costs.sum()))
    return next(own for own in fits if not exceeds_standard_error(own.costs - least.costs, data.clusters))


def _crossed(data: Labelled, fit: _Fit) -> Floats:
    """(posts, articles) the weighted sums of each fold by the weights that the others taught."""
    sums = np.empty(data.related.shape)
    for fold, weights in enumerate(fit.by_fold):
        own = data.folds == fold
        sums[own] = data.scores[own] @ weights[:-1].astype(np.float32)
    return sums


class _Told(NamedTuple):
    """Strength of the cross-post prior."""

    less: float
    """Reduction of s_0."""
    strength: float
    beside: float
    scores: Floats
    """(posts, articles)."""


def _strength(data: Labelled, fit: _Fit, strengths: Sequence[float]) -> _Told:
    """Choose the reduction of s_0 and the strength of the cross-post prior.

    Each fold is ranked as a corpus, by what the others taught. No label tells of posts about none; the loss has as many
    of them as of others, and ranks posts beside each other worse where that is far from what is scored.
    """
    sums = _crossed(data, fit)

    def shares(less: float, strength: float) -> Floats:
        found = np.empty(sums.shape)
        for fold, weights in enumerate(fit.by_fold):
            own, none = data.folds == fold, float(weights[-1]) - less
            found[own] = log_shares(sums[own], transductive_prior(sums[own], strength, none), none)
        return found

    worth, chosen, alone = -1.0, _Told(0.0, 0.0, 0.0, sums), dict[float, Floats]()
    for beside in WEIGHTS if len(strengths) > 1 and data.words is not None else WEIGHTS[:1]:
        for less in LESS if not beside else (chosen.less,):
            for strength in strengths:
                own = shares(less, strength)
                own = _beside(data, own, beside) if beside else own
                if not (strength or beside):  # the first of each ``less``
                    alone[less] = reciprocal(own, data.related)
                if (new := _worth(own, data.related)) <= worth:
                    continue
                if not (strength or beside) or exceeds_standard_error(
                    reciprocal(own, data.related) - alone[less], data.clusters
                ):
                    worth, chosen = new, _Told(less, strength, beside, own)
    return chosen


def _beside(data: Labelled, logs: Floats, weight: float) -> Floats:
    """(posts, articles) what each says with its neighbours of the same fold."""
    assert data.words is not None and data.counted is not None
    found = np.empty(logs.shape)
    for fold in np.unique(data.folds):
        own = np.flatnonzero(data.folds == fold)
        words = chosen_terms(data.words, own)
        near = Neighbours(words, np.exp(logs[own]), data.counted)
        found[own] = near.mixed(logs[own], words, np.arange(len(own)), weight)
    return found


def reciprocal(scores: npt.NDArray[np.floating], related: Mask) -> Floats:
    """(posts,) one over the rank of the best true article, ties against it."""
    best = np.where(related, scores, -np.inf).max(1, keepdims=True)
    ranks: Floats = 1 / (1 + (~related & (scores >= best)).sum(1))
    return ranks


def _worth(scores: Floats, related: Mask) -> float:
    """The sum of MRR, recall@10 and pooled average precision, over the articles that posts are about."""
    pool = related.any(0)
    return (
        float(by_row(scores, related)[:, :2].mean(0).sum())
        + Pool(scores[:, pool], related[:, pool]).metrics()["pooled_ap"]
    )
