"""Bound on the relevant posts left, from a random sample of unread posts; see ``review``."""

from __future__ import annotations

import math

ROUNDED = 1 + 1e-9
"""By how much a probability must exceed alpha: where the two are equal, rounding shall not decide."""


def most_relevant(posts: int, sampled: int, hits: int, alpha: float) -> int:
    """The largest number of relevant posts among all that a sample with so few hits leaves possible.

    Args:
        posts: posts that the sample was drawn from.
        sampled: posts in the sample.
        hits: relevant ones among them.
        alpha: how improbable so few hits must be for a number to be ruled out.

    Returns:
        The largest K with P(X <= hits | posts, K, sampled) > alpha.
    """
    low, high = hits, posts - sampled + hits
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _at_most(posts, middle, sampled, hits) > alpha * ROUNDED else (low, middle - 1)
    return low


def audit_size(posts: int, found: int, hits: int, target: float, alpha: float) -> int:
    """Posts of a sample that shows the target to be reached if it holds so few relevant ones; all, where none does.

    Args:
        posts: posts that the sample is drawn from.
        found: relevant posts found before it.
        hits: relevant ones in the sample, which are found with it.
        target: the recall to reach.
        alpha: as in :func:`most_relevant`.
    """
    allowed = hits + allowed_misses(found + hits, target)
    low, high = min(hits, posts), posts
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if most_relevant(posts, middle, hits, alpha) <= allowed else (middle + 1, high)
    return low


def allowed_misses(found: int, target: float) -> int:
    """Relevant posts that may be missing beside so many."""
    return math.floor(found / target - found + 1e-9)


def _at_most(posts: int, relevant: int, sampled: int, hits: int) -> float:
    """P(X <= hits) of the hypergeometric distribution."""
    log_total = log_choose(posts, sampled)
    fewest = max(0, sampled - (posts - relevant))
    terms = (
        log_choose(relevant, x) + log_choose(posts - relevant, sampled - x) - log_total for x in range(fewest, hits + 1)
    )
    return math.fsum(math.exp(term) for term in terms)


def log_choose(n: int, k: int) -> float:
    """The logarithm of a binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else -math.inf
