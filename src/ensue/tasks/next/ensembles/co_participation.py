"""Co-participation: users that took part next to a user in past cascades.

Counts of pairs (``ensue.tasks.next.baselines.counting.Cooccurrence``) forget when a pair was seen. This scorer looks at
the cascades themselves, so that users next to a user this morning can weigh more than those of last spring:

    M(v) = sum over the latest events j of 1 / (i - j + 1) ** ``STEEP`` / total(u_j) ** ``POWER``
           x sum over the occurrences p of u_j in past cascades, and over the occurrences of v around p
             of 1 / gap ** ``STEEP`` x (``FAR`` + exp(-|t_j - t_p| / ``DAYS``))

with i the target step. Users before u_j count ``BACKWARD_WEIGHT`` times as much as users after it. A second feature is
the same sum without the last factor, for data whose clock carries no information.

Both are products of sparse matrices, (targets x events) by (events x past events) by (past events x ids): each event of
a cascade is looked up once, whatever the number of target steps, and only past events close in time are looked up for
the factor of time.

The constants were chosen on validation cascades of FOREST's Twitter and Memetracker.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, offsets_of, ranges
from ensue.metrics import Floats
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.text.sparse import SparseRows, sparse_rows, stacked
from ensue.topk import Scores

DAY = 86_400.0
DAYS = 0.3
"""Time scale, in days, within which co-participation counts most."""
FAR = 0.1
"""Weight of a pair far apart in time, relative to a simultaneous pair."""
GONE = 20.0
"""Beyond this multiple of ``DAYS`` the exponential is too small to change ``FAR`` in float32."""
STEEP = 0.7
"""Exponent of the decay with the distance in events."""
BACKWARD_WEIGHT = 0.1
"""Weight of users before a user, relative to users after it."""
POWER = 0.7
"""Totals are divided out to this power."""
KEEP = 2000
"""Maximum number of past events looked up per user, the latest first."""
EVENTS = 2**14
"""Number of past events processed per block."""
MAX_LOOKUPS = 2**18
"""Past events looked up per chunk, or all of one user: about 10 MB."""


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
    """Inverted index of past cascades: the events of each id and the users next to them.

    Attributes:
        events: (stored,) indices of the stored events, sorted by id, then by time.
        moments: (moments,) distinct times, rising.
        keys: (stored,) id x (moments + 1) + index in ``moments``, rising.
        stops: (ids + 1,) offset of each id in ``events``.
        neighbours: (events, ids) weight of the neighbours of each event.
        totals: (ids,) sum of the weights of all neighbours of an id.
    """

    events: Index
    moments: Floats
    keys: Index
    stops: Index
    neighbours: SparseRows
    totals: Floats


def co_participation_scores(past: CascadeStore, batch: PaddedBatch, window: int) -> CoParticipationScores:
    """Score users by past cascades after each target step.

    Args:
        past: the cascades.
        batch: times as in the past cascades.
        window: number of latest events that are scored from, and maximum distance of neighbours.
    """
    index = past.cached(f"postings {window}", lambda: _postings(past, window))
    size, time = batch.mask.shape
    row, step = batch.target_mask.nonzero()
    lengths = np.minimum(step + 1, window)
    target = np.repeat(np.arange(len(row)), lengths)
    ends = np.repeat(row * time + step, lengths)
    # Events are numbered in the (batch, time) table read row after row; each step uses its latest events.
    event = ranges(row * time + step + 1 - lengths, lengths)
    # An event of several target steps is looked up once.
    unique_events, event_number = np.unique(event, return_inverse=True)
    ids = batch.ids.reshape(-1)[unique_events]
    times = batch.times.reshape(-1)[unique_events]
    users, user = np.unique(ids, return_inverse=True)
    neighbour_weights = _neighbour_weights(past, index, users, ids, times)
    # Weight by distance in events, divided by how often the user has neighbours at all.
    event_weights = (ends + 1.0 - event) ** -STEEP * index.totals[ids[event_number]] ** -POWER
    # Columns: first the users (weights at any time), then the events (weights close in time).
    cells = np.stack([user[event_number], len(users) + event_number], 1)
    shape = (len(row), len(users) + len(unique_events))
    pair_weights = (event_weights[:, None] * [FAR, 1.0]).astype(np.float32)
    far_of = sparse_rows(target, cells[:, 0], pair_weights[:, 1], shape)
    near_of = sparse_rows(np.repeat(target, 2), cells.ravel(), pair_weights.ravel(), shape)
    # The part of each event in its target's scores; rows of targets are normalised to 1.
    mass = (pair_weights * (neighbour_weights @ np.ones(past.num_ids))[cells]).sum(1)
    mass /= np.maximum(np.bincount(target, mass, len(row)), 1e-30)[target]
    shares = np.zeros((size * time, time), np.float32)
    # Row: the target step; column: the position of the event within its history.
    shares[ends, event % time] = mass
    return CoParticipationScores(
        near_of @ neighbour_weights, far_of @ neighbour_weights, shares.reshape(size, time, time)
    )


def _neighbour_weights(past: CascadeStore, index: CascadeIndex, users: Index, ids: Index, times: Floats) -> SparseRows:
    """Return weights of neighbours, (users + events, ids): of each user at any time, of each event close in time.

    Args:
        past: the cascades.
        index: of the past cascades.
        users: (users,) ids.
        ids: (events,) the user of each event.
        times: (events,) the time of each event.
    """
    # Beyond this distance the exponential vanishes in float32, and the sum over all times covers the pair.
    far = GONE * DAY * DAYS
    first = np.searchsorted(index.moments, times - far)
    last = np.searchsorted(index.moments, times + far, "right")
    # keys are id x (moments + 1) + moment in order: the events of an id within a time span are neighbours.
    low, high = (np.searchsorted(index.keys, ids * (len(index.moments) + 1) + at) for at in (first, last))
    starts = np.concatenate([index.stops[users], low])
    lengths = np.concatenate([index.stops[users + 1], high]) - starts
    moment = np.concatenate([np.full(len(users), np.nan), times])  # a user has none: all it did weighs 1
    # Cut where the number of lookups passes a multiple of MAX_LOOKUPS.
    bounds = [0, *(np.flatnonzero(np.diff(np.cumsum(lengths) // MAX_LOOKUPS)) + 1).tolist(), len(starts)]
    chunks = []
    for chunk in itertools.starmap(slice, itertools.pairwise(bounds)):
        row = np.repeat(np.arange(len(starts[chunk])), lengths[chunk])
        events = index.events[ranges(starts[chunk], lengths[chunk])]
        time_gaps = np.abs(moment[chunk][row] - past.times[events])
        weights = np.nan_to_num(np.exp(-time_gaps / (DAY * DAYS)), nan=1.0).astype(np.float32)
        shape = (len(starts[chunk]), len(past.ids))
        chunks.append(sparse_rows(row, events, weights, shape) @ index.neighbours)
    return stacked(chunks)


def _postings(past: CascadeStore, window: int) -> CascadeIndex:
    """Build the inverted index."""
    ids = past.ids
    times = past.times
    num_ids = past.num_ids
    order = np.argsort(ids, kind="stable")
    stops = offsets_of(np.bincount(ids, minlength=num_ids))
    # In the order of ids, the last ``KEEP`` events of each id are its latest.
    latest = order[stops[ids[order] + 1] - np.arange(len(order)) <= KEEP]
    moments, moment = np.unique(times, return_inverse=True)
    keys = ids[latest] * np.int64(len(moments) + 1) + moment[latest]
    # A stable sort keeps events of the same id and time in the order of the data.
    by_time = np.argsort(keys, kind="stable")
    neighbours = _neighbours(past, window)
    totals = np.bincount(ids, neighbours @ np.ones(num_ids), num_ids)
    stops = offsets_of(np.bincount(ids[latest], minlength=num_ids))
    return CascadeIndex(latest[by_time], moments, keys[by_time], stops, neighbours, np.maximum(totals, 1e-9))


def _neighbours(past: CascadeStore, window: int) -> SparseRows:
    """Return weights of users at most ``window`` away in the same cascade, (events, ids); 0 of the event itself."""
    values = past.ids
    starts = past.offsets
    window = min(window, int(np.diff(starts).max(initial=0)))  # no cascade is longer
    positions = np.arange(len(values))
    begins, ends = (np.repeat(bound, np.diff(starts)) for bound in (starts[:-1], starts[1:]))
    first = np.maximum(begins, positions - window)
    lengths = np.minimum(ends, positions + window + 1) - first
    decay = np.arange(1.0, window + 1) ** -STEEP
    # Weights by gap from -window to window: earlier users count less, the event itself counts 0.
    by_gap = np.concatenate([BACKWARD_WEIGHT * decay[::-1], [0.0], decay]).astype(np.float32)
    stops = offsets_of(lengths)
    columns, weights = np.empty(stops[-1], np.int32), np.empty(stops[-1], np.float32)
    for low, high in itertools.pairwise([*range(0, len(values), EVENTS), len(values)]):
        neighbour = ranges(first[low:high], lengths[low:high])
        columns[stops[low] : stops[high]] = values[neighbour]
        # The gap of each neighbour, shifted by window to an index of by_gap.
        gap = neighbour - np.repeat(positions[low:high], lengths[low:high])
        weights[stops[low] : stops[high]] = by_gap[gap + window]
    return SparseRows(stops, columns, weights, past.num_ids)
