"""Which queries stand near each other in sessions, and how often: nearness fades with the queries in between."""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.table import Crowd, Table

FADE, REACH = 0.8, 8
"""A pair counts ``FADE`` to the number of queries between them; of more than ``REACH`` places apart not at all."""


def count_beside(places: Index, owners: Index, number: int, crowd: Crowd | None = None) -> Table:
    """Count the sessions of a log: a symmetric table, in which no query stands beside itself.

    Args:
        places: (events,) which query was typed; below 0 for one that is not kept.
        owners: (events,) its session; sessions stand one after the other.
        number: of queries.
        crowd: who typed the sessions; ``None``: every pair counts each time.
    """
    people = owners if crowd is None else crowd.people[owners]
    parts = []
    for apart in range(1, min(REACH + 1, len(places))):
        one, other = places[:-apart], places[apart:]
        near = (owners[:-apart] == owners[apart:]) & (one >= 0) & (other >= 0) & (one != other)
        weight = FADE ** (apart - 1)
        person = people[apart:][near]
        parts += [(one[near], other[near], person, weight), (other[near], one[near], person, weight)]
    return Table.of(parts, number, 1 if crowd is None else crowd.min_users)


def scaled(beside: Table, totals: Index) -> Floats:
    """(pairs,) weight over the root of all weights of ``q``, and over the fourth root of how often the other is typed.

    Without those roots the queries that stand beside everything would lead everywhere.
    """
    lengths = np.diff(beside.rows)
    sums = np.add.reduceat(np.append(beside.weights, 0).astype(np.float64), beside.rows[:-1]) * (lengths > 0)
    shares: Floats = beside.weights / np.sqrt(np.repeat(sums, lengths)) / totals[beside.others] ** 0.25
    return shares
