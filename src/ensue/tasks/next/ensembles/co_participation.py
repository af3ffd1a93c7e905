"""Co-participation: who stood beside a user in past cascades.

Counts of pairs (``ensue.tasks.next.baselines.counting.Cooccurrence``) forget when a pair was seen. This scorer looks at
the cascades themselves, so that what stood beside a user this morning can weigh more than what did in spring:

    M(v) = sum over the latest events j of 1 / (i - j + 1) ** ``STEEP`` / total(u_j) ** ``POWER``
           x sum over the times p that u_j stands in a past cascade, and over what stands beside it there
             of 1 / gap ** ``STEEP`` x (``FAR`` + exp(-|t_j - t_p| / ``DAYS``))

with i the step that is asked. What came before u_j counts ``BACK`` times as much as what followed. Beside it comes the
same sum without the last factor, which is right where the clock says nothing.

Both are products of sparse matrices, (targets x events asked) by (events asked x past events) by (past events x ids):
each event of a cascade is looked up once, whatever the number of steps that are asked about, and of its user's past
only what is close in time is looked at again.

The constants were chosen on validation cascades of FOREST's Twitter and Memetracker.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, offsets_of, ranges
from ensue.metrics import Floats
from ensue.tasks.next.batch import PaddedBatch, Scores
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.text.sparse import SparseRows, sparse_between, sparse_rows, stacked

DAY = 86_400.0
DAYS = 0.3
"""Time scale, in days, within which co-participation counts most."""
FAR = 0.1
"""Weight of a pair far apart in time, relative to a simultaneous pair."""
GONE = 20.0
"""Past so many times ``DAYS`` an exponential adds less to ``FAR`` than float32 can tell."""
STEEP = 0.7
"""Exponent of the decay with the distance in events."""
BACK = 0.1
"""Weight of users before a user, relative to users after it."""
POWER = 0.7
"""Totals are divided out to this power."""
KEEP = 2000
"""Maximum number of past events looked up per user, the latest first."""
EVENTS = 2**14
"""Number of past events processed per block."""
PLACES = 2**18
"""So many past events are looked up at once, or those of one user: some 10 MB."""


class CoParticipationScores(NamedTuple):
    """Scores from past cascades.

    Attributes:
        near: (targets, ids) M, what is close in time first.
        far: (targets, ids) the same, all times alike.
        shares: (batch, time, time) each event's part of ``near``: rows that sum to 1 or hold nothing.
    """

    near: SparseRows
    far: SparseRows
    shares: Scores


class CascadeIndex(NamedTuple):
    """Inverted index of past cascades: the events of each id and their neighbours.

    Attributes:
        places: (kept,) which events are looked up, by id, those of one id by time.
        moments: (moments,) the times at which anything happened, in order.
        keys: (kept,) id x (moments + 1) + which of ``moments``, in order.
        stops: (ids + 1,) where each id's begin in ``places``.
        beside: (events, ids) what stands beside each event, and how much that weighs.
        totals: (ids,) what all that stood beside an id weighs together.
    """

    places: Index
    moments: Floats
    keys: Index
    stops: Index
    beside: SparseRows
    totals: Floats


class CoParticipation:
    """The search among past cascades.

    Args:
        past: the cascades.
        window: how many of the latest events have a say, and how far what stood beside them may be.
        keep: how often a user is looked up at most.
    """

    def __init__(self, past: CascadeStore, *, window: int = 30, keep: int = KEEP) -> None:
        self.past = past
        self.window = window
        self.keep = keep

    def score(self, batch: PaddedBatch) -> CoParticipationScores:
        """Score users by past cascades after each target step.

        Args:
            batch: times as in the past cascades.
        """
        found = self.past.cached(f"postings {self.window} {self.keep}", self._postings)
        size, time = batch.mask.shape
        row, step = batch.target_mask.nonzero()
        lengths = np.minimum(step + 1, self.window)
        target = np.repeat(np.arange(len(row)), lengths)
        ends = np.repeat(row * time + step, lengths)
        event = ranges(row * time + step + 1 - lengths, lengths)
        asked, number = np.unique(event, return_inverse=True)
        ids = batch.ids.reshape(-1)[asked]
        times = batch.times.reshape(-1)[asked]
        users, user = np.unique(ids, return_inverse=True)
        said = self._said(found, users, ids, times)
        heeded = (ends + 1.0 - event) ** -STEEP * found.totals[ids[number]] ** -POWER
        cells = np.stack([user[number], len(users) + number], 1)
        shape = (len(row), len(users) + len(asked))
        near = (heeded[:, None] * [FAR, 1.0]).astype(np.float32)
        far_of = sparse_rows(target, cells[:, 0], near[:, 1], shape)
        near_of = sparse_rows(np.repeat(target, 2), cells.ravel(), near.ravel(), shape)
        mass = (near * (said @ np.ones(self.past.num_ids))[cells]).sum(1)
        mass /= np.maximum(np.bincount(target, mass, len(row)), 1e-30)[target]
        shares = np.zeros((size * time, time), np.float32)
        shares[ends, event % time] = mass
        return CoParticipationScores(near_of @ said, far_of @ said, shares.reshape(size, time, time))

    def _said(self, found: CascadeIndex, users: Index, ids: Index, times: Floats) -> SparseRows:
        """(users + events, ids) what stood beside each user ever; then what stood beside each event's, close in time.

        Args:
            found: where ids stand.
            users: (users,) ids.
            ids: (events,) of events, and
            times: (events,) when they came.
        """
        far = GONE * DAY * DAYS
        first = np.searchsorted(found.moments, times - far)
        last = np.searchsorted(found.moments, times + far, "right")
        low, high = (np.searchsorted(found.keys, ids * (len(found.moments) + 1) + at) for at in (first, last))
        starts = np.concatenate([found.stops[users], low])
        lengths = np.concatenate([found.stops[users + 1], high]) - starts
        moment = np.concatenate([np.full(len(users), np.nan), times])  # a user has none: all it did weighs 1
        bounds = [0, *(np.flatnonzero(np.diff(np.cumsum(lengths) // PLACES)) + 1).tolist(), len(starts)]
        parts = []
        for part in itertools.starmap(slice, itertools.pairwise(bounds)):
            row = np.repeat(np.arange(len(starts[part])), lengths[part])
            place = found.places[ranges(starts[part], lengths[part])]
            apart = np.abs(moment[part][row] - self.past.times[place])
            weights = np.nan_to_num(np.exp(-apart / (DAY * DAYS)), nan=1.0).astype(np.float32)
            shape = (len(starts[part]), len(self.past.ids))
            parts.append(sparse_rows(row, place, weights, shape) @ found.beside)
        return stacked(parts)

    def _postings(self) -> CascadeIndex:
        """Build the inverted index."""
        ids = self.past.ids
        times = self.past.times
        num_ids = self.past.num_ids
        order = np.argsort(ids, kind="stable")
        stops = offsets_of(np.bincount(ids, minlength=num_ids))
        latest = order[stops[ids[order] + 1] - np.arange(len(order)) <= self.keep]
        moments, moment = np.unique(times, return_inverse=True)
        keys = ids[latest] * np.int64(len(moments) + 1) + moment[latest]
        by_time = np.argsort(keys, kind="stable")
        beside = self._beside()
        totals = np.bincount(ids, beside @ np.ones(num_ids), num_ids)
        stops = offsets_of(np.bincount(ids[latest], minlength=num_ids))
        return CascadeIndex(latest[by_time], moments, keys[by_time], stops, beside, np.maximum(totals, 1e-9))

    def _beside(self) -> SparseRows:
        """(events, ids) what stands at most ``window`` away in the same cascade; an event itself weighs nothing."""
        values = self.past.ids
        starts = self.past.offsets
        window = min(self.window, int(np.diff(starts).max(initial=0)))  # no cascade is longer
        places = np.arange(len(values))
        begins, ends = (np.repeat(bound, np.diff(starts)) for bound in (starts[:-1], starts[1:]))
        first = np.maximum(begins, places - window)
        lengths = np.minimum(ends, places + window + 1) - first
        near = np.arange(1.0, window + 1) ** -STEEP
        by_gap = np.concatenate([BACK * near[::-1], [0.0], near]).astype(np.float32)
        stops = offsets_of(lengths)
        columns, weights = np.empty(stops[-1], np.int32), np.empty(stops[-1], np.float32)
        for low, high in itertools.pairwise([*range(0, len(values), EVENTS), len(values)]):
            place = ranges(first[low:high], lengths[low:high])
            columns[stops[low] : stops[high]] = values[place]
            gap = place - np.repeat(places[low:high], lengths[low:high])
            weights[stops[low] : stops[high]] = by_gap[gap + window]
        return sparse_between(stops, columns, weights, self.past.num_ids)
