"""The weights of ``best``: those under which labelled posts are likeliest, shrunk towards a sum that needs no label.

With x_a the standardised scores of article a for a post, s_a = w · x_a, and s_0 a number that stands for no article, a
post's loss is half that of its true articles t where they are in the index, half that of none where they are taken out:

    L = (ln(e^s_0 + sum_a e^s_a) - ln(sum_t e^s_t) + ln(e^s_0 + sum_a not t e^s_a) - s_0) / 2.

One weight, the centre's, is hardly bound, s_0 not at all; every other one is drawn to 0 by the penalty times its
square, once for all posts. The centre is a score that needs no label: without labels it is all there is, and the more
labels the less the penalty counts: the mode under a normal prior around that score (ridge; Hoerl & Kennard 1970).

Every score rises with what a post and an article share, and none counts against an article: no weight but the centre's
is below 0. Scores are so alike that free weights take one off against another, which fits the labelled posts and ranks
others worse. What would be below 0 is left out, the lowest first, until nothing is (Lawson & Hanson 1974).

The middle term is concave. Replaced by its tangent it gives a convex bound, whose Newton step never raises the loss if
it is halved where it would (Lange, Hunter & Yang 2000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.metrics import Floats
from ensue.tasks.link.measures import Mask

CANDIDATES, SAMPLED = 128, 64
"""Articles of a post that are looked at: those that any score likes most, and some of the others."""
_ROUNDS, _HALVINGS = 50, 20
_START, _SCALE, _TINY = 5.0, 0.1, 1e-9  # _SCALE keeps the centre finite where labels are told apart perfectly


class Candidates(NamedTuple):
    """Articles of each post, so many that a fit costs the same whatever the size of the index.

    Attributes:
        scores: (posts, candidates, scores) standardised.
        true: (posts, candidates) whether the post is about the article.
        times: (posts, candidates) the logarithm of how many articles each stands for.
    """

    scores: Floats
    true: Mask
    times: Floats

    def select(self, posts: Mask) -> Candidates:
        """Return the candidates of some posts."""
        return Candidates(self.scores[posts], self.true[posts], self.times[posts])


def candidates(scores: npt.NDArray[np.float32], related: Mask, seed: int = 0) -> Candidates:
    """The articles of each post that are true or that any score likes most, and some drawn from the others.

    Of 1,000 articles 128 are the best and stand for themselves; 64 drawn from the other 872 stand for 872 / 64 each.

    Args:
        scores: (posts, articles, scores) standardised.
        related: (posts, articles).
        seed: of the draw.
    """
    num, size, _ = scores.shape
    if size <= CANDIDATES + SAMPLED:
        return Candidates(scores.astype(np.float64), related, np.zeros((num, size)))
    order = np.argpartition(-np.where(related, np.inf, scores.max(2)), CANDIDATES, axis=1)
    drawn = np.random.default_rng(seed).integers(CANDIDATES, size, (num, SAMPLED))
    chosen = np.concatenate([order[:, :CANDIDATES], np.take_along_axis(order, drawn, axis=1)], axis=1)
    times = np.zeros(chosen.shape)
    times[:, CANDIDATES:] = np.log((size - CANDIDATES) / SAMPLED)
    true = np.take_along_axis(related, chosen, axis=1)
    return Candidates(np.take_along_axis(scores, chosen[:, :, None], axis=1).astype(np.float64), true, times)


def losses(posts: Candidates, weights: Floats) -> Floats:
    """(posts,) the loss of each.

    Args:
        posts: their candidates; each has a true one.
        weights: (scores + 1,), s_0 last.
    """
    every, true, others = _logs(posts, weights)
    each: Floats = (_total(every) - _total(true) + _total(others) - weights[-1]) / 2
    return each


def fit_weights(posts: Candidates, penalty: float, start: Floats | None = None, centre: int = 0) -> Floats:
    """(scores + 1,) the weights of least loss, s_0 last.

    Args:
        posts: candidates of labelled posts; each has a true one.
        penalty: on the squares of all weights but the centre's and s_0, once for all posts.
        start: where to begin; nothing but the centre, of weight 1, if none.
        centre: the place of the score that the others are drawn to.
    """
    found, kept = np.zeros(posts.scores.shape[2] + 1), np.arange(posts.scores.shape[2] + 1)
    while True:
        part = posts._replace(scores=posts.scores[:, :, kept[:-1]])
        weights = _free_weights(part, penalty, start, int(np.searchsorted(kept, centre)))
        bound = np.where(kept == centre, 0.0, weights)[:-1]
        lowest = int(bound.argmin())
        if bound[lowest] >= 0:
            break
        kept, start = np.delete(kept, lowest), np.delete(weights, lowest)
    found[kept] = weights
    return found


def _free_weights(posts: Candidates, penalty: float, start: Floats | None, centre: int) -> Floats:
    """Fit the weights without the constraint on their signs."""
    num = posts.scores.shape[2]
    ridge, weights = np.full(num + 1, penalty), np.zeros(num + 1)
    ridge[[centre, -1]], weights[[centre, -1]] = (_SCALE, _TINY), (1.0, _START)
    weights = weights if start is None else start
    if not len(posts.true):
        return weights
    loss = float(losses(posts, weights).sum() + ridge @ weights**2)
    for _ in range(_ROUNDS):
        slope, curvature = _derivatives(posts, weights)
        step = np.linalg.solve(curvature + 2 * np.diag(ridge), slope + 2 * ridge * weights)
        for _ in range(_HALVINGS):
            new = weights - step
            lower = float(losses(posts, new).sum() + ridge @ new**2)
            if lower <= loss:
                break
            step = step / 2
        else:
            return weights
        gained, weights, loss = loss - lower, new, lower
        if gained <= 1e-7 * abs(loss):
            break
    return weights


def _derivatives(posts: Candidates, weights: Floats) -> tuple[Floats, Floats]:
    """(scores + 1,) the slope of the loss, and (scores + 1, scores + 1) the curvature of its convex bound."""
    every, true, others = (_shares(part) for part in _logs(posts, weights))
    num, _, width = posts.scores.shape
    moved = (every + others)[:, :-1] - true
    none = float((every + others)[:, -1].sum() - num)
    slope = np.append(np.einsum("pc,pcs->s", moved, posts.scores), none) / 2
    curvature = np.zeros((width + 1, width + 1))
    for share in (every, others):
        weighted = share[:, :-1, None] * posts.scores
        means = np.concatenate([weighted.sum(1), share[:, -1:]], axis=1)
        curvature[:-1, :-1] += np.tensordot(weighted, posts.scores, axes=([0, 1], [0, 1]))
        curvature[-1, -1] += share[:, -1].sum()
        curvature -= means.T @ means
    return slope, curvature / 2


def _logs(posts: Candidates, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The exponents of the three sums: of all articles and none, of the true ones, and of the others and none."""
    sums = posts.scores @ weights[:-1] + posts.times
    none = np.full((len(sums), 1), weights[-1])
    return (
        np.concatenate([sums, none], axis=1),
        np.where(posts.true, sums, -np.inf),
        np.concatenate([np.where(posts.true, -np.inf, sums), none], axis=1),
    )


def _total(logs: Floats) -> Floats:
    """(posts,) the logarithm of the sum of what the exponents give."""
    top = logs.max(1)
    total: Floats = top + np.log(np.exp(logs - top[:, None]).sum(1))
    return total


def _shares(logs: Floats) -> Floats:
    """Return the softmax of each row of exponents."""
    shares: Floats = np.exp(logs - _total(logs)[:, None])
    return shares
