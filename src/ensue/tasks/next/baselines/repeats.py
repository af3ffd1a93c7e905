"""Repeats: the distance of each value that a history holds, and the probability of a repeat at that distance.

The share of a distance is counted, one pass over the log: of the target steps before which some value stood last at
that distance, how many had it as their target. Distances are in classes (exact up to 16, then eight to a doubling).
Counting more data later simply adds. The same is counted of values that no other history holds: it is what is known of
a value that a model has never seen (Good 1953 and Katz 1987 leave mass to the unseen in the same way, by counts of 1).
So is, by Good's estimate, how many of the values that a history did not hold are new to all.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from ensue.data.histories import Histories, Index
from ensue.nn.validation import require_counts, require_table
from ensue.tasks.next.baselines.length_delay import PRIOR, SIZES, Counts, sizes
from ensue.tasks.next.batch import PaddedBatch
from ensue.topk import Scores


def own_values(batch: PaddedBatch, num_ids: int, window: int) -> tuple[Index, Index]:
    """Return the values among the latest ``window`` events of every target step, each at its latest place alone.

    Args:
        batch: padded histories.
        num_ids: size of the catalogue.
        window: how many of the latest events are looked at.

    Returns:
        row x ids + value of each, rows in order of the target steps and the latest value first, and its distance from
        the target, 1 for the latest event: after a b a these are a at 1 and b at 2.
    """
    row, step = batch.target_mask.nonzero()
    # (targets, window) the positions of the latest events, the latest first; negative before the first event.
    positions = step[:, None] - np.arange(min(window, batch.ids.shape[1]))
    next_positions = _next_positions(batch.ids)[row[:, None], np.maximum(positions, 0)]
    # An event is the latest of its value up to a step if that value comes again only after the step.
    is_latest = (positions >= 0) & (next_positions > step[:, None])
    target, age = is_latest.nonzero()
    return target * num_ids + batch.ids[row[target], positions[target, age]], age + 1


def _next_positions(ids: Index) -> Index:
    """Return where each value occurs next in its row, (batch, time), or the row's length: 5 7 5 has 2 3 3."""
    num_steps = ids.shape[1]
    # In the order of values, and of positions within a value, the next occurrence is the neighbour to the right.
    order = np.argsort(ids, axis=1, kind="stable")
    values = np.take_along_axis(ids, order, 1)
    sorted_next = np.full_like(order, num_steps)
    sorted_next[:, :-1] = np.where(values[:, 1:] == values[:, :-1], order[:, 1:], num_steps)
    next_positions = np.empty_like(order)
    np.put_along_axis(next_positions, order, sorted_next, 1)
    return next_positions


@dataclass(eq=False)
class RepeatShares:
    """Counts of the target steps that repeat a value, by how far back it stood.

    Attributes:
        again: (distances,) number of steps that repeat a value from each class of distances.
        offered: (distances,) number of steps before which a value stood there.
        lone_again: the same as ``again`` of values that no other history holds.
        lone_offered: the same as ``offered`` of such values.
        held: (2,) number of pairs of a history and an item, and of those whose item is in no other history.
    """

    again: Counts = field(default_factory=lambda: np.zeros(SIZES, np.float32))
    offered: Counts = field(default_factory=lambda: np.zeros(SIZES, np.float32))
    lone_again: Counts = field(default_factory=lambda: np.zeros(SIZES, np.float32))
    lone_offered: Counts = field(default_factory=lambda: np.zeros(SIZES, np.float32))
    held: Counts = field(default_factory=lambda: np.zeros(2, np.float32))
    skips_latest: bool = field(init=False, default=False)
    """Whether the latest item is assumed never to repeat."""

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: they have other shapes, or more steps repeat a value than could have.
        """
        for name, table in vars(self).items():
            if isinstance(table, np.ndarray):
                require_table(name, table, np.float32, [2 if name == "held" else SIZES])
                require_counts(name, table)
        # Each count cannot exceed the number of steps at which it was possible.
        pairs = ((self.again, self.offered), (self.lone_again, self.lone_offered), (self.held[1], self.held[0]))
        if any((count > limit).any() for count, limit in pairs):
            raise ValueError("again counts more repeats than steps")

    def count(self, histories: Histories, totals: Counts) -> None:
        """Add whole encoded histories.

        Args:
            histories: to add.
            totals: (ids,) how often each value occurs in all that was counted, these histories among them.
        """
        owner = histories.sequence_index()
        ids = histories.ids
        span, is_repeated, num_in_history = spans(histories, owner)
        # An item that occurs only in this history has all its occurrences there.
        lone = num_in_history == totals[ids]
        self.held += [np.count_nonzero(~is_repeated), np.count_nonzero(lone & ~is_repeated)]
        for mask, repeated, offered in (
            (np.ones_like(lone), self.again, self.offered),
            (lone, self.lone_again, self.lone_offered),
        ):
            repeated += _counts(sizes(span[mask & is_repeated]))
            # An event with a span of 3 is offered at 1, 2 and 3.
            offers = np.bincount(span[mask], minlength=2)[::-1].cumsum()[::-1][1:]
            offered += _counts(sizes(np.arange(1, len(offers) + 1)), offers)

    def shares(self, distance: Index, *, lone: bool = False) -> Scores:
        """Return the probability of a repeat at each distance; with ``lone`` of values that no history held before."""
        mean = self.again.sum() / np.maximum(self.offered.sum(), 1)
        # Classes with few observations are smoothed towards the mean, and lone items towards all items.
        probabilities = self._smoothed(self.again, self.offered, mean)
        if lone:
            probabilities = self._smoothed(self.lone_again, self.lone_offered, probabilities)
        by_distance = probabilities[sizes(distance)]
        return np.where(distance == 1, np.float32(0), by_distance) if self.skips_latest else by_distance

    def without_latest(self) -> RepeatShares:
        """Return the same shares with probability 0 of the latest value."""
        shares = copy(self)
        shares.skips_latest = True
        return shares

    def novelty(self) -> float:
        """Return the fraction of new items of a history that are new to all histories (Good 1953), from singletons."""
        num_pairs, num_lone = self.held.tolist()
        return float(num_lone / (num_pairs + PRIOR))

    @staticmethod
    def _smoothed(again: Counts, offered: Counts, expected: Counts | np.float32) -> Scores:
        return (again + PRIOR * expected) / (offered + PRIOR)

    def score(self, batch: PaddedBatch, num_ids: int, window: int) -> tuple[Index, Scores]:
        """Return row x ids + value of each value in a target step's history, and the probability that it repeats."""
        cell, distance = own_values(batch, num_ids, window)
        return cell, self.shares(distance)


def _counts(classes: Index, weights: Index | None = None) -> Counts:
    return np.bincount(classes, weights, SIZES).astype(np.float32)


def spans(histories: Histories, owner: Index) -> tuple[Index, np.ndarray, Index]:
    """Return each event's steps as the latest of its item, whether the item comes again, and its count there.

    The history 5 7 5 9 has spans 2 2 1 0: at the third step both 5 and 7 stand before the target, two and one away.
    """
    ids = histories.ids
    events = np.arange(len(histories.ids))
    # Events of one item of one history share a key; a stable sort keeps them in order of time.
    keys = owner * (int(ids.max(initial=0)) + 1) + ids
    order = np.argsort(keys, kind="stable")
    _, group, sizes_of = np.unique(keys[order], return_inverse=True, return_counts=True)
    is_repeated = np.zeros(len(ids), np.bool_)
    follows = histories.offsets[1:][owner] - 1  # the last event is no target's own past
    # An event is repeated if the next one in this order has the same key.
    is_repeated[order[:-1]] = group[1:] == group[:-1]
    # The position of the next occurrence ends the span of an event.
    follows[order[:-1][is_repeated[order[:-1]]]] = order[1:][group[1:] == group[:-1]]
    num_in_history = np.empty(len(ids), np.int64)
    num_in_history[order] = sizes_of[group]
    return follows - events, is_repeated, num_in_history
