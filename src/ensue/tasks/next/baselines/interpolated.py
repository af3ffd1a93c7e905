"""Interpolated counts: followers of the latest events, the history's own values, and popularity, overall and recent.

Probabilities of one kind are backed off to another, as language models of counts do (Jelinek & Mercer 1980; MacKay &
Peto 1995 for the prior of ``prior`` observations; Kuhn & De Mori 1990 for the cache of own values). With n(e, x) the
pairs of e and a later x, at most ``GAP`` apart, 1 / gap each, and ``backward`` times those the other way round:

    w(e)     = n(e)^-``power`` x ``lag``^(events since e) x exp(-``rate`` x seconds since e) of ``PAST`` latest events
    P(x)     = left x (sum of w(e) n(e, x) + ``prior`` back(x)) / (sum of w(e) n(e) + ``prior``) + ``repeat`` x r(x)
    back(x)  = (1 - ``recent``) x share of all events + ``recent`` x recent share
    left     = 1 - ``repeat`` x sum of r over the history's own values

with r by the distance of x, of :class:`RepeatShares`, 0 for what the history does not hold. The seven numbers, and the
half-life of the recent counts, are chosen on the latest tenth of what is counted first, by likelihood and by MRR; then
all of that is counted. They do not change when more is counted later. ``GAP`` and ``PAST`` were chosen on the latest
tenths of the training parts of Yoochoose, Diginetica, Globo, MovieLens and Twitter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from ensue.data.histories import Histories, Ids, Index
from ensue.learning.ensemble import minimise
from ensue.metrics import Floats
from ensue.nn.validation import require_number, require_table
from ensue.tasks.next.baselines.counting import Cooccurrence, Popularity, log_mixture, logarithm
from ensue.tasks.next.baselines.recent import Recent, latest_tenth, latest_windows
from ensue.tasks.next.baselines.repeats import RepeatShares, own_values
from ensue.tasks.next.batch import PaddedBatch, ScoredBatch
from ensue.tasks.next.dataset import Windows
from ensue.text.sparse import SparseRows, both_ways, sparse_rows
from ensue.topk import Scores

GAP = 10
PAST = 20
"""Maximum distance of the events of a pair, and number of latest events whose pairs are scored from."""
MAX_TARGETS = 5000
"""Held-out targets, the latest, by which the numbers are chosen."""
TOLERANCE = 1e-14
"""Relative decrease of the loss below which the search for the numbers ends."""
DIFFERENCE = 1e-5
MIN_CURVATURE = 1e-6
LONGEST_STEP = 2.0
"""Distance of the gradients whose difference is the curvature, the least that divides a gradient, and how far a step
moves a number at most."""
MIN_PROBABILITY = 1e-9
MIN_NOVEL_SHARE = 0.02
"""Lower bounds of a probability, and of the probability left to items that the history does not hold."""
PULL = 1e-4
FURTHEST = 12.0
"""Weight of the L2 penalty, and bound of the search: both keep a parameter finite that the data does not determine."""


Number: TypeAlias = "float | np.floating"


class Numbers(NamedTuple):
    """The fitted numbers; see the module."""

    lag: Number
    power: Number
    repeat: Number
    recent: Number
    prior: Number
    backward: Number
    rate: Number


START = (0.5, 0.5, 0.7, 0.3, 2.0, 0.3, 0.1)
"""Start of the search, with ``rate`` in median gaps; used as it is if nothing can be held out."""
RECENT = 3
PRIOR = 4
BACKWARD = 5
"""Positions in :class:`Numbers`."""
NUM_PROBABILITIES = 4
"""The first numbers are between 0 and 1, the others above 0."""


class Observed(NamedTuple):
    """Statistics of held-out targets before they came, float64: (targets, events) or (targets,)."""

    followed: Floats
    """(targets, events) count of the target after each event."""
    preceded: Floats
    """(targets, events) count of the target before each event."""
    followed_total: Floats
    """(targets, events) sum of all counts after each event."""
    preceded_total: Floats
    """(targets, events) sum of all counts before each event."""
    since: Floats
    """(targets, events) number of events between each event and the latest."""
    seconds: Floats
    """(targets, events) time between each event and the latest."""
    repeat_share: Floats
    """(targets,) share of the target's distance if the history contains it, else 0."""
    repeat_total: Floats
    """(targets,) sum of such shares over all items of the history."""
    ever: Floats
    """(targets,) share of the target among all events."""
    recent: Floats
    """(targets,) share of the target among recent events."""

    def likelihood(self, numbers: Numbers) -> tuple[float, Numbers]:
        """Return the mean logarithm of the targets' probabilities, and its derivatives by the numbers."""
        lag, power, repeat, recent_weight, prior, backward, rate = numbers
        # Pairs in both directions, the reverse one weighted by `backward`.
        sums = self.followed_total + backward * self.preceded_total
        bounded_sums = np.maximum(sums, MIN_PROBABILITY)
        # w(e) of the module: decay by position and by time, and discount of events with many pairs.
        weights = lag**self.since * np.exp(-rate * self.seconds) * bounded_sums**-power
        counts = self.followed + backward * self.preceded
        weighted_counts = (weights * counts).sum(1)
        total = (weights * sums).sum(1) + prior
        popular = (1 - recent_weight) * self.ever + recent_weight * self.recent
        novel_share = np.maximum(1 - repeat * self.repeat_total, MIN_NOVEL_SHARE)
        # Interpolation with popularity, as with a Dirichlet prior of `prior` observations.
        numerator = weighted_counts + prior * popular
        probability = novel_share * numerator / total + repeat * self.repeat_share
        bounded = np.maximum(probability, MIN_PROBABILITY)
        # From here on each name is the derivative of the mean logarithm by what it names; a bound that holds has none.
        by_probability = np.where(probability >= MIN_PROBABILITY, 1 / bounded, 0.0) / len(bounded)
        by_numerator = by_probability * novel_share / total
        by_total = -by_numerator * numerator / total
        by_novel_share = np.where(novel_share > MIN_NOVEL_SHARE, by_probability * numerator / total, 0.0)
        # (targets, events) by the weight of each event, times the weight.
        by_weight = weights * (by_numerator[:, None] * counts + by_total[:, None] * sums)
        # The derivative by `backward`, through counts and sums.
        inner = weights * (by_numerator[:, None] * self.preceded + by_total[:, None] * self.preceded_total)
        by_sums = np.where(sums >= MIN_PROBABILITY, -power * by_weight * self.preceded_total / bounded_sums, 0.0)
        derivatives = Numbers(
            lag=(by_weight * self.since).sum() / lag,
            power=-(by_weight * np.log(bounded_sums)).sum(),
            repeat=(by_probability * self.repeat_share - by_novel_share * self.repeat_total).sum(),
            recent=(by_numerator * prior * (self.recent - self.ever)).sum(),
            prior=(by_numerator * popular + by_total).sum(),
            backward=(inner + by_sums).sum(),
            rate=-(by_weight * self.seconds).sum(),
        )
        return float(np.log(bounded).mean()), derivatives

    def likeliest(self) -> Floats:
        """Return the numbers under which the targets are likeliest, (7,), by Newton's method within bounds."""

        def gradient(point: Floats) -> Floats:
            numbers = _numbers(point)
            # Derivatives of the sigmoid and of the exponential, by their values.
            values = np.array(numbers)
            inner = np.where(np.arange(len(values)) < NUM_PROBABILITIES, values * (1 - values), values)
            return 2 * PULL * point / len(point) - inner * np.array(self.likelihood(numbers)[1])

        def loss(point: Floats) -> float:
            return PULL * float((point**2).mean()) - self.likelihood(_numbers(point))[0]

        def newton_step(point: Floats) -> Floats:
            slopes = gradient(point)
            # A number at its bound stays there while the loss falls beyond it.
            free = np.flatnonzero((np.abs(point) < FURTHEST) | (slopes * point > 0))
            moves = DIFFERENCE * np.eye(len(point))[free]
            differences = np.stack([gradient(point + move) - gradient(point - move) for move in moves])[:, free]
            curvatures, axes = np.linalg.eigh((differences + differences.T) / (4 * DIFFERENCE))
            # The loss is not convex everywhere: along an axis where it bends down, the step goes down too.
            bends = np.maximum(np.abs(curvatures), MIN_CURVATURE)
            step = np.zeros_like(point)
            step[free] = -axes @ (axes.T @ slopes[free] / bends)
            step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), LONGEST_STEP))
            return np.clip(point + step, -FURTHEST, FURTHEST) - point

        probabilities = np.array(START[:NUM_PROBABILITIES])
        positive = np.array(START[NUM_PROBABILITIES:])
        # The inverses of the sigmoid and of the exponential.
        begin = np.concatenate([np.log(probabilities / (1 - probabilities)), np.log(positive)])
        return np.array(_numbers(minimise(begin, loss, newton_step, TOLERANCE)))


def _numbers(point: Floats) -> Numbers:
    """Return the numbers of an unbounded point: the first ones through a sigmoid, the others as exponentials."""
    return Numbers(*1 / (1 + np.exp(-point[:NUM_PROBABILITIES])), *np.exp(point[NUM_PROBABILITIES:]))


@dataclass(eq=False)
class Interpolated(Cooccurrence):
    """Interpolated counts; see the module.

    Attributes:
        recent: recent popularity.
        repeats: how often values come again.
        numbers: (7,) the learned numbers in the order of :class:`Numbers`; zeros until they are chosen.
    """

    weighs_events = False

    recent: Recent = None  # type: ignore[assignment]  # nothing is counted unless given
    repeats: RepeatShares = field(default_factory=RepeatShares)
    numbers: Floats = field(default_factory=lambda: np.zeros(len(START)))
    _symmetric: tuple[Any, Scores] | None = field(init=False, default=None)
    _popularity: Scores | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check the parts; once anything is counted, the numbers are chosen.

        Raises:
            ValueError: the parts are of different catalogues, or a number is outside what the search looks at.
        """
        super().__post_init__()
        self.recent = self.recent or Recent(self.settings, self.num_ids)
        if self.recent.num_ids != self.num_ids:
            raise ValueError("recent counts other ids")
        require_table("numbers", self.numbers, np.float64, [len(START)])
        if self.totals.any():
            largest = 2 * math.exp(FURTHEST)  # of the search, with room for rounding
            require_number("numbers", self.numbers[:NUM_PROBABILITIES], 1.0)
            require_number("numbers", self.numbers[PRIOR], largest, 1 / largest)
            require_number("numbers", self.numbers[BACKWARD], largest)

    @property
    def gap(self) -> int:
        """The largest distance at which a pair counts."""
        return min(GAP, self.settings.window)

    @property
    def latest(self) -> int:
        """Number of latest events whose pairs are scored from."""
        return min(PAST, self.settings.window)

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.settings.window - 1

    def count(self, histories: Histories) -> None:
        """Add encoded histories; the first time the numbers are chosen."""
        if not self.numbers.any():
            self.numbers = np.array(START)
            split = latest_tenth(histories)
            self.recent.choose(split)
            if split is not None:
                # The numbers are fitted on the latest tenth, with counts of the events before it.
                early = type(self)(self.settings, self.num_ids, numbers=self.numbers)
                early.recent.half_life = self.recent.half_life
                early.count(split[0])
                self.numbers = early.likeliest(split[1])
        super().count(histories)
        self.recent.count(histories)
        self.repeats.count(histories, self.totals)

    def _set_pairs(self, pairs: Index, counts: Floats) -> None:
        super()._set_pairs(pairs, counts)
        self._symmetric = self._popularity = None

    def forget(self, histories: Histories) -> None:
        """Take back encoded histories; how often values come again, and the numbers, stay."""
        super().forget(histories)
        self.recent.forget(histories)

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts and pairs."""
        super().forget_ids(ids)
        self.recent.forget_ids(ids)

    def grow(self, num_ids: int) -> Self:
        """Return these counts resized for more ids."""
        grown = super().grow(num_ids)
        grown.recent = self.recent.grow(num_ids)
        grown._symmetric = grown._popularity = None
        return grown

    def likeliest(self, held_out: Histories) -> Floats:
        """Return the numbers under which the latest held-out targets are likeliest, (7,)."""
        windows = Windows(held_out, self.reach)
        index = latest_windows(windows, MAX_TARGETS)
        positions = windows.positions(index)
        targets = held_out.ids[positions + 1].astype(np.int64)
        # (targets, events) the latest events before each target, the latest first; 0 beyond the start of its history.
        begins = held_out.offsets[:-1][held_out.sequence_index()[positions]]
        since = np.arange(self.latest)
        event = positions[:, None] - since
        values = np.where(event >= begins[:, None], held_out.ids[np.maximum(event, 0)], 0).astype(np.int64)
        unit = 1.0
        seconds = np.zeros(values.shape)
        if held_out.timed:
            elapsed = held_out.times[positions][:, None] - held_out.times[np.maximum(event, 0)]
            seconds = np.where(values > 0, elapsed, 0)
            # Column 1 is the gap between the last two events; its median is the unit of `rate`.
            gaps = seconds[:, 1:2]
            unit = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
        # A target that was never counted has no probability that the numbers could change.
        in_counts = self.totals[targets] > 0
        if not in_counts.any():
            return self.numbers
        pairs = self._table()
        columns = (
            pairs.at(values, targets[:, None]),
            pairs.at(targets[:, None], values),
            # Row sums are pairs after an id, column sums are pairs before it.
            (pairs @ np.ones(self.num_ids))[values],
            np.bincount(pairs.indices, pairs.data, self.num_ids)[values],
            since + np.zeros_like(values),
            seconds / unit,
            *self._repeat_shares(windows, index),
            Popularity.shares(self)[targets],
            self.recent.shares()[targets],
        )
        numbers = Observed(*(column.astype(np.float64)[in_counts] for column in columns)).likeliest()
        # The rate per median gap becomes a rate per second; 0 without times.
        numbers[-1] *= held_out.timed / unit
        return numbers

    def _repeat_shares(self, windows: Windows, index: Index) -> tuple[Floats, Floats]:
        """Return the weight of each target's distance to its last occurrence (0 if there is none), and the total."""
        target_shares: list[Floats] = []
        totals: list[Floats] = []
        for start in range(0, len(index), 64):
            batch = windows.batch(index[start : start + 64])
            cells, shares = self.repeats.score(batch, self.num_ids, self.settings.window)
            row = cells // self.num_ids
            # A cell is row x ids + id: its id is compared with the target of its row.
            is_target = cells % self.num_ids == batch.targets[row]
            target_shares.append(np.bincount(row, shares * is_target, batch.num_targets).astype(np.float64))
            totals.append(np.bincount(row, shares, batch.num_targets).astype(np.float64))
        return np.concatenate(target_shares), np.concatenate(totals)

    def _table(self) -> SparseRows:
        """Return the counts as a sparse matrix, (ids, ids)."""
        return SparseRows(self.rows, self.columns, self.counts.astype(np.float64), self.num_ids)

    def both_ways(self) -> tuple[SparseRows, Scores]:
        """Return the counts plus ``backward`` times those the other way round, and (ids,) their sums by first value."""
        if self._symmetric is None:
            symmetric = both_ways(self._table(), float(self.numbers[BACKWARD]))
            self._symmetric = symmetric, (symmetric @ np.ones(self.num_ids)).astype(np.float32)
        return self._symmetric

    def event_weights(self, batch: PaddedBatch) -> Scores:
        """Return w of every event for every step, (batch, step, event); 0 of events that are not scored from."""
        numbers = Numbers(*self.numbers.astype(np.float32))
        steps = np.arange(batch.mask.shape[1])
        # (step, event) number of events in between; negative for later events, which are not visible.
        since = steps[:, None] - steps
        is_visible = (since >= 0) & (since < self.latest)
        weights: Scores = is_visible * numbers.lag ** np.maximum(since, 0).astype(np.float32) * batch.mask[:, None, :]
        if self.numbers[-1] and batch.times.any():
            seconds = np.maximum(batch.times[:, :, None] - batch.times[:, None, :], 0)
            weights = weights * np.exp(-self.numbers[-1] * seconds).astype(np.float32)
        sums = self.both_ways()[1]
        # An item without pairs has weight 0.
        by_id = np.where(sums > 0, sums, np.float32(np.inf)) ** -numbers.power
        weights *= by_id[batch.ids][:, None, :]
        return weights

    def _followers(self, batch: PaddedBatch, weights: Scores) -> tuple[Index, Scores, Scores]:
        """Return the items that followed the latest events of each target step.

        Args:
            batch: padded histories.
            weights: (targets, events) of the events.

        Returns:
            (followers,) row x ids + value and the share of each follower, and (targets,) the sum of pairs and prior.
        """
        symmetric, sums = self.both_ways()
        values = batch.ids[batch.target_mask.nonzero()[0]]
        row, event = weights.nonzero()
        total = (weights * sums[values]).sum(1) + float(self.numbers[PRIOR])
        shares = (weights / total[:, None])[row, event].astype(np.float64)
        # A sparse (targets, ids) matrix of event weights times the (ids, ids) pairs gives the followers of each target.
        events = sparse_rows(row, values[row, event], shares, (len(weights), self.num_ids))
        followers = events @ symmetric
        cells = followers.owners() * self.num_ids + followers.indices
        return cells, followers.data.astype(np.float32), total

    def back(self) -> Scores:
        """Return popularity, overall and recent, (ids,)."""
        if self._popularity is None:
            recent = float(self.numbers.astype(np.float32)[RECENT])
            self._popularity = (1 - recent) * Popularity.shares(self) + recent * self.recent.shares()
        return self._popularity

    def parts(self, batch: PaddedBatch) -> tuple[Scores, Index, Scores, Scores]:
        """Return the nonzero terms of P beside popularity.

        Returns:
            (targets,) the factor of :meth:`back`; row x ids + value of what followed and of own values, some twice, and
            what each adds; and each event's part in it all, (batch, time, time).
        """
        weights = self.event_weights(batch)
        numbers = Numbers(*self.numbers.astype(np.float32))
        cells, followed, total = self._followers(batch, weights[batch.target_mask])
        own_cells, distance = own_values(batch, self.num_ids, self.settings.window)
        own_added = numbers.repeat * self.repeats.shares(distance)
        owner = own_cells // self.num_ids
        # The probability left after repeats, per target.
        novel_share = np.maximum(1 - np.bincount(owner, own_added, len(total)), MIN_NOVEL_SHARE).astype(np.float32)
        row, step = batch.target_mask.nonzero()
        # The part of an event is its weight times the sum of all pairs that it brings in.
        weights *= self.both_ways()[1][batch.ids][:, None, :] * batch.target_mask[:, :, None]
        weights[row, step] *= (novel_share / total)[:, None]
        # A value at distance 1 is the step's own event.
        weights[row[owner], step[owner], step[owner] + 1 - distance] += own_added
        added = np.concatenate([novel_share[cells // self.num_ids] * followed, own_added])
        return novel_share * numbers.prior / total, np.concatenate([cells, own_cells]), added, weights

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the scores, (targets, ids), and the weight of each event in them, (batch, time, time)."""
        factor, cells, added, weights = self.parts(batch)
        # log(factor x back + added) = log(factor) + log(back + added / factor), whose second part is one mixture.
        scores = log_mixture(self.back(), 1.0, len(factor), cells, added / factor[cells // self.num_ids])
        scores += logarithm(factor)[:, None]
        return ScoredBatch(scores, (weights,))
