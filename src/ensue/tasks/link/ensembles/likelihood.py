"""The weights of ``best``: those under which labelled posts are likeliest, shrunk towards a sum that needs no label.

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

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Mask
from ensue.learning import ensemble
from ensue.learning.ensemble import Candidates
from ensue.metrics import Floats

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
