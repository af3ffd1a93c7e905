"""Temporal preference: when, and at which pace of a cascade, a user takes part.

Five clocks, read at the latest event: the hour of the day, the day, the fortnight, how long the latest ``window``
events took, and how long after the one before the latest came. A user gains

    ln(1 + n(v, b) / (``PRIOR`` x the share of all events at b))

with b what a clock reads and n(v, b) how often v came at such a reading. Readings are counted at the event before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, Mask, ranges
from ensue.metrics import Floats
from ensue.tasks.next.batch import PaddedBatch
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.topk import Scores

CLOCKS = ("hour", "day", "fortnight", "pace", "pause")
PRIOR = 10.0
"""Events that a user is taken to have had at the times of all others."""
DAY = 86_400.0


class ClockTable(NamedTuple):
    """Users per reading of a clock.

    Attributes:
        readings: (readings,) in order.
        starts: (readings + 1,) where the users of each begin.
        values: (entries,) ids.
        gains: (entries,) what they gain.
    """

    readings: Index
    starts: Index
    values: Index
    gains: Floats


def temporal_preference(past: CascadeStore, batch: PaddedBatch, window: int) -> Iterator[tuple[Scores, Index]]:
    """Yield for each of ``CLOCKS`` the gains of users at each reading, (readings, ids), and a step's reading.

    Args:
        past: the cascades.
        batch: times as in the past cascades.
        window: over how many events the pace is taken.
    """
    row, step = batch.target_mask.nonzero()
    times = batch.times
    window_start = np.maximum(step - window + 1, 0)
    readings = _read(times[row, step], times[row, window_start], times[row, np.maximum(step - 1, 0)], step > 0)
    tables = past.cached(f"habits {window}", lambda: _tables(past, window))
    for table, read in zip(tables, readings, strict=True):
        distinct, which = np.unique(read, return_inverse=True)
        # Only readings that occur in the batch are looked up; all others gain nothing.
        _, row_of_reading, column = np.intersect1d(table.readings, distinct, assume_unique=True, return_indices=True)
        lengths = np.diff(table.starts)[row_of_reading]
        entry = ranges(table.starts[row_of_reading], lengths)
        gains = np.zeros((len(distinct), past.num_ids), np.float32)
        # Scatter the stored users of each reading into its row of ids.
        gains[np.repeat(column, lengths), table.values[entry]] = table.gains[entry]
        yield gains, which


def _tables(past: CascadeStore, window: int) -> list[ClockTable]:
    """Return one table for each clock."""
    starts = past.offsets
    times = past.times
    position = np.arange(len(times))
    first = np.repeat(starts[:-1], np.diff(starts))
    # The first event of a cascade has no event before it, at which a clock could be read.
    event = np.flatnonzero(position > first)
    latest = event - 1
    first = first[event]
    window_start = np.maximum(latest - window + 1, first)
    previous = np.maximum(latest - 1, first)
    read = _read(times[latest], times[window_start], times[previous], latest > first)
    values = past.ids[event].astype(np.int64)
    return [_table(readings, values, past.num_ids) for readings in read]


def _read(latest: Floats, window_start: Floats, previous: Floats, paused: Mask) -> tuple[Index, ...]:
    """Return the readings of the clocks at the latest event, from the times of three events."""
    return (
        (latest // 3600 % 24).astype(np.int64),
        (latest // DAY).astype(np.int64),
        (latest // (14 * DAY)).astype(np.int64),
        _octave(latest - window_start),
        np.where(paused, _octave(latest - previous), -1),
    )


def _octave(seconds: Floats) -> Index:
    """Return the logarithm of minutes to base 2, rounded down; 0 below one minute."""
    return np.log2(1 + np.maximum(seconds, 0) / 60).astype(np.int64)


def _table(clock_readings: Index, values: Index, num_ids: int) -> ClockTable:
    """Return the gains of each user at each reading."""
    readings, index = np.unique(clock_readings, return_inverse=True)
    # Count pairs of reading and user; keys are sorted by reading.
    keys, counts = np.unique(index * num_ids + values, return_counts=True)
    reading = keys // num_ids
    shares = np.bincount(index, minlength=len(readings)) / max(1, len(index))
    gains = np.log1p(counts / (PRIOR * shares[reading]))
    # Each reading's users are neighbours: starts cuts them into rows.
    starts = np.searchsorted(reading, np.arange(len(readings) + 1))
    return ClockTable(readings, starts, keys % num_ids, gains)
