"""Cutoff of a ranked list without labels, from its scores alone.

Posts about something else have scores too, and these are much alike from story to story once it is allowed for how high
they are in a corpus: u = log score - (1 - shift) q, q the upper quartile of the corpus' log scores.
``Background.survival`` is the share of such posts above u, pooled over stories whose labels are known.
Walking down the list, post k adds one to what may be about the story, and n times the fall of the survival to what is
not; the list stops where the first, less twice the second, is largest, for below it a post is likelier not about the
story than about it. (The local false discovery rate of Efron 2004 at one half, without estimating a density: the
largest distance between two cumulated curves, as Grenander's estimator.) Where the score has a scale of its own, as
cosines have, the cut is drawn towards ``fixed``, on the logarithmic scale: no story says much about its own background.

**Uncertainty.** ``low`` and ``high`` are the ratios of the best cut to the suggested one between which 90 % of the
stories of each set lay. They come from the training parts of two sets, as all numbers here do (``benchmarks/cuts.py``,
which also says how the rule does on their test parts).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ensue.metrics import Floats

MIN_POSTS = 30
"""Posts that a list must have."""
TAILS = (0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Shares of the background that lie above the points of a table."""
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Background:
    """Distribution of one kind of score over stories.

    Attributes:
        shift: how far scores of different corpora can be compared as they stand: 0 not at all, 1 without any change.
        points: u by ``TAILS``.
        fixed: the cut that most stories have; 0 where the score has no scale of its own.
        trust: how much of the cut is the fixed one.
        low: of the ratio of best to suggested cut, the 5 % point over stories.
        high: the 95 % point.
    """

    shift: float
    points: tuple[float, ...]
    fixed: float
    trust: float
    low: float
    high: float

    def survival(self, u: Floats) -> Floats:
        """Share of the background above u; between and beyond the points its logarithm is a line."""
        points = np.array(self.points)
        logs = np.log(TAILS)
        log_survival = np.interp(u, points, logs)
        slope = (logs[-1] - logs[-4]) / (points[-1] - points[-4])
        # Beyond the last point the logarithm falls as it did over the last four.
        beyond = u > points[-1]
        log_survival[beyond] = logs[-1] + slope * (u[beyond] - points[-1])
        return np.where(u < points[0], 1.0, np.exp(log_survival))


@dataclass(frozen=True, slots=True)
class SuggestedCut:
    """Suggested cutoff of a list.

    Attributes:
        cut: the lowest score that is still about it.
        low: of ten such stories one has its best cut outside ``low`` and ``high``.
        high: as ``low``.
        posts: that score at least the cut.
        max_posts: that score at least ``low``.
        min_posts: that score at least ``high``.
    """

    cut: float
    low: float
    high: float
    posts: int
    max_posts: int
    min_posts: int


def suggested_cut(scores: Floats, name: str) -> SuggestedCut | None:
    """The cut of a list of (posts,) scores, or ``None`` for a score or a list that nothing is known of.

    Args:
        scores: of posts with the article of the story that suits each best.
        name: of the score, a key of ``BACKGROUNDS``.
    """
    background = BACKGROUNDS.get(name)
    if background is None or len(scores) < MIN_POSTS or np.ptp(scores) < _TINY:
        return None
    cut = walked_cut(scores, background)
    if background.trust:
        # A weighted mean of the logarithms of both cuts.
        cut = float(np.exp(background.trust * np.log(background.fixed) + (1 - background.trust) * np.log(cut)))
    low = background.low * cut
    high = background.high * cut
    counts = [int((scores >= threshold).sum()) for threshold in (cut, low, high)]
    return SuggestedCut(cut, low, high, *counts)


def walked_cut(scores: Floats, background: Background) -> float:
    """The score at which the walk stops; that of the first post where none is worth its background."""
    ranked = np.sort(scores)[::-1]
    # Share of the background above each score, so its number among all posts.
    tail = background.survival(placed(ranked, background.shift))
    # Post k adds one; twice the expected number of background posts is subtracted.
    gain = np.arange(1, len(ranked) + 1) - 2 * len(ranked) * tail
    last = int(gain.argmax()) if gain.max() > 0 else 0
    return max(float(ranked[last]), _TINY)


def placed(scores: Floats, shift: float) -> Floats:
    """(posts,) u of scores: their logarithms, less the place and the width of the corpus as far as ``shift`` says."""
    logs = np.log(np.maximum(scores, _TINY))
    # Posts without a common term have no score, and would move the quartile.
    inside = logs[scores > _TINY]
    upper = float(np.quantile(inside, 0.75)) if len(inside) else 0.0
    return logs - (1 - shift) * upper


BACKGROUNDS: dict[str, Background] = {
    "best": Background(0.5, (-2.039, -1.717, -1.422, -1.148, -0.892, -0.738, -0.554, -0.427, -0.333, -0.208, -0.15),
                       0.14, 0.5, 0.12, 2.0),
    "tfidf": Background(0.5, (-19.578, -2.186, -1.664, -1.325, -1.061, -0.912, -0.73, -0.616, -0.519, -0.391, -0.301),
                        0.0, 0.0, 0.0, 1.45),
    "bm25": Background(1.0, (-20.723, 0.968, 1.797, 2.399, 2.856, 3.112, 3.382, 3.539, 3.689, 3.843, 3.939),
                       6.0, 0.5, 0.0, 4.64),
}  # fmt: skip
"""By the name of the score, as ``benchmarks/cuts.py`` learned them of the training parts."""
