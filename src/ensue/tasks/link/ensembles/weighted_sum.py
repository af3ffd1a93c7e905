"""``best``: lexical scores of the whole article and of its head, and a learned one, in one weighted sum.

Each score is standardised over all articles, post by post: what counts is how far an article stands out among the
others for this post, whatever the post's length and words. A post may also be about **none** of them: with s_a the
weighted sum of article a and s_0 a number,

    P(a | post) = exp(s_a) / (exp(s_0) + sum over all articles b of exp(s_b)).

Weights and s_0 are those under which labelled posts are likeliest (``likelihood``): their true articles where these are
in the index, none where these are taken out of it, each half of the loss. One of the scores is the untrained sum, to
which few labels are shrunk.

**Posts together.** Many posts are about few articles, and a post that says little is about one that many discuss.
How much each article, and none, is discussed is found by expectation-maximisation over all the posts that are ranked
together (mixing proportions of fixed components; Dempster, Laird & Rubin 1977): a transductive prior. Its logarithm,
times a strength, joins the sums. No label is used. Held-out posts choose the strength; at 0 every post is ranked alone,
and below it, where posts are about one article each, what others are about is less likely.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.metrics import Floats

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, -0.5, -1.0)
"""Grid of the prior's strength, chosen on held-out posts."""
PSEUDO_COUNT = 0.5
_ROUNDS = 20
_TINY = 1e-9
_AT_ONCE = 1 << 12  # posts whose shares are held at once


def standardised(scores: npt.ArrayLike) -> Floats:
    """(…, articles) scores as distances from their mean, in their standard deviations; 0 where all are equal."""
    wide = np.asarray(scores, np.float64)
    # Standardise each row, so that posts of any length are comparable.
    distances = wide - wide.mean(-1, keepdims=True)
    spread = np.sqrt(np.einsum("...i,...i->...", distances, distances) / wide.shape[-1])[..., None]
    distances /= np.where(spread > _TINY, spread, 1.0)
    return distances


def transductive_prior(sums: Floats, strength: float, null_logit: float) -> Floats:
    """(articles + 1,) what joins each column of the sums and, last, s_0: strength times the logarithm of a proportion.

    Proportions are over those of no knowledge: half for none, the other half in equal parts. ``PSEUDO_COUNT`` of a post
    stands for each article, and as much for none as for all of them, so that nothing is ruled out.

    Args:
        sums: (posts, articles) weighted sums of the posts that are ranked together.
        strength: between -1 and 1; at 0 nothing is added.
        null_logit: s_0.
    """
    size = sums.shape[1]
    if not strength or not len(sums):
        return np.zeros(size + 1)
    likely = np.concatenate([sums, np.full((len(sums), 1), null_logit)], axis=1)
    np.exp(np.subtract(likely, likely.max(1, keepdims=True), out=likely), out=likely)
    start = np.append(np.full(size, 0.5 / size), 0.5)
    share = start
    for _ in range(_ROUNDS):
        moved = (share / start) ** strength
        counts = 2 * size * PSEUDO_COUNT * start
        for low in range(0, len(likely), _AT_ONCE):
            joint = likely[low : low + _AT_ONCE] * moved
            counts += (joint / joint.sum(1, keepdims=True)).sum(0)
        share = counts / counts.sum()
    return strength * np.log(share / start)


def log_shares(sums: Floats, prior: Floats, null_logit: float) -> Floats:
    """(posts, articles) ln P(article | post).

    Args:
        sums: (posts, articles).
        prior: (articles + 1,) of :func:`transductive_prior`.
        null_logit: s_0.
    """
    moved = sums + prior[:-1]
    top = np.maximum(moved.max(1, keepdims=True), null_logit + prior[-1])
    totals = np.exp(moved - top).sum(1, keepdims=True) + np.exp(null_logit + prior[-1] - top)
    return moved - top - np.log(totals)
