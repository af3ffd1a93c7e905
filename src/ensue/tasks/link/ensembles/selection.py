"""Select the weighted sum on labelled posts: weights, the null logit and the strength of the cross-post prior.

Each fold of the posts is scored by the weights of the other folds; the final weights are fitted on all folds.

The weights of ``best``: those under which labelled posts are likeliest, shrunk towards a sum that needs no label.

With x_a the standardised scores of article a for a post, s_a = w . x_a, and s_0 a number that stands for no article, a
post's loss is half that of its true articles t where they are in the index, half that of none where they are taken out:

    L = (ln(e^s_0 + sum_a e^s_a) - ln(sum_t e^s_t) + ln(e^s_0 + sum_a not t e^s_a) - s_0) / 2.

The two halves are two sets of candidates of :mod:`ensue.learning.ensemble`, with s_0 as the weight of a feature that
only "no article" has. The weight of the centre is hardly bound and s_0 not at all; all others are drawn to 0 by the
penalty times their squares, once for all posts. The centre is a score that needs no label: without labels it is used
alone, and the more labels the less the penalty counts: the mode under a normal prior around that score (ridge; Hoerl &
Kennard 1970).

Each score rises with what a post and an article share, so no weight but the centre's may be below 0. Scores are so
correlated that free weights subtract one from another, which fits the labelled posts and ranks others worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, Mask
from ensue.learning import ensemble
from ensue.learning.ensemble import Candidates
from ensue.metrics import Floats
from ensue.significance import exceeds_standard_error, significantly_positive
from ensue.tasks.link.ensembles.neighbours import WEIGHTS, PostNeighbours
from ensue.tasks.link.ensembles.weighted_sum import STRENGTHS, log_shares, transductive_prior
from ensue.tasks.link.folds import FOLDS
from ensue.tasks.link.link_metrics import Pool, by_row
from ensue.text.lexical import Lexical, chosen_terms
from ensue.text.terms import Terms

CANDIDATES, SAMPLED = 128, 64
"""Candidate articles of a post: the best by any score, and a sample of the others."""
START = 5.0
"""Initial value of s_0."""
CENTRE_PENALTY, NULL_PENALTY = 0.1, 1e-9
"""Penalties on the centre's weight, which keeps it finite where labels are separable, and on s_0."""


def _halves(posts: Candidates) -> tuple[Candidates, Candidates]:
    """Return the posts with their true articles in the index, and with these taken out of it."""
    is_null = np.zeros_like(posts.true)
    is_null[:, -1] = True
    return posts, posts._replace(true=is_null, offsets=np.where(posts.true, -np.inf, posts.offsets))


def candidates(scores: npt.NDArray[np.float32], related: Mask, seed: int = 0) -> Candidates:
    """Return the candidates of each post: true articles, the best by any score, and a sample of the others.

    "No article" is the last candidate; the last feature is 1 for it alone.

    Of 1,000 articles the best 128 stand for themselves; 64 sampled from the other 872 stand for 872 / 64 each.

    Args:
        scores: (posts, articles, scores) standardised.
        related: (posts, articles).
        seed: of the sample.
    """
    num, size, width = scores.shape
    true, offsets = related, np.zeros((num, size))
    if size > CANDIDATES + SAMPLED:
        order = np.argpartition(-np.where(related, np.inf, scores.max(2)), CANDIDATES, axis=1)
        sampled = np.random.default_rng(seed).integers(CANDIDATES, size, (num, SAMPLED))
        columns = np.concatenate([order[:, :CANDIDATES], np.take_along_axis(order, sampled, axis=1)], axis=1)
        offsets = np.zeros(columns.shape)
        offsets[:, CANDIDATES:] = np.log((size - CANDIDATES) / SAMPLED)
        true = np.take_along_axis(related, columns, axis=1)
        scores = np.take_along_axis(scores, columns[:, :, None], axis=1)
    features = np.zeros((num, scores.shape[1] + 1, width + 1))
    features[:, :-1, :-1] = scores
    features[:, -1, -1] = 1.0
    return Candidates(features, np.pad(true, ((0, 0), (0, 1))), np.pad(offsets, ((0, 0), (0, 1))))


def losses(posts: Candidates, weights: Floats) -> Floats:
    """Return the loss of each post, (posts,).

    Args:
        posts: their candidates; each post has a true one.
        weights: (scores + 1,), s_0 last.
    """
    return np.mean([half.losses(weights) for half in _halves(posts)], axis=0)


def fit_weights(posts: Candidates, penalty: float, start: Floats | None = None, centre: int = 0) -> Floats:
    """Return the weights of least loss, (scores + 1,), s_0 last.

    Args:
        posts: candidates of labelled posts; each post has a true one.
        penalty: on the squares of all weights but the centre's and s_0, once for all posts.
        start: initial weights. [default: the centre alone, of weight 1]
        centre: index of the score that the others are drawn to.
    """
    penalties = np.full(posts.features.shape[2], penalty)
    penalties[[centre, -1]] = CENTRE_PENALTY, NULL_PENALTY
    if start is None:
        start = np.zeros(len(penalties))
        start[[centre, -1]] = 1.0, START
    if not len(posts.true):
        return start
    non_negative = np.ones(len(penalties), np.bool_)
    non_negative[[centre, -1]] = False
    # The halves add up to twice the loss, and the precision of a normal prior is twice the penalty on squares.
    precision = 4 * penalties
    mean = np.zeros(len(penalties))
    return ensemble.fit_weights(_halves(posts), mean, precision, start=start, non_negative=non_negative)


UNTRAINED = "untrained"
"""The score that needs no label, with which all others are compared."""
PENALTIES = (10_000.0, 1000.0, 100.0, 10.0, 1.0)
"""Grid of the L2 penalty that draws weights to the central score, chosen by held-out ranks."""
NULL_REDUCTIONS = (0.0, 2.0)
"""Grid of the reduction of s_0, chosen on held-out posts; 2 makes "no article" e^2 times less likely. It is bounded
because no label says which posts are about no article."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled posts that weights are fitted on, with all their scores.

    Attributes:
        names: of the scores, one that needs no label first; ``UNTRAINED`` is among them.
        scores: (posts, articles, scores) standardised.
        related: (posts, articles).
        folds: (posts,).
        words: of the posts, by which those of a corpus are neighbours; ``None`` to rank without neighbours.
        lexical: the articles' words.
    """

    names: list[str]
    scores: npt.NDArray[np.float32]
    related: Mask
    folds: Index
    words: Terms | None = None
    lexical: Lexical | None = None

    @property
    def clusters(self) -> Index:
        """Return :func:`clusters` of the posts, (posts,)."""
        return clusters(self.related)

    def with_score(self, column: int) -> Labelled:
        """Return the data with a single score."""
        return replace(self, names=[self.names[column]], scores=self.scores[:, :, [column]])


def clusters(related: Mask) -> Index:
    """Return the first article of each post, (posts,): posts about one article are right and wrong together."""
    # argmax of a mask is its first True.
    return np.unique(related.argmax(1), return_inverse=True)[1]


class Prior(NamedTuple):
    """Influence of the posts of one corpus on each other's ranking."""

    null_reduction: float
    """Reduction of s_0."""
    strength: float
    """Strength of the cross-post prior."""
    neighbour_weight: float
    """Weight of the articles of posts with the same rare words."""
    scores: Floats
    """(posts, articles) log probabilities, of each fold by weights of the other folds."""


@dataclass(frozen=True, eq=False)
class Selection:
    """Weights fitted on labelled posts.

    Attributes:
        weights: by name of a score; of one name where that score is used alone.
        null_logit: s_0.
        prior: selected on held-out posts.
        penalty: how strongly the weights are drawn to the centre.
        score_mrr: MRR of each score alone.
        single_ranks: (posts,) reciprocal rank of the best true article of each held-out post, each ranked alone.
    """

    weights: dict[str, float]
    null_logit: float
    prior: Prior
    penalty: float
    score_mrr: dict[str, float]
    single_ranks: Floats


def is_alike(data: Labelled, subset: Mask, seed: int = 0) -> bool:
    """Return whether held-out posts of a subset are as likely with weights of all posts as with those of the subset.

    Args:
        data: labelled posts.
        subset: (posts,) posts of the subset.
        seed: of the articles that are sampled as candidates.
    """
    posts = candidates(data.scores, data.related, seed)
    difference = 0.0
    for fold in range(FOLDS):
        in_fold = data.folds == fold
        all_weights, subset_weights = (
            fit_weights(posts.select(train & ~in_fold), PENALTIES[-2]) for train in (subset | True, subset)
        )
        test = posts.select(subset & in_fold)
        difference += float((losses(test, all_weights) - losses(test, subset_weights)).sum())
    return difference <= 0


def select_weights(data: Labelled, seed: int = 0, *, together: bool = True) -> Selection:
    """Return weights where they rank held-out posts better than each score alone does; else the best single score.

    The centre is the first score, which needs no label, unless held-out posts are ranked better by the untrained one.
    A replacement must be better by more than one standard error (not a test of significance: the one-standard-error
    rule of Breiman et al. 1984), and so must a prior over posts: a score by its MRR; weights, whose MRR must be above
    that of every score, by MRR or by how likely they make held-out posts.

    The penalty is selected by ranks: free weights make labels far likelier and rank no better, and posts unlike the
    labelled ones worse. The penalty under which labels are likeliest replaces it where it ranks held-out posts
    significantly better as they will be ranked, together where posts inform each other.

    Args:
        data: labelled posts.
        seed: of the articles that are sampled as candidates.
        together: whether posts may inform each other's ranking; they do not where folds split the posts of an article.
    """
    ranks = [reciprocal_ranks(data.scores[:, :, column], data.related) for column in range(len(data.names))]
    score_mrr = {name: float(rank.mean()) for name, rank in zip(data.names, ranks, strict=True)}
    untrained = data.names.index(UNTRAINED)
    centre = 0 if ranks[0].mean() >= ranks[untrained].mean() else untrained
    # Labels of few articles, or of one above all, say nothing of how many posts of a corpus are about the same one.
    are_articles_unsplit = len(np.unique(data.clusters * FOLDS + data.folds)) == len(np.unique(data.clusters))
    strengths = STRENGTHS if together and are_articles_unsplit else STRENGTHS[:1]
    posts = candidates(data.scores, data.related, seed)
    fits = _fits(data, posts, centre)
    fit = _by_ranks(data, fits)
    likeliest = _by_likelihood(data, fits)
    prior = _select_prior(data, fit, strengths)
    if likeliest.penalty != fit.penalty:
        other_prior = _select_prior(data, likeliest, strengths)
        gains = reciprocal_ranks(other_prior.scores, data.related) - reciprocal_ranks(prior.scores, data.related)
        if significantly_positive(gains, data.clusters):
            fit, prior = likeliest, other_prior
    fit_ranks = reciprocal_ranks(_cross_fitted_sums(data, fit), data.related)
    best = max(range(len(ranks)), key=lambda column: float(ranks[column].mean()))
    centre_data = data.with_score(centre)
    centre_fit = _fits(centre_data, candidates(centre_data.scores, data.related, seed))[0]
    all_gains = (fit_ranks - ranks[centre], centre_fit.losses - fit.losses)
    is_clear = any(exceeds_standard_error(gains, data.clusters) for gains in all_gains)
    if fit_ranks.mean() <= ranks[best].mean() or not is_clear:
        data = data.with_score(best if exceeds_standard_error(ranks[best] - ranks[centre], data.clusters) else centre)
        posts = candidates(data.scores, data.related, seed)
        centre = 0
        fit = _fits(data, posts)[0]
        prior = _select_prior(data, fit, strengths)
        fit_ranks = reciprocal_ranks(_cross_fitted_sums(data, fit), data.related)
    fitted = fit_weights(posts, fit.penalty, fit.by_fold.mean(0), centre)
    weights = dict(zip(data.names, fitted[:-1].tolist(), strict=True))
    return Selection(weights, float(fitted[-1]) - prior.null_reduction, prior, fit.penalty, score_mrr, fit_ranks)


class _Fit(NamedTuple):
    """Weights under one penalty."""

    penalty: float
    by_fold: Floats
    """(folds, scores + 1) weights fitted on the posts outside each fold."""
    losses: Floats
    """(posts,) loss of each post under the weights of its fold."""


def _fits(data: Labelled, posts: Candidates, centre: int = 0) -> list[_Fit]:
    """Return weights under each penalty, the highest first; of one score, which is the centre, under one."""
    starts: list[Floats | None] = [None] * FOLDS
    fits = []
    for penalty in PENALTIES if len(data.names) > 1 else PENALTIES[:1]:
        post_losses = np.empty(len(data.folds))
        by_fold = np.empty((FOLDS, len(data.names) + 1))
        for fold in range(FOLDS):
            in_fold = data.folds == fold
            by_fold[fold] = fit_weights(posts.select(~in_fold), penalty, starts[fold], centre)
            starts[fold] = by_fold[fold]
            post_losses[in_fold] = losses(posts.select(in_fold), by_fold[fold])
        fits.append(_Fit(penalty, by_fold, post_losses))
    return fits


def _by_ranks(data: Labelled, fits: Sequence[_Fit]) -> _Fit:
    """Return the highest penalty under which held-out posts are not ranked significantly worse than under any."""
    ranks = [reciprocal_ranks(_cross_fitted_sums(data, fit), data.related) for fit in fits]
    best = max(ranks, key=lambda rank: float(rank.mean()))
    pairs = zip(fits, ranks, strict=True)
    return next(fit for fit, rank in pairs if not significantly_positive(best - rank, data.clusters))


def _by_likelihood(data: Labelled, fits: Sequence[_Fit]) -> _Fit:
    """Return the highest penalty whose held-out loss is within a standard error of the lowest (Breiman et al. 1984)."""
    best = min(fits, key=lambda fit: float(fit.losses.sum()))
    return next(fit for fit in fits if not exceeds_standard_error(fit.losses - best.losses, data.clusters))


def _cross_fitted_sums(data: Labelled, fit: _Fit) -> Floats:
    """Return the weighted sums of each fold by the weights of the other folds, (posts, articles)."""
    sums = np.empty(data.related.shape)
    for fold, weights in enumerate(fit.by_fold):
        in_fold = data.folds == fold
        sums[in_fold] = data.scores[in_fold] @ weights[:-1].astype(np.float32)
    return sums


def _select_prior(data: Labelled, fit: _Fit, strengths: Sequence[float]) -> Prior:
    """Select the reduction of s_0, the strength of the cross-post prior and the weight of neighbours.

    Each fold is ranked as a corpus, by weights of the others. No label says which posts are about no article; the loss
    has as many of them as of others, and ranks posts together worse where that is far from what is scored.
    """
    sums = _cross_fitted_sums(data, fit)

    def log_probabilities(null_reduction: float, strength: float) -> Floats:
        logs = np.empty(sums.shape)
        for fold, weights in enumerate(fit.by_fold):
            in_fold = data.folds == fold
            null_logit = float(weights[-1]) - null_reduction
            prior = transductive_prior(sums[in_fold], strength, null_logit)
            logs[in_fold] = log_shares(sums[in_fold], prior, null_logit)
        return logs

    best = Prior(0.0, 0.0, 0.0, sums)
    best_quality = -1.0
    single_ranks: dict[float, Floats] = {}
    for neighbour_weight in WEIGHTS if len(strengths) > 1 and data.words is not None else WEIGHTS[:1]:
        for null_reduction in (best.null_reduction,) if neighbour_weight else NULL_REDUCTIONS:
            for strength in strengths:
                scores = log_probabilities(null_reduction, strength)
                if neighbour_weight:
                    scores = _with_neighbours(data, scores, neighbour_weight)
                ranks = reciprocal_ranks(scores, data.related)
                is_single = not (strength or neighbour_weight)  # the first of each reduction
                if is_single:
                    single_ranks[null_reduction] = ranks
                quality = _quality(scores, data.related)
                if quality > best_quality and (
                    is_single or exceeds_standard_error(ranks - single_ranks[null_reduction], data.clusters)
                ):
                    best = Prior(null_reduction, strength, neighbour_weight, scores)
                    best_quality = quality
    return best


def _with_neighbours(data: Labelled, logs: Floats, weight: float) -> Floats:
    """Return log probabilities of each post, smoothed over its neighbours in the same fold, (posts, articles)."""
    assert data.words is not None and data.lexical is not None
    smoothed = np.empty(logs.shape)
    for fold in np.unique(data.folds):
        posts = np.flatnonzero(data.folds == fold)
        words = chosen_terms(data.words, posts)
        neighbours = PostNeighbours(words, np.exp(logs[posts]), data.lexical)
        smoothed[posts] = neighbours.mixed(logs[posts], words, np.arange(len(posts)), weight)
    return smoothed


def reciprocal_ranks(scores: npt.NDArray[np.floating], related: Mask) -> Floats:
    """Return one over the rank of the best true article, (posts,); ties count against it."""
    best = np.where(related, scores, -np.inf).max(1, keepdims=True)
    return 1 / (1 + (~related & (scores >= best)).sum(1))


def _quality(scores: Floats, related: Mask) -> float:
    """Return the sum of MRR, recall@10 and pooled average precision, over the articles that posts are about."""
    pool = related.any(0)
    pooled_ap = Pool(scores[:, pool], related[:, pool]).metrics()["pooled_ap"]
    return float(by_row(scores, related)[:, :2].mean(0).sum()) + pooled_ap
