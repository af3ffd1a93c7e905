"""The values a history already holds: how far back each stands, and how often one that far back comes again.

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
import torch
from torch import Tensor

from ensue.data.histories import Histories, Index
from ensue.nn.validation import require_counts, require_table
from ensue.tasks.next.baselines.length_delay import PRIOR, SIZES, sizes
from ensue.tasks.next.model import Batch, Counts


def own_values(batch: Batch, num_ids: int, window: int) -> tuple[Tensor, Tensor]:
    """The values among the latest ``window`` events of every target step, each at its latest place alone.

    Args:
        batch: on the CPU.
        num_ids: size of the catalogue.
        window: how many of the latest events are looked at.

    Returns:
        row x ids + value of each, rows in order of the target steps and the latest value first, and its distance from
        the target, 1 for the latest event: after a b a these are a at 1 and b at 2.
    """
    row, step = batch.target_mask.nonzero(as_tuple=True)
    where = step[:, None] - torch.arange(min(window, batch.ids.shape[1]))
    event = where.clamp(min=0)
    # An event is the latest of its value up to a step if that value comes again only after the step.
    kept = (where >= 0) & (_next_place(batch.ids)[row[:, None], event] > step[:, None])
    number, away = kept.nonzero(as_tuple=True)
    return number * num_ids + batch.ids[row[number], event[number, away]], away + 1


def _next_place(ids: Tensor) -> Tensor:
    """(batch, time) where each value stands next in its row, the row's length where it does not: 5 7 5 has 2 3 3."""
    time = ids.shape[1]
    order = ids.argsort(dim=1, stable=True)
    values = ids.gather(1, order)
    follows = torch.full_like(order, time)
    follows[:, :-1] = torch.where(values[:, 1:] == values[:, :-1], order[:, 1:], time)
    return torch.empty_like(order).scatter_(1, order, follows)


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

    again: Counts = field(default_factory=lambda: torch.zeros(SIZES))
    offered: Counts = field(default_factory=lambda: torch.zeros(SIZES))
    lone_again: Counts = field(default_factory=lambda: torch.zeros(SIZES))
    lone_offered: Counts = field(default_factory=lambda: torch.zeros(SIZES))
    held: Counts = field(default_factory=lambda: torch.zeros(2))
    skips_latest: bool = field(init=False, default=False)
    """Whether the latest item is assumed never to repeat."""

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: they have other shapes, or more steps repeat a value than could have.
        """
        for name, table in vars(self).items():
            if isinstance(table, Tensor):
                require_table(name, table, torch.float32, [2 if name == "held" else SIZES])
                require_counts(name, table)
        pairs = ((self.again, self.offered), (self.lone_again, self.lone_offered), self.held.flip(0).unbind())
        if any(bool((part > whole).any()) for part, whole in pairs):
            raise ValueError("again counts more repeats than steps")

    def count(self, histories: Histories, totals: Tensor) -> None:
        """Add whole encoded histories.

        Args:
            histories: to add.
            totals: (ids,) how often each value occurs in all that was counted, these histories among them.
        """
        owner, ids = histories.sequence_index(), histories.ids
        span, again, own = spans(histories, owner)
        lone = own == totals.numpy()[ids]
        self.held += torch.tensor([np.count_nonzero(~again), np.count_nonzero(lone & ~again)])
        for chosen, repeated, offered in (
            (np.ones_like(lone), self.again, self.offered),
            (lone, self.lone_again, self.lone_offered),
        ):
            repeated += _counts(sizes(span[chosen & again]))
            # An event with a span of 3 is offered at 1, 2 and 3.
            offers = np.bincount(span[chosen], minlength=2)[::-1].cumsum()[::-1][1:]
            offered += _counts(sizes(np.arange(1, len(offers) + 1)), offers)

    def shares(self, distance: Tensor, *, lone: bool = False) -> Tensor:
        """The share of each distance; with ``lone`` of values that no history held before."""
        table = self._smoothed(self.again, self.offered, float(self.again.sum() / self.offered.sum().clamp(min=1)))
        if lone:
            table = self._smoothed(self.lone_again, self.lone_offered, table)
        shares = table[torch.from_numpy(sizes(distance.numpy()))]
        return shares.masked_fill(distance == 1, 0.0) if self.skips_latest else shares

    def without_latest(self) -> RepeatShares:
        """Return the same shares, but for the latest value: it is no answer."""
        shares = copy(self)
        shares.skips_latest = True
        return shares

    def novelty(self) -> float:
        """The share of values new to all among those that their history did not hold (Good 1953): values held once."""
        held, lone = self.held.tolist()
        return float(lone / (held + PRIOR))

    @staticmethod
    def _smoothed(again: Tensor, offered: Tensor, expected: Tensor | float) -> Tensor:
        return (again + PRIOR * expected) / (offered + PRIOR)

    def score(self, batch: Batch, num_ids: int, window: int) -> tuple[Tensor, Tensor]:
        """Row x ids + value of what each target step's history holds, and the share of its distance."""
        cell, distance = own_values(batch, num_ids, window)
        return cell, self.shares(distance)


def _counts(classes: Index, weights: Index | None = None) -> Tensor:
    return torch.from_numpy(np.bincount(classes, weights, SIZES)).float()


def spans(histories: Histories, owner: Index) -> tuple[Index, np.ndarray, Index]:
    """Return each event's steps as the latest of its item, whether the item comes again, and its count there.

    The history 5 7 5 9 has spans 2 2 1 0: at the third step both 5 and 7 stand before the target, two and one away.
    """
    ids, events = histories.ids, np.arange(len(histories.ids))
    keys = owner * (int(ids.max(initial=0)) + 1) + ids
    order = np.argsort(keys, kind="stable")
    _, group, sizes_of = np.unique(keys[order], return_inverse=True, return_counts=True)
    again = np.zeros(len(ids), np.bool_)
    follows = histories.offsets[1:][owner] - 1  # the last event is no target's own past
    again[order[:-1]] = group[1:] == group[:-1]
    follows[order[:-1][again[order[:-1]]]] = order[1:][group[1:] == group[:-1]]
    own = np.empty(len(ids), np.int64)
    own[order] = sizes_of[group]
    return follows - events, again, own
