"""Unknown items of a history as candidates: items that it contains and the training data lacks may repeat.

They are ranked only on request (``predict(rank_unknown=True)``, ``evaluate(unknown="rank")``), by the same rule for
every model and baseline, because no model has a score for them. The probability of a candidate is the counted share of
repeats of items that no other history contains, by distance
(:class:`ensue.tasks.next.baselines.repeats.RepeatShares`). The probabilities of the model cover known items only, but a
fraction ``novelty`` of the items that are new to a history is new to all, by Good's estimate (1953). The known items
together therefore have

    known = sum of the shares of the history's known items + (1 - ``novelty``) x what all its own items leave

and the score of a candidate is the model's log total plus ln(share / known). Histories without such items, and data in
which nothing repeats, are scored as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Index, Mask, ranges
from ensue.metrics import Floats
from ensue.records import History
from ensue.tasks.next.baselines.repeats import RepeatShares, spans
from ensue.tasks.next.item_filter import ItemFilter
from ensue.topk import Scores
from ensue.vocabulary import UNKNOWN, Vocabulary

MAX_DISTANCE = 100
"""Maximum distance of a candidate from the target, in events."""
MAX_SHARE = 0.98
"""Maximum probability of all unknown values of a history together."""


class CandidateEntries(NamedTuple):
    """The candidates of some targets, in order of the targets: (entries,) each."""

    target: Index
    """Which target: its place in the data, or the number of the question."""
    value: Index
    """Which value: its id in the data, or its place in the record."""
    odds: Floats
    """The logarithm of its probability over that of all that the model knows; -inf where it is ruled out."""

    @classmethod
    def of(
        cls, target: Index, value: Index, distance: Index, is_known: Mask, repeats: RepeatShares
    ) -> CandidateEntries:
        """Return the candidates by their distances, given all values of histories and which of them the model knows."""
        # Sort by target, then by distance: the candidates of a target are neighbours.
        order = np.lexsort((distance, target))
        target = target[order]
        value = value[order]
        distance = distance[order]
        is_known = is_known[order]
        lone, any_value = (repeats.shares(distance, lone=lone).astype(np.float64) for lone in (True, False))
        targets, which = np.unique(target, return_inverse=True)
        lone_mass = np.bincount(which, lone * ~is_known, len(targets))
        # Shares are scaled down where they sum to more than MAX_SHARE.
        share = lone * np.minimum(1, MAX_SHARE / np.maximum(lone_mass, MAX_SHARE))[which]
        remaining = 1 - np.minimum(lone_mass, MAX_SHARE)
        repeat_mass = np.minimum(np.bincount(which, any_value * is_known, len(targets)), remaining)
        # The formula of the module: repeats of known values, and the part of the rest that is not new to all.
        known_mass = repeat_mass + (1 - repeats.novelty()) * (remaining - repeat_mass)
        odds = np.where(lone > 0, np.log(np.maximum(share, 1e-12) / known_mass[which]), -np.inf)
        return cls(target[~is_known], value[~is_known], odds[~is_known])

    def of_targets(self, targets: Index) -> tuple[Index, Index]:
        """Return the row and the entry of each candidate of some targets."""
        # Targets are sorted: the candidates of one are between its left and right insertion points.
        low, high = (np.searchsorted(self.target, targets, side) for side in ("left", "right"))
        return np.repeat(np.arange(len(targets)), high - low), ranges(low, high - low)

    def ahead(self, targets: Index, totals: Scores, scores: npt.NDArray[np.floating]) -> Index:
        """Return how many candidates score at least as much as each target, given the log total of its row."""
        row, entry = self.of_targets(targets)
        is_ahead = totals[row].astype(np.float64) + self.odds[entry] >= scores[row]
        return np.bincount(row[is_ahead], minlength=len(targets))


class OwnUnknown(NamedTuple):
    """Additional columns of scores, one for each candidate of a record."""

    odds: Scores
    """(questions, columns); -inf where a question has fewer."""
    positions: Index
    """(questions, columns) of the value in its record."""

    def permitted(self, records: Sequence[History], filters: Sequence[ItemFilter | None]) -> Mask:
        """Return (questions, columns) which of them the filter of each question permits."""
        permitted = self.positions >= 0
        for row, column in np.argwhere(permitted).tolist():
            item_filter = filters[row]
            permitted[row, column] = (
                item_filter is None or records[row].values[self.positions[row, column]] in item_filter
            )
        return permitted


def of_targets(data: Histories, repeats: RepeatShares) -> CandidateEntries:
    """Return the candidates of each target of encoded histories: unknown values before it.

    Those have ids from ``len(vocabulary)`` on. UNKNOWN names no value, so it is no candidate.
    """
    owner = data.sequence_index()
    unknown = data.ids >= len(data.vocabulary)
    span, _, _ = spans(data, owner)
    # Only histories with an unknown value are scored, since all others have no candidates.
    (events,) = np.nonzero((span > 0) & (np.bincount(owner, unknown, len(data)) > 0)[owner] & (data.ids != UNKNOWN))
    lengths = np.minimum(span[events], MAX_DISTANCE)
    # An event at 5 that is the latest of its value up to 7 is a candidate at 6 and at 7: 1 and 2 away.
    distance = ranges(np.ones_like(lengths), lengths)
    event = np.repeat(events, lengths)
    return CandidateEntries.of(event + distance, data.ids[event].astype(np.int64), distance, ~unknown[event], repeats)


def of_records(records: Sequence[History], unknown: Mask, repeats: RepeatShares, least: int = 0) -> OwnUnknown:
    """Return the candidates of some records, the nearest first.

    Args:
        records: the questions.
        unknown: (events,) of all records, one after the other: whether the model lacks the value.
        repeats: what is counted.
        least: how many columns there are at least.
    """
    values = [value for record in records for value in record.values]
    lengths = [len(record.values) for record in records]
    stops = np.cumsum(lengths, dtype=np.int64)
    owner = np.repeat(np.arange(len(records)), lengths)
    names = Vocabulary(values)
    # np.unique returns first occurrences; in reversed order these are the latest event of each value.
    _, latest = np.unique((owner * len(names) + names.ids(values))[::-1], return_index=True)
    event = len(values) - 1 - latest
    distance = stops[owner[event]] - event
    event, distance = event[distance <= MAX_DISTANCE], distance[distance <= MAX_DISTANCE]
    position = event - (stops - lengths)[owner[event]]
    entries = CandidateEntries.of(owner[event], position, distance, ~unknown[event], repeats)
    # Number the candidates of each record from 0: position minus the position of its first one.
    column = np.arange(len(entries.target)) - np.searchsorted(entries.target, entries.target)
    odds = np.full((len(records), max(least, int(column.max(initial=-1)) + 1)), -np.inf, np.float32)
    positions = np.full(odds.shape, -1, np.int64)
    odds[entries.target, column] = entries.odds
    positions[entries.target, column] = entries.value
    return OwnUnknown(odds, positions)


def without_event(record: History, position: int) -> History:
    """Return a record without the event at a place."""
    following = position + 1
    values = record.values[:position] + record.values[following:]
    return History(values, record.times[:position] + record.times[following:], record.id)


def share_without(record: History, position: int, vocabulary: Vocabulary, repeats: RepeatShares) -> float:
    """Return the probability of an unknown value of a record once the event at its place is gone.

    It is 0 where the value stands nowhere else. What the model knows of the record stays as it is.
    """
    shorter = without_event(record, position)
    unknown = np.array([value not in vocabulary for value in shorter.values], np.bool_)
    candidates = of_records([shorter], unknown, repeats)
    odds = np.exp(candidates.odds[0].astype(np.float64))
    same = [
        index >= 0 and shorter.values[index] == record.values[position] for index in candidates.positions[0].tolist()
    ]
    return float(odds[np.array(same, np.bool_)].sum() / (1 + odds.sum()))
