"""Echoes: what stood beside a user in past cascades, the more the closer in time that was.

Counts of pairs (``ensue.next_event.counting.Cooccurrence``) forget when a pair was seen. Echoes keep the cascades
themselves, so that what followed a user this week can weigh more than what followed it in spring:

    M(v) = sum over the latest events j of 1 / (i - j + 1) ** ``steep`` / total(u_j) ** ``power``
           x sum over the times p that u_j stands in a past cascade, and over what followed it there
             of 1 / gap ** ``steep`` x (``FAR`` + exp(-|t_j - t_p| / days))

with i the step that is asked. Without ``days`` the last factor is 1; with ``steep`` 1 M is the co-occurrence score
then. What came before u_j in a past cascade counts ``back`` times as much as what followed. Each event of a cascade is
looked up once, whatever the number of steps that are asked about.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories, Index, ranges
from ensue.metrics import Floats
from ensue.next_event.batch import Batch
from ensue.nn.attention import band

DAY = 86_400.0
FAR = 0.1
"""What a pair counts, beside one of the same moment, that is far away in time."""


class Postings(NamedTuple):
    """Where ids stand in past cascades.

    Attributes:
        order: (events,) places by id, those of one id oldest first.
        stops: (ids + 1,) where each id's begin in ``order``.
        begins: (events,) where each place's cascade begins, and
        ends: where it ends.
        totals: (ids,) what all that stood beside an id weighs together, without closeness in time.
        shape: ``steep`` and ``back``, for which ``totals`` were taken.
    """

    order: Index
    stops: Index
    begins: Index
    ends: Index
    totals: Floats
    shape: tuple[float, float]


class Echoes(nn.Module):
    """Past cascades, kept whole, and the search among them.

    Args:
        num_ids: size of the catalogue, padding and unknown included.
        window: how many of the latest events have a say, and how far what follows may be.
        keep: how often a user is looked up at most, the latest cascades first.
        power: totals are divided out to this power.
    """

    def __init__(self, num_ids: int, *, window: int = 30, keep: int = 2000, power: float = 0.7) -> None:
        super().__init__()
        self.num_ids, self.window, self.keep, self.power = num_ids, window, keep, power
        self.register_buffer("starts", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("ids", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("times", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("days", torch.zeros(1))
        self.register_buffer("steep", torch.ones(1))
        self.register_buffer("back", torch.zeros(1))
        self.starts: Tensor
        self.ids: Tensor
        self.times: Tensor
        self.days: Tensor
        self.steep: Tensor
        self.back: Tensor
        self.postings: Postings | None = None

    def count(self, histories: Histories) -> None:
        """Add encoded cascades as the latest."""
        times = histories.times if histories.timed else np.zeros(len(histories.ids))
        self.starts = torch.cat([self.starts, torch.from_numpy(histories.offsets[1:]) + self.starts[-1]])
        self.ids = torch.cat([self.ids, torch.from_numpy(histories.ids.astype(np.int32))])
        self.times = torch.cat([self.times, torch.from_numpy(times)])
        self.postings = None

    def grow(self, num_ids: int) -> Echoes:
        """The same cascades with room for more ids."""
        grown = Echoes(num_ids, window=self.window, keep=self.keep, power=self.power)
        grown.starts, grown.ids, grown.times = self.starts, self.ids, self.times
        grown.shape(self)
        return grown

    @torch.no_grad()
    def shape(self, other: Echoes) -> None:
        """Weigh as another does."""
        for name in ("days", "steep", "back"):
            getattr(self, name).copy_(getattr(other, name))

    def hear(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """What past cascades say.

        Args:
            batch: on the CPU; times as in the past cascades.

        Returns:
            (candidates,) the ids of which anything is said; (asked, candidates) M; and each event's part of the said,
            (batch, time, time), rows that sum to 1 or hold nothing.
        """
        size, time = batch.mask.shape
        steps = torch.arange(time)
        gaps = (steps[:, None] - steps[None, :] + 1).clamp(min=1)
        visible = band(time, reach=self.window, own=True) & batch.mask[:, None, :] & batch.asked[:, :, None]
        heeded = visible / gaps**self.steep
        needed = heeded.amax(1) > 0
        event, value, said = self._look_up(batch.ids[needed].numpy(), batch.times[needed].numpy())
        known = torch.zeros(self.num_ids, dtype=torch.bool)
        known[value] = True
        candidates = known.nonzero()[:, 0]
        column = known.cumsum(0)[value] - 1
        rows = torch.zeros(int(needed.sum()), len(candidates))
        rows.view(-1).index_add_(0, event * len(candidates) + column, said)
        places = torch.zeros(size, time, len(candidates))
        places[needed] = rows
        mass = heeded * places.sum(2)[:, None, :]
        shares = mass / mass.sum(2, keepdim=True).clamp(min=1e-30)
        return candidates, torch.bmm(heeded, places)[batch.asked], shares

    def _look_up(self, ids: Index, times: Floats) -> tuple[Tensor, Tensor, Tensor]:
        """(found,) the event, what stood beside it once, and how much that says."""
        found = self._postings()
        lengths = np.minimum(found.stops[ids + 1] - found.stops[ids], self.keep)
        event = np.repeat(np.arange(len(ids)), lengths)
        place = found.order[ranges(found.stops[ids + 1] - lengths, lengths)]
        said = found.totals[ids[event]] ** -self.power
        if float(self.days):
            away = np.abs(times[event] - self.times.numpy()[place]) / (DAY * float(self.days))
            said = said * (FAR + np.exp(-away))
        sides = [self._beside(place, np.minimum(found.ends[place] - place - 1, self.window), 1)]
        if back := float(self.back):
            which, value, near = self._beside(place, np.minimum(place - found.begins[place], self.window), -1)
            sides.append((which, value, back * near))
        which, value, near = (np.concatenate(parts) for parts in zip(*sides, strict=True))
        heard = torch.from_numpy((said[which] * near).astype(np.float32))
        return torch.from_numpy(event[which]), torch.from_numpy(value), heard

    def _beside(self, place: Index, number: Index, side: int) -> tuple[Index, Index, Floats]:
        """So many events on one side of some places: the number of the place, the id, and 1 / gap ** ``steep``."""
        gap = ranges(np.ones_like(number), number)
        which: Index = np.repeat(np.arange(len(place)), number)
        value: Index = self.ids.numpy()[place[which] + side * gap].astype(np.int64)
        near: Floats = gap.astype(np.float64) ** -float(self.steep)
        return which, value, near

    def _postings(self) -> Postings:
        """Where each id stands; made anew where ``steep`` or ``back`` have changed."""
        shape = float(self.steep), float(self.back)
        if self.postings is None or self.postings.shape != shape:
            ids, starts = self.ids.numpy(), self.starts.numpy()
            stops = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=self.num_ids))])
            begins, ends = (np.repeat(bound, np.diff(starts)) for bound in (starts[:-1], starts[1:]))
            places = np.arange(len(ids))
            sums = np.concatenate([[0.0], np.cumsum(np.arange(1, self.window + 1) ** -shape[0])])
            after, before = (np.minimum(far, self.window) for far in (ends - places - 1, places - begins))
            totals = np.bincount(ids, sums[after] + shape[1] * sums[before], self.num_ids)
            order = np.argsort(ids, kind="stable")
            self.postings = Postings(order, stops, begins, ends, np.maximum(totals, 1e-9), shape)
        return self.postings
