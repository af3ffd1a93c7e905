"""Off-policy evaluation of task ``next``: the reward that a model would have earned on a log of another policy.

Each event of the log is an item ``a`` that was shown in a session ``x``, with its reward ``r`` (the weight of the
event: 0 or 1 for clicks, or what a kind is worth) and its propensity ``p``, the probability with which the logging
policy showed it. ``pi`` is the policy of the model and ``w = min(pi(a | x) / p, MAX_WEIGHT)``::

    IPS    mean of w r                                        Horvitz & Thompson 1952
    SNIPS  sum of w r / sum of w                              Swaminathan & Joachims 2015
    DR     mean of sum over b of pi(b | x) q(b) + w (r - q(a))   Dudik, Langford & Li 2011

``q(b)`` is the mean reward of item ``b`` in the other ``NUM_FOLDS - 1`` parts of the sessions, with ``PRIOR`` events at
the mean of all. Intervals are those of the normal distribution (Student's t), with the events of a session as one unit.

The policy of a model shows one item: ``softmax`` draws it by the probabilities that ``predict`` answers, ``top=K``
draws evenly from its K best. Items that ``predict`` leaves out have probability 0. The session of an event is its
earlier events of positive reward.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index, offsets_of, ranges, scrambled
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.significance import student_quantile
from ensue.tasks.next.infer import CELLS, catalogue_scores
from ensue.tasks.next.predictor import NextPredictor
from ensue.topk import Scores, log_totals, topk
from ensue.vocabulary import FIRST

MAX_WEIGHT = 100.0
"""Largest ratio of the probabilities of both policies; clipping bounds the variance and adds a bias."""
NUM_FOLDS = 5
PRIOR = 10.0
"""Number of events of mean reward that the reward of an item is shrunk by."""
MIN_EFFECTIVE = 100.0
"""Effective number of events below which an estimate depends on few of them."""
MIN_SKEWNESS = 1e-9
"""Scaled skewness below which terms count as symmetric."""
SOFTMAX = "softmax"


@dataclass(frozen=True)
class PolicyEstimate:
    """A mean reward per shown item with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the value and its interval."""
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True, kw_only=True)
class PolicyValue:
    """Estimates of the reward of one policy.

    Attributes:
        ips: inverse propensity scores.
        snips: the same, divided by the mean weight.
        dr: doubly robust.
        gain: doubly robust less the mean reward of the log, event by event.
        mean_weight: 1 but for chance, where propensities are right and above 0 for all that the policy shows.
        effective: effective number of events, (sum of w)^2 / sum of w^2.
        num_clipped: number of events whose weight was clipped.
    """

    ips: PolicyEstimate
    snips: PolicyEstimate
    dr: PolicyEstimate
    gain: PolicyEstimate
    mean_weight: PolicyEstimate
    effective: float
    num_clipped: int

    @property
    def is_biased(self) -> bool:
        """True if the mean weight differs from 1 significantly."""
        return not self.mean_weight.low <= 1 <= self.mean_weight.high


@dataclass(frozen=True, kw_only=True)
class OffPolicyResult:
    """Estimated rewards of a model and its baselines, next to that of the logging policy.

    Attributes:
        policy: how an item is chosen by scores: ``softmax`` or ``top=K``.
        events: number of shown items.
        sessions: number of sessions.
        logged: mean reward of the log.
        values: policy -> estimates; the model comes first.
    """

    policy: str
    events: int
    sessions: int
    logged: PolicyEstimate
    values: Mapping[str, PolicyValue]

    def to_dict(self) -> dict[str, object]:
        """Return all numbers, as JSON holds them."""
        return asdict(self) | {"max_weight": MAX_WEIGHT, "warnings": self.warnings()}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per policy and estimator."""
        rows = [("logging policy", "mean", self.logged)]
        for name, value in self.values.items():
            rows += [(name, "IPS", value.ips), (name, "SNIPS", value.snips), (name, "DR", value.dr)]
        cells = [(name, estimator, *asdict(estimate).values()) for name, estimator, estimate in rows]
        return pl.DataFrame(cells, schema=["policy", "estimator", "value", "low", "high"], orient="row")

    def warnings(self) -> list[str]:
        """Return sentences on policies whose estimates may be wrong."""
        biased = [f"{name} {value.mean_weight.value:.2f}" for name, value in self.values.items() if value.is_biased]
        doubtful_rows = [
            f"{name} {value.effective:.0f}" for name, value in self.values.items() if value.effective < MIN_EFFECTIVE
        ]
        sentences = []
        if biased:
            sentences.append(
                f"the mean weight of {', '.join(biased)} is not 1: propensities are wrong, weights were clipped, or "
                "the log never shows some items that the policy shows; do not rely on these estimates"
            )
        if doubtful_rows:
            sentences.append(f"estimates depend on few events ({', '.join(doubtful_rows)}); collect a longer log")
        return sentences

    def __str__(self) -> str:
        """Return a row of text per policy."""
        lines = [f"logging policy: {self.logged}"]
        lines += [f"{name}: IPS {value.ips}, SNIPS {value.snips}, DR {value.dr}" for name, value in self.values.items()]
        return "\n".join(lines)


def evaluate_policy(predictor: NextPredictor, log: Histories, policy: str = SOFTMAX) -> OffPolicyResult:
    """Estimate what a predictor and its baselines would have earned on a log with propensities.

    Args:
        predictor: fitted.
        log: read with ``off_policy=True``: every event is a shown item with its propensity, and its reward as weight.
        policy: ``softmax`` or ``top=K``.

    Raises:
        DataError: the log has no propensities or no rewards, or fewer than two sessions.
        SettingError: an unknown policy.
    """
    num_shown = _num_shown(policy)
    if not len(log.propensities):
        raise DataError("off-policy evaluation needs the propensity of each event: name it in columns, propensity=…")
    if not len(log.weights):
        raise DataError(
            "every event has reward 1, so every policy would earn the same: name a column of rewards, weight=…, or "
            "give kinds in events their rewards, such as impression=0,click=1"
        )
    if len(log) < 2:
        raise DataError(f"off-policy evaluation needs two sessions at least, not {len(log)}")
    coded = log.encode(predictor.vocabulary)
    sessions = coded.sequence_index()
    contexts = _Contexts.of(coded)
    values = {}
    for name in dict.fromkeys([predictor.model_name, *predictor.counting]):
        policy_probability, expected = _probabilities(predictor, name, coded, contexts, num_shown)
        values[name] = policy_value(policy_probability, expected, coded, sessions)
    return OffPolicyResult(
        policy=policy, events=len(coded.ids), sessions=len(coded), values=values,
        logged=clustered_mean(coded.weights, sessions),
    )  # fmt: skip


def _num_shown(policy: str) -> int:
    """Return K of ``top=K``, and 0 for ``softmax``.

    Raises:
        SettingError: another policy.
    """
    if policy == SOFTMAX:
        return 0
    if (match := re.fullmatch(r"top=([1-9]\d{0,3})", policy)) is None:
        raise SettingError(
            f"off-policy: {policy!r} is not known; choose softmax, or top=10 for one of the 10 best items"
        )
    return int(match[1])


@dataclass(frozen=True)
class _Contexts:
    """The distinct sessions up to the events of a log.

    Attributes:
        histories: the events of positive reward and known items.
        sessions: (contexts,) the session of each context.
        lengths: (contexts,) how many of its events come first.
        of_event: (events,) the context of each event of the log.
    """

    histories: Histories
    sessions: Index
    lengths: Index
    of_event: Index

    @classmethod
    def of(cls, log: Histories) -> _Contexts:
        is_earlier = (log.weights > 0) & (log.ids >= FIRST)
        sessions = log.sequence_index()
        # Number of such events before each event: of 1 0 1 it is 0 1 1, counted from the start of its session.
        num_earlier = offsets_of(is_earlier)
        num_before = num_earlier[:-1] - num_earlier[log.offsets[:-1]][sessions]
        # Events with the same number of earlier ones share a context, and follow each other in the log.
        begins = np.ones(len(sessions), np.bool_)
        begins[1:] = (np.diff(sessions) != 0) | (np.diff(num_before) != 0)
        return cls(log.keep(is_earlier), sessions[begins], num_before[begins], np.cumsum(begins) - 1)

    def batch(self, low: int, high: int) -> Histories:
        """Return some contexts as histories."""
        lengths = self.lengths[low:high]
        events = ranges(self.histories.offsets[:-1][self.sessions[low:high]], lengths)
        times = self.histories.times[events] if self.histories.timed else self.histories.times
        return Histories(self.histories.ids[events], offsets_of(lengths), self.histories.vocabulary, times)


def _probabilities(
    predictor: NextPredictor, name: str, log: Histories, contexts: _Contexts, num_shown: int
) -> tuple[Floats, Floats]:
    """Return (events,) the probability that a policy shows the logged item, and the reward that it can expect."""
    rewards = item_rewards(log, len(predictor.vocabulary))
    folds = fold_of(np.arange(len(log)))
    module = None if name == predictor.model_name else predictor.counting[name]
    policy_probability = np.zeros(len(log.ids))
    expected = np.zeros(len(log.ids))
    size = max(1, CELLS // len(predictor.vocabulary))
    for low in range(0, len(contexts.sessions), size):
        high = min(low + size, len(contexts.sessions))
        scores, *_ = catalogue_scores(predictor, predictor.metadata.exclusion, contexts.batch(low, high), module)
        table = _policy(scores, num_shown)
        # The events of these contexts, which follow each other in the log.
        events = np.arange(*np.searchsorted(contexts.of_event, [low, high]))
        rows = contexts.of_event[events] - low
        policy_probability[events] = table[rows, log.ids[events]]
        by_fold = table @ rewards.T
        expected[events] = by_fold[rows, folds[contexts.sessions[low:high]][rows]]
    return policy_probability, expected


def _policy(scores: Scores, num_shown: int) -> Floats:
    """Return the (contexts, ids) probabilities of showing each item."""
    if not num_shown:
        table: Floats = np.exp(scores - log_totals(scores)[:, None]).astype(np.float64)
        # Float32 scores leave sums that are off by a few millionths.
        table /= table.sum(1, keepdims=True)
        return table
    best_scores, best_ids = topk(scores, num_shown)
    table = np.zeros(scores.shape)
    is_item = best_scores > -np.inf
    np.put_along_axis(table, best_ids, is_item / np.maximum(is_item.sum(1, keepdims=True), 1), 1)
    return table


def fold_of(sessions: Index) -> Index:
    """Return the fold of each session, from its number."""
    return (scrambled(sessions.astype(np.uint64)) % np.uint64(NUM_FOLDS)).astype(np.int64)


def item_rewards(log: Histories, num_ids: int) -> Floats:
    """Return (folds, ids) the shrunken mean reward of each item in the sessions of all other folds."""
    folds = fold_of(log.sequence_index())
    cells = folds * num_ids + log.ids
    counts, sums = (
        np.bincount(cells, weights, NUM_FOLDS * num_ids).reshape(NUM_FOLDS, num_ids) for weights in (None, log.weights)
    )
    # What all folds hold less what one of them holds is what the others hold.
    other_counts = counts.sum(0) - counts
    other_sums = sums.sum(0) - sums
    means = other_sums.sum(1, keepdims=True) / np.maximum(other_counts.sum(1, keepdims=True), 1)
    return (other_sums + PRIOR * means) / (other_counts + PRIOR)


def policy_value(policy_probability: Floats, expected: Floats, log: Histories, sessions: Index) -> PolicyValue:
    """Return the estimates of one policy.

    Args:
        policy_probability: (events,) the probability with which the policy shows the logged item.
        expected: (events,) its expected reward by the reward model.
        log: the events, with propensities and weights, in ids of the reward model.
        sessions: (events,) the session of each event.
    """
    ratio = policy_probability / log.propensities
    weights = np.minimum(ratio, MAX_WEIGHT)
    predicted = item_rewards(log, int(log.ids.max()) + 1)[fold_of(sessions), log.ids]
    estimates = policy_estimates(log.weights, weights, expected, predicted, sessions)
    return PolicyValue(
        **estimates,
        mean_weight=clustered_mean(weights, sessions),
        effective=float(weights.sum() ** 2 / max(float((weights**2).sum()), 1e-300)),
        num_clipped=int((ratio > MAX_WEIGHT).sum()),
    )


def policy_estimates(
    rewards: Floats, weights: Floats, expected: Floats, predicted: Floats, sessions: Index
) -> dict[str, PolicyEstimate]:
    """Return the estimates ``ips``, ``snips``, ``dr`` and ``gain``.

    Args:
        rewards: (events,) r.
        weights: (events,) w, clipped.
        expected: (events,) the sum over items b of pi(b | x) q(b).
        predicted: (events,) q(a) of the logged item.
        sessions: (events,) the unit that an event belongs to.
    """
    mean_weight = weights.mean()
    snips = float((weights * rewards).sum() / weights.sum()) if mean_weight else 0.0
    # The ratio's terms by the delta method: their mean is the ratio itself.
    ratio_terms = snips + weights * (rewards - snips) / (mean_weight or 1.0)
    robust_terms = expected + weights * (rewards - predicted)
    return {
        "ips": clustered_mean(weights * rewards, sessions),
        "snips": clustered_mean(ratio_terms, sessions),
        "dr": clustered_mean(robust_terms, sessions),
        "gain": clustered_mean(robust_terms - rewards, sessions),
    }


def clustered_mean(terms: Floats, sessions: Index) -> PolicyEstimate:
    """Return the mean of (events,) terms, and its 95 % interval with the terms of a session as one unit."""
    value = float(terms.mean())
    units = np.unique(sessions, return_inverse=True)[1]
    # Deviations are summed within sessions, because events of a session depend on each other.
    deviations = np.bincount(units, terms - value)
    num_units = len(deviations)
    error = float(np.sqrt(num_units / (num_units - 1) * (deviations**2).sum())) / len(terms)
    if not error:
        return PolicyEstimate(value, value, value)
    # A few large weights make the terms skewed, and the symmetric interval too short above. Hall's cubic
    # transformation of t removes the skewness; of its inverse, u is the argument of the cube root less 1, over 3 a.
    skewness = float((deviations**3).mean() / (deviations**2).mean() ** 1.5)
    scaled = skewness / (3 * np.sqrt(num_units))
    quantiles = student_quantile(0.975, num_units - 1) * np.array([1.0, -1.0])
    steps = quantiles - skewness / (6 * np.sqrt(num_units))
    ratios = quantiles if abs(scaled) < MIN_SKEWNESS else (np.cbrt(1 + 3 * scaled * steps) - 1) / scaled
    low, high = (value - error * ratios).tolist()
    return PolicyEstimate(value, low, high)


def summary(result: OffPolicyResult) -> str:
    """Return a sentence on what was estimated."""
    return (
        f"{plural(result.events, 'shown item')} of {plural(result.sessions, 'session')}; policy {result.policy}; "
        f"reward per shown item with 95 % intervals over sessions; weights at most {MAX_WEIGHT:g}; the log earned "
        f"{result.logged}"
    )
