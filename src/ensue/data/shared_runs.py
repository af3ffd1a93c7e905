"""Histories cut into runs of events that enough people share: k-anonymity (Samarati & Sweeney 1998) of sequences.

A run is what stands together in a history, event after event. It is shared if at least ``min_users`` people have the
same run of values, one of them counting once however often it has it. Every history is cut into runs that are shared,
from its beginning, each as long as it can be; an event whose value alone fewer people share is left out, and nothing is
joined across it. If the last event of a run and the next event are a shared run of two, the next run begins with that
last event, so that every shared step from one event to the next is kept exactly once.

What is learned from such runs, counted in them or stored of them was therefore done, value for value, by ``min_users``
people. For instance with ``min_users`` 2::

    u: a b c d     shared: a, b, c, a b, b c     runs: a b | b c
    v: a b         v: a b
    w: b c e       w: b c
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index, offsets_of, ranges
from ensue.vocabulary import FIRST

MAX_RUN = 50
"""Events of a run at most."""


def people_of(histories: Histories) -> Index:
    """Return the (histories,) number of the person behind each: sessions cut from one user's clicks have the same.

    Histories without names count as one person each.
    """
    if not len(histories.names):
        return np.arange(len(histories))
    return user_names(histories).rank("dense").to_numpy().astype(np.int64)


def user_names(histories: Histories) -> pl.Series:
    """Return the (histories,) name of each without the number of its part: the parts of ``u`` are ``u#1``, ``u#2``."""
    return histories.names.str.replace(r"#\d+$", "")


def shared_runs(histories: Histories, min_users: int) -> Histories:
    """Cut histories into the runs that at least ``min_users`` people share; see the module.

    Returns:
        The runs without names, in the order of the histories; of a run of one event nothing follows.
    """
    starts, stops = _runs(_longest_shared(histories, min_users), histories.offsets)
    events = ranges(starts, stops - starts)
    offsets = offsets_of(stops - starts)
    return replace(histories, offsets=offsets, names=histories.names[:0], items=None, **histories.columns(events))


def _longest_shared(histories: Histories, min_users: int) -> Index:
    """Return the (events,) length of the longest shared run that ends at each event, 0 where its value is not shared.

    A run is shared only if both runs that are one event shorter are, so each pass looks at those alone (Agrawal &
    Srikant 1994).
    """
    ids = histories.ids.astype(np.int64)
    owners = histories.sequence_index()
    people = people_of(histories)[owners]
    num_ids, num_people = int(ids.max(initial=0)) + 1, int(people.max(initial=0)) + 1
    longest = np.zeros(len(ids), np.int64)
    codes = ids.copy()  # (events,) a number for each run of the present length, at the event that it ends with
    ends = np.flatnonzero(ids >= FIRST)
    for length in range(1, MAX_RUN + 1):
        if length > 1:
            ends = ends[(ends > 0) & (longest[ends - 1] >= length - 1) & (owners[ends - 1] == owners[ends])]
            longer = np.unique(codes[ends - 1] * num_ids + ids[ends], return_inverse=True)[1]
            codes[ends] = longer
        # One key for each pair of run and person: divided by the number of people it is the run again.
        pairs = np.unique(codes[ends] * num_people + people[ends])
        counts = np.bincount(pairs // num_people, minlength=1)
        ends = ends[counts[codes[ends]] >= min_users]
        if not len(ends):
            break
        longest[ends] = length
    return longest


def _runs(longest: Index, offsets: Index) -> tuple[Index, Index]:
    """Return where each run begins and stops, given the length of the longest shared run that ends at each event."""
    starts = []
    stops = []
    begin = -1  # of the run that is open, -1 where none is
    first_events = set(offsets[:-1].tolist())
    for event, length in enumerate([*longest.tolist(), 0]):
        if begin >= 0 and event not in first_events and length > event - begin:
            continue  # the open run and this event are shared together
        if begin >= 0:
            starts.append(begin)
            stops.append(event)
        if not length:
            begin = -1
        elif length > 1 and begin >= 0 and event not in first_events:
            begin = event - 1  # the step from the last event to this one is shared
        else:
            begin = event
    return np.array(starts, np.int64), np.array(stops, np.int64)
