"""Values that a history holds and the model lacks: they too may come again, and so they are candidates.

A model has no score for them. What is counted is how often a value that no other history held came again, by its
distance (:class:`ensue.tasks.next.baselines.repeats.RepeatShares`): that share is the candidate's probability, and what
the shares of a history leave is the model's. So its score is the model's log total plus the log of its odds. Histories
without such values, and data in which nothing repeats, are scored as if there were none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories, Index, ranges
from ensue.metrics import Floats
from ensue.records import History
from ensue.tasks.next.baselines.repeats import RepeatShares, spans
from ensue.vocabulary import Vocabulary

FARTHEST = 100
"""So many of the latest events are looked at."""
MOST = 0.98
"""All such values of a history have at most so much of the probability."""


class Candidates(NamedTuple):
    """The candidates of some targets, in order of the targets: (entries,) each."""

    target: Index
    """Which target: its place in the data, or the number of the question."""
    value: Index
    """Which value: its id in the data, or its place in the record."""
    share: Floats
    """Its probability."""
    odds: Floats
    """The logarithm of its probability over what is left to the model."""

    @classmethod
    def of(cls, target: Index, value: Index, distance: Index, repeats: RepeatShares) -> Candidates:
        """Candidates, by the shares of their distances."""
        order = np.lexsort((distance, target))
        target, value, distance = (column[order] for column in (target, value, distance))
        share = repeats.shares(torch.from_numpy(distance), lone=True).double().numpy()
        _, which = np.unique(target, return_inverse=True)
        share = share * np.minimum(1, MOST / np.maximum(np.bincount(which, share), MOST))[which]
        left = 1 - np.bincount(which, share)
        return cls(target, value, share, np.log(np.maximum(share, 1e-12) / left[which]))

    def of_targets(self, targets: Index) -> tuple[Index, Index]:
        """Row and entry of each candidate of some targets."""
        low, high = (np.searchsorted(self.target, targets, side) for side in ("left", "right"))
        return np.repeat(np.arange(len(targets)), high - low), ranges(low, high - low)

    def ahead(self, targets: Index, totals: Tensor, scores: Tensor) -> Tensor:
        """(targets,) how many candidates score at least as much as each target, given the log total of its row."""
        row, entry = self.of_targets(targets)
        above = totals.double()[row] + torch.from_numpy(self.odds[entry]) >= scores.double()[row]
        return torch.from_numpy(np.bincount(row[above.numpy()], minlength=len(targets)))


class OwnUnknown(NamedTuple):
    """Columns beside the catalogue, one for each candidate of a question."""

    odds: Tensor
    """(questions, columns); -inf where a question has fewer."""
    places: Tensor
    """(questions, columns) of the value in its record."""
    taken: Tensor
    """(questions,) the probability of all of them."""

    def of_rows(self, rows: Index) -> OwnUnknown:
        """Those of some questions."""
        return OwnUnknown(*(column[rows] for column in self))


def of_targets(data: Histories, repeats: RepeatShares) -> Candidates:
    """What each target of encoded histories has before it of values from id ``len(vocabulary)`` on."""
    span, _, _ = spans(data, data.sequence_index())
    (events,) = np.nonzero((data.ids >= len(data.vocabulary)) & (span > 0))
    lengths = np.minimum(span[events], FARTHEST)
    # An event at 5 that is the latest of its value up to 7 is a candidate at 6 and at 7: 1 and 2 away.
    distance = ranges(np.ones_like(lengths), lengths)
    return Candidates.of(np.repeat(events, lengths) + distance, np.repeat(data.ids[events], lengths), distance, repeats)


def of_records(records: Sequence[History], owner: Index, place: Index, repeats: RepeatShares) -> OwnUnknown:
    """What may come again after some records.

    Args:
        records: the questions.
        owner: (events,) the number of the record that each event stands in, of a value that the model lacks; in order.
        place: (events,) where it stands there.
        repeats: what is counted.
    """
    values = [records[at].values[own] for at, own in zip(owner.tolist(), place.tolist(), strict=True)]
    names = Vocabulary(values)
    _, latest = np.unique((owner * len(names) + names.ids(values))[::-1], return_index=True)
    event = len(values) - 1 - latest
    distance = np.array([len(records[at].values) for at in owner[event].tolist()], np.int64) - place[event]
    near = distance <= FARTHEST
    found = Candidates.of(owner[event][near], place[event][near], distance[near], repeats)
    column = np.arange(len(found.target)) - np.searchsorted(found.target, found.target)
    odds = torch.full((len(records), int(column.max(initial=-1)) + 1), -torch.inf)
    places = torch.full(odds.shape, -1, dtype=torch.int64)
    odds[found.target, column] = torch.from_numpy(found.odds).float()
    places[found.target, column] = torch.from_numpy(found.value)
    return OwnUnknown(odds, places, torch.from_numpy(np.bincount(found.target, found.share, len(records))).float())


def share_without(record: History, place: int, repeats: RepeatShares) -> float:
    """The probability that the value at a place comes again if it did not stand there: 0 where it is nowhere else."""
    earlier = [at for at, value in enumerate(record.values[:place]) if value == record.values[place]]
    away = torch.tensor([len(record.values) - 1 - at for at in earlier[-1:]], dtype=torch.int64)
    return float(repeats.shares(away, lone=True).sum())
