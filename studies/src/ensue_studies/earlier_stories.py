"""Estimates of the unread relevant posts from simulated reviews of earlier stories, and the stopping rule.

Two estimates of what is left are at hand at any time: what the posterior **expects**, the sum of the probabilities of
the unread posts, and what the posts read **lately** would leave, were the rest like them: their share of hits times the
posts unread. The first is smooth but biased by as much as the model is, the second is fair to the tail of the ranking
but coarse. How far the model is off in this story shows in what it said of each post before it was read: hits over the
sum of these probabilities, of the latest posts and of all. The earlier stories tell what all that is worth together,

    ln E[left] = a + b ln(expected + 1/10) + c ln(lately + 1/10)
                   + d ln(hits + 1/2 over predicted + 1/2, lately) + e ln(the same of all read),

a count regression (Poisson weights, McCullagh & Nelder 1989, chapter 6), and how far stories lie around it: left is
negative binomial of variance m + spread m^2. Hence the chance that no more is left than the target lets be missed.

**Calibrated.** Chances are no promise, so that the rank of a story among others is: each earlier story, told by the
regression of the others (``FOLDS``), has a highest chance at which it was still short of its target, and reading stops
above the k-th smallest of these (split conformal prediction, :func:`conformal_threshold`). This assumes that the story
is like the n others, that is, exchangeable with them: then the rank of its own number among the n + 1 is uniform (Vovk,
Gammerman & Shafer 2005; Lei et al., JASA 2018; the regression is cross-fitted, which in practice costs nothing). Fewer
than 59 stories give no threshold at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.learning.ensemble import minimise
from ensue.metrics import Floats
from ensue.tasks.link.review.review import (
    Answers,
    ReviewQueue,
    ReviewSettings,
    allowed_misses,
    audit_size,
    log_choose,
    telling,
)
from ensue.text.sparse import SparseRows

FOLDS = 5
NEAR = 0.75
"""Share of its relevant posts from which a story teaches the regression: stopping is not thought of before."""
_ADDED, _RIDGE, _TOLERANCE = 0.1, 1e-3, 1e-15


class Walk(NamedTuple):
    """A simulated review to behind its target.

    Attributes:
        posts: posts in all.
        relevant: how many of them are.
        order: (read,) the posts as they were read.
        hits: (read,) whether each is relevant.
        predicted: (read,) the probability that the model gave to each before it was read.
        read: (batches,) posts that were read after each.
        expected: (batches,) sum of the probabilities of the unread.
    """

    posts: int
    relevant: int
    order: Index
    hits: np.ndarray[tuple[int], np.dtype[np.bool_]]
    predicted: Floats
    read: Index
    expected: Floats

    @property
    def found(self) -> Index:
        """(batches,) relevant posts among the read."""
        found: Index = np.cumsum(self.hits, dtype=np.int64)[self.read - 1]
        return found

    def features(self, target: float) -> Floats:
        """(batches, 5) of :func:`features`."""
        rows = zip(self.read.tolist(), self.found.tolist(), self.expected.tolist(), strict=True)
        return np.stack([
            features(self.hits[:read], self.predicted[:read], self.posts - read, found, expected, target)
            for read, found, expected in rows
        ])  # fmt: skip

    def short(self, target: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(batches,) whether the target was not reached yet."""
        return self.found < target * self.relevant


def simulate(
    start: Floats, rows: SparseRows, relevant: npt.NDArray[np.bool_], settings: ReviewSettings | None = None
) -> Walk:
    """A simulated review of a story whose labels are known, to twice as many posts as its target took at most.

    Args:
        start: as in :func:`ensue.tasks.link.review.review.review`.
        rows: as in :func:`ensue.tasks.link.review.review.review`.
        relevant: (posts,) the truth; of one post at least.
        settings: its target and its batch count.
    """
    settings = ReviewSettings() if settings is None else settings
    order: list[int] = []
    predicted: list[float] = []

    def ask(posts: Index) -> Answers:
        order.extend(posts.tolist())
        predicted.extend(reader.probabilities()[posts].tolist())
        return relevant[posts]

    reader = ReviewQueue(start, rows, ask)
    total = int(relevant.sum())
    last = len(start)
    read, expected = [], []
    for _ in reader.read_on(settings, patient=True):
        read.append(len(order))
        expected.append(reader.expected())
        if reader.found >= settings.target * total:
            last = min(last, 2 * len(order))
        if reader.found == total or len(order) >= last:
            break
    columns = (np.array(order), relevant[order], np.array(predicted), np.array(read), np.array(expected))
    return Walk(len(start), total, *columns)


@dataclass(frozen=True)
class LeftModel:
    """The regression: ``weights`` a to e, and ``spread``."""

    weights: tuple[float, ...]
    spread: float

    def log_chance(self, features: Floats, allowed: int) -> float:
        """The logarithm of P(left <= allowed), by the sum of the negative binomial's terms."""
        mean = math.exp(min(max(float(features @ self.weights), -20), 20))
        return _log_chance(mean, self.spread, allowed)

    def chances(self, walk: Walk, target: float) -> Floats:
        """(batches,) of :meth:`log_chance`."""
        rows = zip(walk.features(target), walk.found.tolist(), strict=True)
        return np.array([self.log_chance(known, allowed_misses(found, target)) for known, found in rows])

    @classmethod
    def fit(cls, walks: Sequence[Walk], target: float) -> LeftModel:
        """Every story weighs as much, whatever the batches it was near its target."""
        near = [walk.found >= NEAR * walk.relevant for walk in walks]
        sides = [(walk.features(target)[own], walk.relevant - walk.found[own], own.sum())
                 for walk, own in zip(walks, near, strict=True) if own.any()]  # fmt: skip
        rows, left = (np.concatenate([side[part] for side in sides]) for part in (0, 1))
        shares = np.concatenate([np.full(side[2], 1 / side[2]) for side in sides])

        def loss(weights: Floats) -> float:
            logs = np.clip(rows @ weights, -20, 20)
            return float((shares * (np.exp(logs) - left * logs)).sum() + _RIDGE / 2 * weights @ weights)

        def newton_step(weights: Floats) -> Floats:
            mean = np.exp(np.clip(rows @ weights, -20, 20))
            gradient = rows.T @ (shares * (left - mean)) - _RIDGE * weights
            curvature = (rows * (shares * mean)[:, None]).T @ rows + _RIDGE * np.eye(len(weights))
            return np.linalg.solve(curvature, gradient)

        start = np.zeros(rows.shape[1])
        start[0] = math.log(float(np.average(left, weights=shares)) + _ADDED)
        weights = minimise(start, loss, newton_step, _TOLERANCE)
        mean = np.exp(np.clip(rows @ weights, -20, 20))
        spread = float((shares * ((left - mean) ** 2 - mean)).sum() / (shares * mean**2).sum())
        return cls(tuple(weights.tolist()), max(spread, 0.0))


@dataclass(frozen=True)
class StoppingRule:
    """Stopping rule of a review, calibrated on earlier stories.

    Attributes:
        left: what the estimates are worth.
        threshold: the logarithm of a chance, above which reading stops.
        target: the recall that it vouches for.
        stories: whose reviews were simulated.
        wrong: of these, how many would have been stopped short by what the other folds taught.
    """

    left: LeftModel
    threshold: float
    target: float
    stories: int
    wrong: int

    def is_reached(
        self, hits: npt.NDArray[np.bool_], predicted: Floats, unread: int, found: int, expected: float
    ) -> bool:
        """Return whether the target is reached.

        Args:
            hits: (read,) whether each post that was read is relevant, in the order of reading.
            predicted: (read,) the probability that the model gave to each before it was read.
            unread: number of posts.
            found: relevant posts in all, those of earlier sittings among them.
            expected: the sum of the probabilities of the unread.
        """
        row = features(hits, predicted, unread, found, expected, self.target)
        return self.left.log_chance(row, allowed_misses(found, self.target)) > self.threshold


class Stopped(NamedTuple):
    """A review that a rule may stop.

    Attributes:
        labelled: number of posts that were read.
        found: relevant posts among them.
        certificate: unread posts of a random sample that, holding none that is relevant, would confirm the rule;
            ``None`` where it did not stop the review.
    """

    labelled: int
    found: int
    certificate: int | None


def review_by_rule(
    start: Floats, rows: SparseRows, ask: Callable[[Index], Answers], rule: StoppingRule, confidence: float = 0.95
) -> Stopped:
    """Read the best posts until the rule says that its target is reached, or all are read.

    Args:
        start: as in :func:`ensue.tasks.link.review.review.review`.
        rows: as in :func:`ensue.tasks.link.review.review.review`.
        ask: the reader.
        rule: of earlier stories.
        confidence: of the certificate.
    """
    hits: list[bool] = []
    predicted: list[float] = []

    def ask_and_note(posts: Index) -> Answers:
        answers = ask(posts)
        hits.extend((answers == 1).tolist())
        predicted.extend(reader.probabilities()[posts[: len(answers)]].tolist())
        return answers

    reader = ReviewQueue(start, rows, ask_and_note)
    for _ in reader.read_on(ReviewSettings(target=rule.target), patient=True):
        unread = len(reader.unread())
        if rule.is_reached(np.array(hits), np.array(predicted), unread, reader.found, reader.expected()):
            size = audit_size(unread, reader.found, 0, rule.target, 1 - confidence)
            return Stopped(len(hits), reader.found, size)
    return Stopped(len(hits), reader.found, None)


def stopping_rule(walks: Sequence[Walk], target: float = 0.9, confidence: float = 0.95) -> StoppingRule | None:
    """Return the rule calibrated on earlier stories; ``None`` if they are too few for the confidence.

    Args:
        walks: simulated reviews of stories whose labels are known, each with a relevant post.
        target: the recall to reach.
        confidence: of the statement.
    """
    if conformal_threshold([0.0] * len(walks), confidence) is None:
        return None
    highest = np.zeros(len(walks))
    for fold in range(FOLDS):
        taught = LeftModel.fit([walk for number, walk in enumerate(walks) if number % FOLDS != fold], target)
        for number in range(fold, len(walks), FOLDS):
            walk = walks[number]
            short = taught.chances(walk, target)[walk.short(target)]
            highest[number] = short.max() if len(short) else -math.inf
    threshold = conformal_threshold(highest.tolist(), confidence)
    assert threshold is not None
    return StoppingRule(LeftModel.fit(walks, target), threshold, target, len(walks), int((highest > threshold).sum()))


def conformal_threshold(shortfalls: Sequence[float], confidence: float = 0.95) -> float | None:
    """The number above which a new story has reached its target with this confidence.

    The k-th smallest of n leaves a new story short with a chance that hangs on which stories were drawn: by their mean
    it is what k = ceil((n + 1) confidence) gives, but about half of the draws give more. So k is the first that keeps
    it below 1 - confidence in all but 1 - confidence of draws (Wilks 1941; Vovk, ACML 2012): the number of earlier
    stories above the true quantile is binomial, and P(Bin(n, 1 - confidence) <= n - k) <= 1 - confidence.

    Args:
        shortfalls: of each earlier story the highest number at which it was still short.
        confidence: of the statement, and of its being so for the stories at hand.

    Returns:
        The k-th smallest, of 199 stories at 95 % the 195th; ``None`` where there are too few, below 59 at 95 %.
    """
    num, above, chance = len(shortfalls), 0, 0.0
    for above in range(num + 1):
        rest = num - above
        chance += math.exp(log_choose(num, above) + above * math.log1p(-confidence) + rest * math.log(confidence))
        if chance > 1 - confidence:
            break
    return sorted(shortfalls)[num - above] if above else None


def features(
    hits: npt.NDArray[np.bool_], predicted: Floats, unread: int, found: int, expected: float, target: float
) -> Floats:
    """(5,) what the regression weighs.

    Of 100 unread and 18 found with a target of .9, the latest 50 count (:func:`telling`); with one hit among them, the
    rest being like them leaves 1.5 / 50 x 100: half a hit is added.

    Args are those of :meth:`StoppingRule.is_reached`, and the recall to reach.
    """
    latest = slice(-telling(unread, found, target) if unread else None, None)
    some, said, whole = int(hits[latest].sum()), float(predicted[latest].sum()), float(predicted.sum())
    lately = (some + 0.5) / max(len(hits[latest]), 1) * unread
    off = ((some + 0.5) / (said + 0.5), (int(hits.sum()) + 0.5) / (whole + 0.5))
    return np.log([math.e, expected + _ADDED, lately + _ADDED, *off])


@cache
def _log_factorial(number: int) -> float:
    return math.lgamma(number + 1)


def _log_chance(mean: float, spread: float, allowed: int) -> float:
    """The logarithm of P(X <= allowed) of a negative binomial; of a Poisson where nothing spreads."""
    if spread < 1e-6:
        logs = [number * math.log(mean) - mean - _log_factorial(number) for number in range(allowed + 1)]
    else:
        size = 1 / spread
        share = math.log(size / (size + mean))
        logs = [
            math.lgamma(size + number) - math.lgamma(size) - _log_factorial(number)
            + size * share + number * (math.log(mean) - math.log(size + mean))
            for number in range(allowed + 1)
        ]  # fmt: skip
    top = max(logs)
    return min(0.0, top + math.log(math.fsum(math.exp(log - top) for log in logs)))
