"""Counting predictors: what a model must beat to be worth its training. One pass over the data, nothing learned.

Each scores as the trained models do (here logarithms of non-negative weights, so that a softmax returns their shares),
and ``count`` takes the place of training. Counting more data later simply adds.

``cooccurrence`` is directed: every pair of events at most ``window`` apart adds 1 / gap to (earlier, later). The score
of a candidate is the sum over the latest events of count / (row total ** ``power``) / gap, plus ``popularity`` times
the candidate's share of all events.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ensue import kernels
from ensue.data.histories import Histories, Ids, Index, entries_of, ranges
from ensue.metrics import Floats
from ensue.nn.validation import require_counts, require_ids, require_offsets, require_table
from ensue.settings import Settings
from ensue.tasks.next.batch import PaddedBatch, ScoredBatch
from ensue.tasks.next.settings import CountingSettings
from ensue.text.sparse import sparse_rows
from ensue.topk import Scores
from ensue.vocabulary import FIRST

MAX_DENSE_IDS = 2048
PAIR_COST = 64
"""Catalogues up to this size are scored from a full table of pairs where many occur. To add one stored pair to a score
takes as long as to add ``PAIR_COST`` neighbouring numbers of a table."""
PAIRS = 2**20
"""Pairs that are counted at once: some 50 MB, so that a log of any size is counted near the processor's cache."""


Counts = npt.NDArray[np.float32]
"""Counts of events, some of them weighted."""


def logarithm(numbers: Scores) -> Scores:
    """Return logarithms; -inf of 0."""
    with np.errstate(divide="ignore"):
        logarithms: Scores = np.log(numbers)
    return logarithms


@dataclass(eq=False)
class ItemCounts:
    """Occurrences of each item: the base class of the baselines.

    Attributes:
        settings: of the baseline.
        num_ids: size of the catalogue, padding and unknown included.
        totals: (ids,) number of events of each item.
        weighs_events: True if an event counts as often as its weight says.
    """

    weighs_events = True

    settings: Settings
    num_ids: Annotated[int, Field(ge=FIRST)]
    totals: Counts = None  # type: ignore[assignment]  # zeros unless given

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: there is not one of each id, one is negative, or padding or unknown values are counted.
        """
        if self.totals is None:
            self.totals = np.zeros(self.num_ids, np.float32)
        require_item_counts("totals", self.totals, self.num_ids)
        if self.totals[:FIRST].any():
            raise ValueError("totals counts padding or unknown values")

    def count(self, histories: Histories) -> None:
        """Add the events of encoded histories."""
        self.totals += self._occurrences(histories.ids, self._weights(histories))

    def forget(self, histories: Histories) -> None:
        """Take back the events of encoded histories that were counted."""
        self.totals = np.maximum(self.totals - self._occurrences(histories.ids, self._weights(histories)), 0)

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts."""
        self.totals[ids] = 0

    def grow(self, num_ids: int) -> Self:
        """Return these counts resized for more ids; known ids keep theirs, new ones start at 0."""
        grown = copy(self)
        grown.num_ids = num_ids
        grown.totals = np.pad(self.totals, (0, num_ids - self.num_ids))
        return grown

    def shares(self) -> Scores:
        """Return the share of each item in all events, (ids,)."""
        return self.totals / np.maximum(self.totals.sum(), 1)

    def _occurrences(self, ids: Ids, weights: Floats | None = None) -> Counts:
        """Return how often each id occurs, (ids,); with weights the sum of them."""
        return np.bincount(ids, weights, self.num_ids).astype(np.float32)

    def _weights(self, histories: Histories) -> Floats | None:
        """Return the (events,) weights by which events count; ``None`` where each counts 1."""
        return histories.weights if self.weighs_events and len(histories.weights) else None


def require_item_counts(name: str, counts: Counts, num_ids: int) -> None:
    """Check that there is one count of each id.

    Raises:
        ValueError: there is not, or one is negative or too large.
    """
    require_table(name, counts, np.float32, [num_ids])
    require_counts(name, counts)


@dataclass(eq=False)
class Popularity(ItemCounts):
    """Frequency of each item, independent of the history."""

    settings: CountingSettings

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return 0

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the same scores for every target step; events get no weights."""
        num_targets = batch.num_steps
        scores = np.repeat(logarithm(self.shares())[None], num_targets, axis=0)
        return ScoredBatch(scores, (np.zeros(batch.mask.shape + batch.mask.shape[-1:], np.float32),))


@dataclass(eq=False)
class Cooccurrence(Popularity):
    """Directed co-occurrence of the latest ``window`` events; see the module for the formula.

    Attributes:
        rows: (ids + 1,) the successors of id ``i`` are at ``rows[i]:rows[i + 1]`` of ``columns`` and ``counts``.
        columns: (pairs,) the later id of each pair.
        counts: (pairs,) the sum of 1 / gap over the occurrences of each pair.
    """

    rows: Index = None  # type: ignore[assignment]  # zeros unless given
    columns: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    counts: Counts = field(default_factory=lambda: np.zeros(0, np.float32))
    _row_totals: Counts | None = field(init=False, default=None)
    _dense: Counts | None = field(init=False, default=None)
    """(ids, ids) the counts, of a small catalogue; ``None`` until they are needed."""

    def __post_init__(self) -> None:
        """Check that ``rows`` cuts the pairs into one row per id.

        Raises:
            ValueError: it does not, or the tables are not of one catalogue.
        """
        super().__post_init__()
        if self.rows is None:
            self.rows = np.zeros(self.num_ids + 1, np.int64)
        require_offsets("rows", self.rows, len(self.columns), self.num_ids)
        require_table("columns", self.columns, np.int32, [None])
        require_ids("columns", self.columns, self.num_ids, FIRST)
        require_item_counts("counts", self.counts, len(self.columns))

    @property
    def gap(self) -> int:
        """The largest distance at which a pair counts."""
        return self.settings.window

    @property
    def latest(self) -> int:
        """Number of latest events that are scored from."""
        return self.gap

    @property
    def reach(self) -> int | None:
        """Receptive field: the number of earlier events that can change a step's scores."""
        return self.latest - 1

    def count(self, histories: Histories) -> None:
        """Add the events and pairs of encoded histories, the pairs of some earlier ids at a time."""
        super().count(histories)
        ids = histories.ids
        num_ids = self.num_ids
        # Number of events that follow each event within the gap: of a history of 4 and gap 2 it is 2 2 1 0.
        ends = histories.offsets[1:][histories.sequence_index()]
        followed = np.minimum(ends - np.arange(len(ids)) - 1, self.gap)
        # Ids are cut into chunks of about PAIRS pairs, new and stored ones. Chunk numbers have no gaps afterwards,
        # although a popular id may fill several chunks.
        num_pairs = np.bincount(ids, followed, num_ids) + np.diff(self.rows)
        chunk_of_id = (np.cumsum(num_pairs) // PAIRS).astype(np.int64)
        chunk_of_id = np.cumsum(np.diff(chunk_of_id, prepend=chunk_of_id[:1]) > 0)
        bounds = [0, *(np.flatnonzero(np.diff(chunk_of_id)) + 1).tolist(), num_ids]
        chunk = chunk_of_id[ids].astype(np.uint16 if len(bounds) < 2**16 else np.int64)
        order = np.argsort(chunk, kind="stable")  # of 16 bits it is a radix sort: time grows with the events alone
        stops = np.concatenate([[0], np.cumsum(np.bincount(chunk, minlength=len(bounds) - 1))])
        chunks = []
        for number, (low, high) in enumerate(pairwise(bounds)):
            events = order[stops[number] : stops[number + 1]]
            new_pairs = _pair_sums(ids, events, followed[events], num_ids, self._weights(histories))
            chunks.append(self._most_counted(*self._with_stored(low, high, *new_pairs)))
        pairs, counts = (np.concatenate(column) for column in zip(*chunks, strict=True))
        self._set_pairs(pairs, counts)

    def forget(self, histories: Histories) -> None:
        """Take back the events and pairs of encoded histories that were counted; what is left of a pair stays."""
        super().forget(histories)
        forgotten = type(self)(self.settings, self.num_ids)
        Cooccurrence.count(forgotten, histories)
        pairs, forgotten_pairs = self._pairs(), forgotten._pairs()
        # Both lists of pairs are sorted: find each forgotten pair among the stored ones.
        index = np.searchsorted(pairs, forgotten_pairs).clip(max=max(len(pairs) - 1, 0))
        is_stored = pairs[index] == forgotten_pairs if len(pairs) else np.zeros(len(forgotten_pairs), np.bool_)
        counts = self.counts.astype(np.float64)
        counts[index[is_stored]] -= forgotten.counts[is_stored]
        weights = self._weights(histories)
        least = 1.0 if weights is None else min(1.0, float(weights.min(initial=1.0)))
        remaining = counts > 0.5 * least / self.gap  # a pair that occurs counts at least its weight / gap
        self._set_pairs(pairs[remaining], counts[remaining])

    def forget_ids(self, ids: Ids) -> None:
        """Take some ids out of the counts and pairs."""
        super().forget_ids(ids)
        # A pair goes if either of its items does.
        remaining = ~np.isin(self._earlier(), ids) & ~np.isin(self.columns, ids)
        self._set_pairs(self._pairs()[remaining], self.counts[remaining].astype(np.float64))

    def _set_pairs(self, pairs: Index, counts: Floats) -> None:
        """Store pairs, each as earlier id x ids + later id in rising order, and their counts."""
        # Pair keys are sorted, so the first key of each id is where its row begins.
        self.rows = np.searchsorted(pairs, np.arange(self.num_ids + 1) * self.num_ids)
        self.columns = (pairs % self.num_ids).astype(np.int32)
        self.counts = counts.astype(np.float32)
        self._row_totals = self._dense = None

    def _with_stored(self, low: int, high: int, pairs: Index, sums: Floats) -> tuple[Index, Floats]:
        """Return the pairs of the ids from ``low`` to before ``high``, rising, and their counts: new and stored."""
        begin, end = self.rows[[low, high]].tolist()
        if begin == end:
            return pairs, sums
        earlier = np.repeat(np.arange(low, high), np.diff(self.rows[low : high + 1]))
        stored = earlier * self.num_ids + self.columns[begin:end]
        all_pairs, codes = np.unique(np.concatenate([stored, pairs]), return_inverse=True)
        counts = np.concatenate([self.counts[begin:end], sums])
        return all_pairs, np.bincount(codes, counts, len(all_pairs)).astype(np.float64)

    def _most_counted(self, pairs: Index, counts: Floats) -> tuple[Index, Floats]:
        """Return the ``keep`` highest counts per earlier id; ties go to the smaller ids."""
        keep = self.settings.keep
        _, starts, lengths = np.unique(pairs // self.num_ids, return_index=True, return_counts=True)
        mask = np.ones(len(pairs), np.bool_)
        for start, length in zip(starts[lengths > keep], lengths[lengths > keep], strict=True):
            # Counts are stored in float32: ties are decided by what is stored.
            falling = np.argsort(-counts[start : start + length].astype(np.float32), kind="stable")
            mask[start + falling[keep:]] = False
        return pairs[mask], counts[mask]

    def grow(self, num_ids: int) -> Self:
        """Return these counts resized for more ids."""
        grown = super().grow(num_ids)
        grown.rows = np.pad(self.rows, (0, num_ids - self.num_ids), "edge")
        grown._row_totals = grown._dense = None
        return grown

    def _earlier(self) -> Index:
        """Return the earlier id of each pair."""
        return np.repeat(np.arange(self.num_ids), np.diff(self.rows))

    def _pairs(self) -> Index:
        """Return each pair as earlier id x ids + later id, rising."""
        return self._earlier() * self.num_ids + self.columns

    def row_totals(self) -> Counts:
        """Return the sum of each item's counts over its successors, (ids,)."""
        if self._row_totals is None:
            # Differences of cumulative sums, in float64, so that long logs lose no precision.
            sums = np.concatenate([[0.0], np.cumsum(self.counts, dtype=np.float64)])
            self._row_totals = np.diff(sums[self.rows]).astype(np.float32)
        return self._row_totals

    def recency(self, batch: PaddedBatch) -> Scores:
        """Return the weight 1 / gap of every event for every step, (batch, step, event); 0 outside the window."""
        steps = np.arange(batch.mask.shape[1])
        # An event has gap 1 to the step that scores from it, and a gap below 1 to earlier steps.
        gaps = steps[:, None] - steps[None, :] + 1
        is_visible = (gaps >= 1) & (gaps <= self.latest)
        return is_visible / np.maximum(gaps, 1).astype(np.float32) * batch.mask[:, None, :]

    def __call__(self, batch: PaddedBatch) -> ScoredBatch:
        """Return the scores, (targets, ids), and each event's part of the counted mass, (batch, time, time)."""
        events, fractions = self._scored_events(batch)
        num_targets = batch.num_steps
        if self.num_ids <= MAX_DENSE_IDS and PAIR_COST * len(self.columns) > self.num_ids**2:
            return ScoredBatch(self._dense_scores(num_targets, *events), (fractions,))
        scores = log_mixture(self.totals, self.settings.popularity, num_targets, *self._sums(*events))
        return ScoredBatch(scores, (fractions,))

    def followers(self, batch: PaddedBatch) -> tuple[Index, Scores, Scores]:
        """Return the items that followed the latest events of each target step.

        Returns:
            row x ids + id of each follower, some twice, and what it adds to the candidate's score; each event's part of
            the counted mass, (batch, time, time).
        """
        events, fractions = self._scored_events(batch)
        return *self._sums(*events), fractions

    def _scored_events(self, batch: PaddedBatch) -> tuple[tuple[Index, Index, Scores], Scores]:
        """Return the events that scores come from, and each event's part of the counted mass, (batch, time, time).

        Returns:
            The row of the target, the id and the weight of each event that is scored from; and the parts.
        """
        totals = self.row_totals()
        # Items with many successors are discounted, so that popular ones do not dominate.
        by_id = (np.maximum(totals, 1e-9) ** -self.settings.power).astype(np.float32, copy=False)
        weights: Scores = self.recency(batch) * by_id[batch.ids][:, None, :]
        # Each target step has a row of (targets, time) weights; its history is repeated for each of its target steps.
        target_weights = weights[batch.target_mask]
        histories = batch.ids[batch.target_mask.nonzero()[0]]
        target, event = target_weights.nonzero()
        mass = weights * totals[batch.ids][:, None, :]
        fractions = mass / np.maximum(mass.sum(-1, keepdims=True), 1e-30)
        return (target, histories[target, event], target_weights[target, event]), fractions

    def _sums(self, target: Index, ids: Index, weight: Scores) -> tuple[Index, Scores]:
        """Return row x ids + id of each follower of some events, and its weighted count."""
        # Flatten the rows of all events; owner is the event of each pair.
        owner, pair = entries_of(self.rows, ids)
        cells = (target * self.num_ids)[owner] + self.columns[pair]
        return cells, weight[owner] * self.counts[pair]

    def _dense_scores(self, num_targets: int, target: Index, ids: Index, weight: Scores) -> Scores:
        """Return the scores as weighted sums of rows of the full (ids, ids) table, (targets, ids)."""
        if self._dense is None:
            self._dense = np.zeros((self.num_ids, self.num_ids), np.float32)
            # A pair is the position of its count in the table read row after row.
            self._dense.reshape(-1)[self._pairs()] = self.counts
        scores = sparse_rows(target, ids, weight, (num_targets, self.num_ids)) @ self._dense
        scores += self.settings.popularity * self.shares()
        return logarithm(scores)


def _pair_sums(
    ids: Ids, events: Index, followed: Index, num_ids: int, weights: Floats | None = None
) -> tuple[Index, Floats]:
    """Return the pairs of some events with those that follow each, rising, and the sum of weight / gap of each pair.

    Args:
        ids: (all events,).
        events: (events,) places of the earlier events.
        followed: (events,) how many of the next events each is paired with.
        num_ids: a pair is earlier id x ``num_ids`` + later id.
        weights: (all events,) a pair counts by the weight of its later event. [default: 1]
    """
    # Ids 5 7 5, each with all that follow: followed [2 1 0], gaps [1 2 1], pairs 5-7, 5-5, 7-5 as first x ids + second.
    gap = ranges(np.ones_like(followed), followed)
    gap_limit = int(followed.max(initial=0)) + 1
    later = np.repeat(events, followed) + gap
    pairs = np.repeat(ids[events].astype(np.int64) * num_ids, followed) + ids[later]
    keys = pairs * gap_limit + gap  # the gap and the weight are sorted too, so that sums do not depend on the order
    order = np.lexsort((weights[later], keys)) if weights is not None else None
    keys = np.sort(keys) if order is None else keys[order]
    pairs = keys // gap_limit
    (starts,) = np.nonzero(np.diff(pairs, prepend=-1))
    addends = 1 / np.maximum(keys % gap_limit, 1)
    if order is not None and weights is not None:
        addends *= weights[later][order]
    sums = np.add.reduceat(addends, starts) if len(starts) else np.zeros(0)
    return pairs[starts], sums


class Markov(Cooccurrence):
    """First order: what followed the last event, popularity where nothing did."""

    @property
    def gap(self) -> int:
        """Only the next event counts."""
        return 1


class SequentialRules(Cooccurrence):
    """Items up to ten events after the last one, weighted by 1 / gap (Ludewig & Jannach 2018); else popularity."""

    @property
    def gap(self) -> int:
        """Pairs at most ten events apart count."""
        return min(10, self.settings.window)

    @property
    def latest(self) -> int:
        """Scores come from the last event alone."""
        return 1


def _compiled_log_mixture(totals: Counts, popularity: float, rows: int, cells: Index, shares: Scores) -> Scores:
    scores = np.empty((rows, len(totals)), np.float32)
    factor = popularity / max(1.0, float(totals.sum()))
    kernels.call("log_mixture", totals=totals, factor=factor, cells=cells, added=shares, out=scores)
    return scores


@kernels.compiled(_compiled_log_mixture, when=lambda totals, *_: len(totals) > 0)
def log_mixture(totals: Counts, popularity: float, rows: int, cells: Index, shares: Scores) -> Scores:
    """Return the logarithms of the neighbours' shares plus those of all events, (rows, ids).

    Args:
        totals: (ids,) occurrences.
        popularity: weight of an item's share of all occurrences.
        rows: of the result.
        cells: (shares,) positions row x ids + id.
        shares: (shares,) addends.
    """
    fractions = totals / np.maximum(totals.sum(), 1)
    scores = np.repeat((popularity * fractions)[None], rows, axis=0)
    # A cell may occur several times; add.at sums its addends.
    np.add.at(scores.reshape(-1), cells, shares)
    return logarithm(scores)
