"""Co-participation: who stood beside a user in past cascades.

Counts of pairs (``ensue.tasks.next.baselines.counting.Cooccurrence``) forget when a pair was seen. This scorer looks at
the cascades themselves, so that what stood beside a user this morning can weigh more than what did in spring:

    M(v) = sum over the latest events j of 1 / (i - j + 1) ** ``STEEP`` / total(u_j) ** ``POWER``
           x sum over the times p that u_j stands in a past cascade, and over what stands beside it there
             of 1 / gap ** ``STEEP`` x (``FAR`` + exp(-|t_j - t_p| / ``DAYS``))

with i the step that is asked. What came before u_j counts ``BACK`` times as much as what followed. Beside it comes the
same sum without the last factor, which is right where the clock says nothing. Each event of a cascade is looked up
once, whatever the number of steps that are asked about.

The constants were chosen on validation cascades of FOREST's Twitter and Memetracker.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.data.histories import Index, ranges
from ensue.metrics import Floats
from ensue.nn.attention import band
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.ensembles.cascade_store import CascadeStore

Weights = npt.NDArray[np.float32]
Pairs = tuple[Index, Index, Weights, Weights]
"""(found,) the event, what stood beside it, and how much that says, close in time first and all times alike."""

DAY = 86_400.0
DAYS = 0.3
"""How close in time what counts most may be."""
FAR = 0.1
"""What a pair counts, beside one of the same moment, that is far away in time."""
STEEP = 0.7
"""How fast what stood further apart counts less."""
BACK = 0.1
"""What counts that came before a user, beside what followed."""
POWER = 0.7
"""Totals are divided out to this power."""
KEEP = 2000
"""How often a user is looked up at most, the latest cascades first."""
PAIRS = 2**22
"""So many pairs of an event and what stood beside its user are held at once: some 400 MB."""


class CoParticipationScores(NamedTuple):
    """What past cascades say.

    Attributes:
        candidates: (candidates,) the ids of which anything is said.
        near: (targets, candidates) M, what is close in time first.
        far: (targets, candidates) the same, all times alike.
        shares: (batch, time, time) each event's part of ``near``: rows that sum to 1 or hold nothing.
    """

    candidates: Tensor
    near: Tensor
    far: Tensor
    shares: Tensor


class Postings(NamedTuple):
    """Where ids stand in past cascades.

    Attributes:
        order: (events,) places by id, those of one id oldest first.
        stops: (ids + 1,) where each id's begin in ``order``.
        begins: (events,) where each place's cascade begins, and
        ends: where it ends.
        totals: (ids,) what all that stood beside an id weighs together, without closeness in time.
        pairs: (events + 1,) how much stands beside all places in ``order`` before each.
    """

    order: Index
    stops: Index
    begins: Index
    ends: Index
    totals: Floats
    pairs: Index


class CoParticipation:
    """The search among past cascades.

    Args:
        past: the cascades.
        window: how many of the latest events have a say, and how far what stood beside them may be.
        keep: how often a user is looked up at most.
    """

    def __init__(self, past: CascadeStore, *, window: int = 30, keep: int = KEEP) -> None:
        self.past, self.window, self.keep = past, window, keep

    def score(self, batch: Batch) -> CoParticipationScores:
        """What past cascades say after each target step.

        Args:
            batch: on the CPU; times as in the past cascades.
        """
        size, time = batch.mask.shape
        steps = torch.arange(time)
        gaps = (steps[:, None] - steps[None, :] + 1).clamp(min=1)
        visible = band(time, reach=self.window, own=True) & batch.mask[:, None, :] & batch.target_mask[:, :, None]
        heeded = visible / gaps**STEEP
        needed = heeded.amax(1) > 0
        event, value, moment, ever = self._look_up(batch.ids[needed].numpy(), batch.times[needed].numpy())
        present = torch.zeros(self.past.num_ids, dtype=torch.bool)
        present[value] = True
        candidates = present.nonzero()[:, 0]
        cell = event * len(candidates) + present.cumsum(0)[value] - 1
        near, far = torch.zeros(2, size, time, len(candidates))
        for places, part in ((near, moment), (far, ever)):
            rows = torch.zeros(int(needed.sum()), len(candidates))
            rows.view(-1).index_add_(0, cell, part)
            places[needed] = rows
        mass = heeded * near.sum(2)[:, None, :]
        shares = mass / mass.sum(2, keepdim=True).clamp(min=1e-30)
        near, far = (torch.bmm(heeded, places)[batch.target_mask] for places in (near, far))
        return CoParticipationScores(candidates, near, far, shares)

    def _look_up(self, ids: Index, times: Floats) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(found,) the event, what stood beside it, and how much that says, close in time first and all times alike."""
        found = self.past.cached(f"postings {self.window}", self._postings)
        lengths = np.minimum(found.stops[ids + 1] - found.stops[ids], self.keep)
        pairs = found.pairs[found.stops[ids + 1]] - found.pairs[found.stops[ids + 1] - lengths]
        stops = np.flatnonzero(np.diff(np.cumsum(pairs) // PAIRS)) + 1
        bounds = [0, *stops.tolist(), len(ids)]
        parts = []
        for low, high in itertools.pairwise(bounds):
            part = self._pairs(found, ids[low:high], times[low:high], lengths[low:high])
            parts.append(self._summed(low, *part) if len(bounds) > 2 else part)
        event, value, moment, ever = (np.concatenate(own) for own in zip(*parts, strict=True))
        return torch.from_numpy(event), torch.from_numpy(value), torch.from_numpy(moment), torch.from_numpy(ever)

    def _pairs(self, found: Postings, ids: Index, times: Floats, lengths: Index) -> Pairs:
        """As :meth:`_look_up`, an entry each time that something stood beside a user."""
        event = np.repeat(np.arange(len(ids)), lengths)
        place = found.order[ranges(found.stops[ids + 1] - lengths, lengths)]
        said = found.totals[ids[event]] ** -POWER
        close = FAR + np.exp(-np.abs(times[event] - self.past.times.numpy()[place]) / (DAY * DAYS))
        after = self._beside(place, np.minimum(found.ends[place] - place - 1, self.window), 1)
        before = self._beside(place, np.minimum(place - found.begins[place], self.window), -1)
        which, value, near = (np.concatenate(sides) for sides in zip(after, before, strict=True))
        ever = (said[which] * near).astype(np.float32)
        return event[which], value, ever * close[which].astype(np.float32), ever

    def _summed(self, begun: int, event: Index, value: Index, moment: Weights, ever: Weights) -> Pairs:
        """One entry for each event, counted from ``begun``, and what stood beside its user."""
        present = np.zeros(self.past.num_ids, bool)
        present[value] = True
        candidates = np.flatnonzero(present)
        cell = event * len(candidates) + present.cumsum()[value] - 1
        there = np.flatnonzero(np.bincount(cell))
        moment, ever = (np.bincount(cell, own)[there].astype(np.float32) for own in (moment, ever))
        return begun + there // len(candidates), candidates[there % len(candidates)], moment, ever

    def _beside(self, place: Index, number: Index, side: int) -> tuple[Index, Index, Floats]:
        """So many events on one side of some places: the number of the place, the id, and what it weighs."""
        gap = ranges(np.ones_like(number), number)
        which: Index = np.repeat(np.arange(len(place)), number)
        value: Index = self.past.values.numpy()[place[which] + side * gap].astype(np.int64)
        near: Floats = _by_gap(self.window)[gap - 1] * (1.0 if side > 0 else BACK)
        return which, value, near

    def _postings(self) -> Postings:
        """Where each id stands."""
        ids, starts, num_ids = self.past.values.numpy(), self.past.starts.numpy(), self.past.num_ids
        stops = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=num_ids))])
        begins, ends = (np.repeat(bound, np.diff(starts)) for bound in (starts[:-1], starts[1:]))
        places = np.arange(len(ids))
        sums = np.concatenate([[0.0], np.cumsum(_by_gap(self.window))])
        after, before = (np.minimum(far, self.window) for far in (ends - places - 1, places - begins))
        totals = np.bincount(ids, sums[after] + BACK * sums[before], num_ids)
        order = np.argsort(ids, kind="stable")
        pairs = np.concatenate([[0], np.cumsum((after + before)[order])])
        return Postings(order, stops, begins, ends, np.maximum(totals, 1e-9), pairs)


def _by_gap(window: int) -> Floats:
    """(window,) what stands so far apart weighs."""
    near: Floats = np.arange(1.0, window + 1) ** -STEEP
    return near
