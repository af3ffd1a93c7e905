"""Counts of queries that are typed near each other in sessions; a pair counts less with each query in between."""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.table import Crowd, QueryTable

FADE = 0.8
"""A pair counts ``FADE`` to the power of the number of queries between them."""
REACH = 8
"""Maximum distance of a pair that counts, in queries."""


def count_pairs(query_ids: Index, owners: Index, num_queries: int, crowd: Crowd | None = None) -> QueryTable:
    """Count the sessions of a log: a symmetric table, in which no query is paired with itself.

    Args:
        query_ids: (events,) the typed queries; below 0 for one that is not stored.
        owners: (events,) the session of each; the events of a session are adjacent.
        num_queries: number of queries.
        crowd: who typed the sessions; ``None``: every pair counts each time.
    """
    people = owners if crowd is None else crowd.people[owners]
    pairs = []
    for distance in range(1, min(REACH + 1, len(query_ids))):
        earlier = query_ids[:-distance]
        later = query_ids[distance:]
        counts = (owners[:-distance] == owners[distance:]) & (earlier >= 0) & (later >= 0) & (earlier != later)
        weight = FADE ** (distance - 1)
        person = people[distance:][counts]
        pairs += [(earlier[counts], later[counts], person, weight), (later[counts], earlier[counts], person, weight)]
    return QueryTable.of(pairs, num_queries, 1 if crowd is None else crowd.min_users)


def scaled(co_occurrence: QueryTable, totals: Index) -> Floats:
    """Return the weight of each pair over the root of its first query's sum and the fourth root of the other's total.

    Without these roots the queries that occur next to everything would lead everywhere.

    Args:
        co_occurrence: of queries.
        totals: (queries,) how often each was typed.
    """
    lengths = np.diff(co_occurrence.rows)
    # A query without pairs would sum the cell of the next one: its sum is 0.
    starts = co_occurrence.rows[:-1]
    sums = np.add.reduceat(np.append(co_occurrence.weights, 0).astype(np.float64), starts) * (lengths > 0)
    return co_occurrence.weights / np.sqrt(np.repeat(sums, lengths)) / totals[co_occurrence.others] ** 0.25
