"""Queries of the log that are considered for a session, from all count-based models, and the probability by each model.

Lists of retrieval, of each condition (:mod:`ensue.tasks.suggest.baselines.shares`) and of popular queries take turns
until there are twice ``retrieved``. Where a prefix is typed, only its completions are considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Ids, Index
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, last_places
from ensue.tasks.suggest.baselines.shares import GIVEN
from ensue.tasks.suggest.state import SuggestState
from ensue.text.sparse import SparseRows


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Counts for some sessions.

    Attributes:
        queries: for each session the queries that are considered, in the order of their turn.
        retrieved: (sessions, retrieved) what retrieval gives, best first; negative where there is no more.
        last: (sessions,) the last query of each.
        following: the queries of the log.
        tables: (sessions, queries) probabilities by each of ``GIVEN``; what a row lacks of 1 is divided over all.
    """

    queries: list[list[int]]
    retrieved: Ids
    last: Index
    following: MostFrequentNext
    tables: Sequence[SparseRows]

    def expected(self, sessions: Index, queries: Index) -> Floats:
        """(pairs, ``SOURCES``) the probability of each query in its session; -1 is one as if it were typed half."""
        shares, known = self.following.shares, queries >= 0
        popular = np.full(len(queries), 0.5 / (self.following.totals.sum() + 1))
        popular[known] = shares[queries[known]]
        pairs = sessions * len(shares) + np.where(known, queries, 0)
        columns = []
        for table in self.tables:
            owners = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
            rest = 1 - np.bincount(owners, table.data, table.shape[0])
            probability = values_at(owners * len(shares) + table.indices, table.data, pairs) * known
            columns.append(probability + rest[sessions] * popular)
        return np.stack([*columns, popular], axis=1)

    def ranks(self, sessions: Index, queries: Index) -> Index:
        """(pairs,) the rank of each query among those retrieved for its session; -1 for those not retrieved."""
        size = len(self.following.shares) + 1
        rows, ranks = np.nonzero(self.retrieved >= 0)
        keys = rows * size + self.retrieved[rows, ranks]
        return values_at(keys, ranks + 1.0, sessions * size + queries).astype(np.int64) - 1

    def followed(self, sessions: Index, queries: Index) -> Index:
        """(pairs,) how often each query followed the last one of its session."""
        size = len(self.following.shares) + 1
        owners, followers, counts = self.following.follow(self.last, np.full(len(self.last), size))
        return values_at(owners * size + followers, counts, sessions * size + queries).astype(np.int64)


def values_at(keys: Index, values: npt.NDArray[np.number], wanted: Index) -> Floats:
    """(wanted,) the value of each key, 0 where it is not among ``keys``, which are distinct."""
    if not len(keys):
        return np.zeros(len(wanted))
    order = keys.argsort()
    places = order[np.searchsorted(keys, wanted, sorter=order).clip(max=len(keys) - 1)]
    return np.where(keys[places] == wanted, values[places].astype(np.float64), 0.0)


def look_up(state: SuggestState, sessions: Histories, prefixes: Sequence[str]) -> LookedUp:
    """Look up the counts for a few sessions, none of which is empty.

    Args:
        state: trained.
        sessions: what was typed so far.
        prefixes: what stands in the search box of each.
    """
    settings, following, retrieval = state.shared, state.following, state.retrieval
    assert retrieval is not None
    typed, texts = following.places(sessions)
    retrieved = retrieval.candidates(sessions, settings.retrieved, typed=settings.repeats, placed=(typed, texts))
    tables = [state.shares.of(name, sessions, typed) for name in GIVEN]
    looked_up, size = LookedUp([], retrieved, last_places(sessions, typed), following, tables), 2 * settings.retrieved
    popular = following.by_frequency[:size]
    conditional = [_highest_of_rows(table, size) for table in tables]
    for row, prefix in enumerate(prefixes):
        lists = [retrieved[row], *(rows[row] for rows in conditional), popular]
        if prefix:
            lists = [_completions(looked_up, row, prefix, size)]
        # A column per list, -1 below its end: read row by row, the lists take turns.
        columns = np.full((max(map(len, lists)), len(lists)), -1, np.int64)
        for number, queries in enumerate(lists):
            columns[: len(queries), number] = queries
        turns = columns[columns >= 0]
        firsts = np.sort(np.unique(turns, return_index=True)[1])[:size]
        looked_up.queries.append(turns[firsts].tolist())
    return looked_up


def _highest_of_rows(table: SparseRows, size: int) -> list[npt.NDArray[np.integer]]:
    """For each row the columns of its highest values, ties in rising order."""
    rows = []
    for low, high in pairwise(table.indptr.tolist()):
        columns, values = table.indices[low:high], np.round(table.data[low:high], 12)
        if len(values) > size:  # ties with the last one stay for the sort
            is_high = values >= np.partition(values, -size)[-size]
            columns, values = columns[is_high], values[is_high]
        rows.append(columns[np.lexsort((columns, -values))[:size]])
    return rows


def _completions(looked_up: LookedUp, row: int, prefix: str, size: int) -> Index:
    """The queries that begin with a text, those of the highest mean probability first."""
    queries = np.flatnonzero(looked_up.following.queries.str.starts_with(prefix).to_numpy()).astype(np.int64)
    sums = looked_up.expected(np.full(len(queries), row), queries).sum(1)
    return queries[np.lexsort((queries, -np.round(sums, 12)))[:size]]
