"""Measures of links: pooled over all pairs as in the paper, by row as a user meets them, and at a threshold.

Ties stand against the relevant: in precision at r and in ranks an irrelevant pair of the same score comes first. Only
average precision and AUC of the pool follow scikit-learn, which takes tied pairs together.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue.data.histories import Index, Mask
from ensue.learning.ensemble import minimise
from ensue.metrics import Floats

AT = (50, 100, 200, 500, 1000, 2000, 3000)
"""The paper's r; the number of true pairs comes last."""
RECALL_AT = 10
"""Cutoff of the recall."""
RESAMPLES = 1000
Scores = npt.NDArray[np.floating]
_STEPS = 100
_DAMPING = 1e-12
_TOLERANCE = 1e-12
_BINS = 1 << 16
_NORMAL = NormalDist().inv_cdf(0.975)


class Pool:
    """All pairs of a post and an article in one list, best score first.

    Average precision and AUC take pairs of equal scores together, as scikit-learn does; in precision at r the
    irrelevant ones come first.

    Args:
        scores: (posts, articles).
        related: (posts, articles) whether a post is about an article.
    """

    def __init__(self, scores: Scores, related: Mask) -> None:
        flat, true = scores.ravel(), related.ravel()
        # By falling score; of equal scores the irrelevant pairs first.
        order = np.lexsort((true, -flat))
        self.hits = true[order]
        self.posts = order // max(scores.shape[1], 1)
        self.num_related = int(true.sum())
        # The last pair of each distinct score.
        self.ends = np.flatnonzero(np.append(np.diff(flat[order]) != 0, True)) if len(order) else order
        self.cutoffs = [*dict.fromkeys([*(r for r in AT if r <= len(order)), self.num_related])]

    def precision_curve(self) -> dict[int, float]:
        """Return precision of the r best pairs by r, for ``AT`` as far as there are pairs, and for all true pairs.

        The mean of its values is the paper's mRP.
        """
        # hits[r - 1] counts the true pairs among the r best.
        hits = np.cumsum(self.hits)
        return {r: float(hits[r - 1] / r) for r in self.cutoffs if r}

    def metrics(self, weights: Floats | None = None) -> dict[str, float]:
        """Return average precision, mRP and AUC; 0, 0 and .5 where there is only one kind of pairs.

        Args:
            weights: (posts,) how often each post counts. [default: once]
        """
        pair_weights = np.ones(len(self.hits)) if weights is None else weights[self.posts]
        num_pairs = np.cumsum(pair_weights)
        num_true = np.cumsum(pair_weights * self.hits)
        if not len(num_true) or not num_true[-1]:
            return {"pooled_ap": 0.0, "mrp": 0.0, "auc": 0.5}
        total = num_true[-1]
        num_wrong = num_pairs[-1] - num_true[-1]
        gained = np.diff(num_true[self.ends], prepend=0)
        wrong = np.diff(num_pairs[self.ends] - num_true[self.ends], prepend=0)
        precision = num_true[self.ends] / np.maximum(num_pairs[self.ends], 1e-9)
        # The number of true pairs is a cutoff too, and changes with the weights.
        cutoffs = [total if r == self.num_related else r for r in self.cutoffs]
        indices = np.minimum(np.searchsorted(num_pairs, cutoffs), len(num_pairs) - 1)
        pairs = total * num_wrong
        return {
            "pooled_ap": float((gained * precision).sum() / total),
            "mrp": float((num_true[indices] / np.maximum(num_pairs[indices], 1)).mean()),
            "auc": float((wrong * (num_true[self.ends] - gained / 2)).sum() / pairs) if pairs else 0.5,
        }


def by_row(scores: Scores, related: Mask, relevant: Index | None = None) -> Floats:
    """Return (rows with a relevant column, 3) reciprocal rank, recall@10, and average precision.

    A column at minus infinity is not retrieved. Rows are posts, or articles if both arguments are transposed. The means
    of the columns are MRR, recall@10 and MAP.

    Args:
        scores: (rows, columns).
        related: (rows, columns).
        relevant: (rows,) number of relevant columns, those that ``scores`` lacks included: they count as not retrieved,
            as in trec_eval. [default: the number of related columns]
    """
    total = related.sum(1) if relevant is None else relevant
    rows = total > 0
    scores = scores[rows]
    related = related[rows]
    total = total[rows]
    order = np.lexsort((related, -scores), axis=-1)  # a relevant column comes after the others of the same score
    hits = np.take_along_axis(related & (scores > -np.inf), order, axis=1)
    count = hits.cumsum(1)
    ranks = np.arange(1, hits.shape[1] + 1)
    precision = (count / ranks * hits).sum(1) / total
    first = hits.any(1) / (hits.argmax(1) + 1) if hits.shape[1] else np.zeros(len(hits))
    return np.stack([first, hits[:, :RECALL_AT].sum(1) / total, precision], axis=1)


def by_list(owners: Index, ranks: Floats, relevant: Index) -> Floats:
    """Return (queries, 3) reciprocal rank, recall@10, and average precision of ranked lists.

    Args:
        owners: (relevant documents,) the query of each, in ascending order.
        ranks: (relevant documents,) rank of each in the list of its query; infinite where the list lacks it. Relevant
            documents of the same rank have equal scores: they fill the last positions up to that rank.
        relevant: (queries,) number of relevant documents, at least 1.
    """
    # By query, then by rank.
    order = np.lexsort((ranks, owners))
    owners, ranks = owners[order], ranks[order]
    index = np.arange(len(owners))
    starts = np.searchsorted(owners, np.arange(len(relevant)))
    hits = index - starts[owners] + 1  # relevant documents of the list up to this one
    # Of g documents of one rank r, the j-th (j = 1 … g) is at position r - (g - j).
    is_first = np.append(True, (owners[1:] != owners[:-1]) | (ranks[1:] != ranks[:-1]))
    group = np.cumsum(is_first) - 1
    last = np.cumsum(np.bincount(group))[group] - 1
    positions = ranks - (last - index)
    recall = np.bincount(owners, positions <= RECALL_AT, len(relevant)) / relevant
    precision = np.bincount(owners, hits / positions, len(relevant)) / relevant
    return np.stack([np.maximum.reduceat(1 / positions, starts), recall, precision], axis=1)


def wilson(hits: float, trials: float) -> tuple[float, float]:
    """95 % interval of a share of independent trials (Wilson 1927); (0, 1) without a trial."""
    if not trials:
        return 0.0, 1.0
    share, square = hits / trials, _NORMAL**2
    # Wilson's interval is centred between the share and one half.
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = _NORMAL / (1 + square / trials) * np.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


@dataclass(frozen=True, slots=True)
class AtCut:
    """Pairs that a threshold retrieves, with precision and recall."""

    cut: float | None
    """The threshold; ``None`` where no score has it."""
    retrieved: int
    """Pairs that score at least the cut."""
    right: int
    """True ones among them."""
    relevant: int
    """True pairs in all."""
    precision: float
    precision_interval: tuple[float, float]
    """95 %."""
    recall: float
    recall_interval: tuple[float, float]


def at_cut(scores: Scores, related: Mask, cut: float) -> AtCut:
    """Precision and recall of all pairs that score at least ``cut``.

    Args:
        scores: (posts, articles).
        related: (posts, articles).
        cut: the threshold.
    """
    is_retrieved = scores >= cut
    return at_counts(cut, (is_retrieved & related).sum(0), is_retrieved.sum(0), related.sum(0))


def at_counts(cut: float | None, right_pairs: Index, chosen_pairs: Index, related_pairs: Index) -> AtCut:
    """Precision and recall of chosen pairs.

    Intervals resample articles with all their posts, because posts about one article succeed and fail together; and
    they are at least as wide as Wilson's, which also covers shares of 0 and of 1, and a single article.

    Args:
        cut: the threshold they were chosen by, if any.
        right_pairs: (articles,) chosen pairs that are related.
        chosen_pairs: (articles,).
        related_pairs: (articles,).
    """
    counts = np.stack([right_pairs, chosen_pairs, related_pairs]).astype(np.float64)
    num_right, retrieved, relevant = counts.sum(1)
    # How often each article is drawn in each resample.
    times = np.random.default_rng(0).multinomial(
        counts.shape[1], np.full(counts.shape[1], 1 / counts.shape[1]), RESAMPLES
    )
    resampled = times @ counts.T
    intervals = []
    for column, total in ((1, retrieved), (2, relevant)):
        low, high = wilson(num_right, total)
        is_defined = resampled[:, column] > 0
        if is_defined.any():
            ends = np.percentile(resampled[is_defined, 0] / resampled[is_defined, column], (2.5, 97.5))
            low = min(low, float(ends[0]))
            high = max(high, float(ends[1]))
        intervals.append((low, high))
    precision, recall = (float(num_right / total) if total else 0.0 for total in (retrieved, relevant))
    return AtCut(cut, int(retrieved), int(num_right), int(relevant), precision, intervals[0], recall, intervals[1])


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores to probabilities: 1 / (1 + exp(-(slope score - certainty ln(1 - exp(score)) + intercept)))."""

    slope: Annotated[float, Field(ge=0, le=1e9)]
    intercept: Annotated[float, Field(ge=-1e9, le=1e9)]
    certainty: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Above 0 only of scores that are logarithms of shares: what nears all of the whole nears 1."""

    def probabilities(self, scores: Scores) -> Floats:
        """Return probabilities in (0, 1) of the shape of the scores, rising with them."""
        logits = self.slope * scores.astype(np.float64) + self.intercept
        if self.certainty:
            logits = logits + self.certainty * _closeness(scores)
        return 1 / (1 + np.exp(-np.clip(logits, -500, 500)))

    def cut(self, probability: float) -> float | None:
        """The score that has a probability; ``None`` where every score has the same one."""
        if not self.slope:
            return None
        score = float((np.log(probability / (1 - probability)) - self.intercept) / self.slope)
        if not self.certainty:
            return score
        # Bisect between a score of too low a probability and 0, the largest logarithm.
        low, high = min(score, -1.0), 0.0  # certainty only adds: the score lies at or below that without it
        while self.probabilities(np.array(low)) >= probability:
            low *= 2
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.probabilities(np.array(middle)) < probability else (low, middle)
        return high


def cross_fitted(scores: Floats, related: Mask, folds: Index, *, shares: bool = False) -> Floats:
    """Probabilities of the shape of the scores, of each fold by a calibration that the other folds taught.

    Args:
        scores: (posts, …).
        related: of the same shape.
        folds: (posts,) the number of each post's fold; at least two folds.
        shares: of :func:`calibrate`.
    """
    probabilities = np.empty(scores.shape)
    for fold in np.unique(folds):
        in_fold = folds == fold
        probabilities[in_fold] = calibrate(scores[~in_fold], related[~in_fold], shares=shares).probabilities(
            scores[in_fold]
        )
    return probabilities


def calibrate(scores: Scores, related: Mask, *, shares: bool = False) -> Calibration:
    """Platt's (1999) scaling by Newton's method, his smoothed targets included; a slope below 0 becomes 0.

    Of shares, beta calibration (Kull, Silva Filho & Flach 2017): it has the closeness to the whole as a second term.
    More than ``_BINS`` scores are taken together in as many equal steps.

    Args:
        scores: of any shape.
        related: of the same shape; pairs that were not seen in training.
        shares: whether the scores are logarithms of shares.
    """
    x = scores.ravel().astype(np.float64)
    true = related.ravel()
    num_true = int(true.sum())
    num_false = int((~true).sum())
    # Platt's smoothed targets: a few labels do not make probabilities of 0 or 1.
    targets = np.where(true, (num_true + 1) / (num_true + 2), 1 / (num_false + 2))
    counts = np.ones(len(x))
    if len(x) > _BINS:
        x, targets, counts = _binned(x, targets)
    terms = np.stack([x, _closeness(x)]) if shares else x[None]
    # Standardised terms keep Newton's steps well conditioned; undone at the end.
    centres = terms.mean(1, keepdims=True)
    scales = terms.std(1, keepdims=True)
    scales = np.where(scales, scales, 1.0)
    columns = np.concatenate([(terms - centres) / scales, np.ones((1, len(x)))])

    def loss(weights: Floats) -> float:
        logits = weights @ columns
        return float((counts * np.logaddexp(0, logits) - targets * logits).sum())

    def newton_step(weights: Floats) -> Floats:
        probabilities = 1 / (1 + np.exp(-np.clip(weights @ columns, -500, 500)))
        gradient = columns @ (counts * probabilities - targets)
        curvature = columns * (counts * probabilities * (1 - probabilities)) @ columns.T
        return -np.linalg.solve(curvature + _DAMPING * np.eye(len(weights)), gradient)

    start = np.append(np.zeros(len(terms)), np.log((num_true + 1) / (num_false + 1)))
    weights = minimise(start, loss, newton_step, _TOLERANCE)
    if shares and (weights[:-1] <= 0).any():
        return calibrate(scores, related)
    if weights[0] <= 0:
        mean = targets.sum() / counts.sum()
        return Calibration(0.0, float(np.log(mean / (1 - mean))))
    slopes = weights[:-1] / scales[:, 0]
    intercept = float(weights[-1] - (weights[:-1] * centres[:, 0] / scales[:, 0]).sum())
    return Calibration(float(slopes[0]), intercept, float(slopes[1]) if shares else 0.0)


def _binned(x: Floats, targets: Floats) -> tuple[Floats, Floats, Floats]:
    """Means of scores in equal steps, the sum of their targets, and how many they are; steps without one left out."""
    low, high = float(x.min()), float(x.max())
    # The step of each score between the lowest and the highest.
    steps = ((x - low) / (high - low or 1.0) * (_BINS - 1)).astype(np.int64)
    counts = np.bincount(steps, minlength=_BINS)
    is_filled = counts > 0
    sums: Floats = np.bincount(steps, x, _BINS)[is_filled].astype(np.float64)
    target_sums: Floats = np.bincount(steps, targets, _BINS)[is_filled].astype(np.float64)
    return sums / counts[is_filled], target_sums, counts[is_filled].astype(np.float64)


def _closeness(logs: Scores) -> Floats:
    """-ln(1 - share) of logarithms of shares, at most 34: what is beyond it cannot be told from the whole."""
    return -np.log(-np.expm1(np.minimum(logs.astype(np.float64), -1e-15)))
