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
from ensue.tasks.suggest.baselines.counting import MostFrequentNext, last_of_each
from ensue.tasks.suggest.baselines.shares import CONDITIONS
from ensue.tasks.suggest.state import SuggestState
from ensue.text.sparse import SparseRows, sparse_rows


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Counts for some sessions.

    Attributes:
        queries: for each session the queries that are considered, in the order of their turn.
        retrieved: (sessions, retrieved) queries by retrieval, best first; negative where there is no more.
        last: (sessions,) the last query of each.
        following: the queries of the log.
        conditional: (conditions x sessions, queries) probabilities given each condition; the rest of a row, up to 1,
            is divided over all queries.
    """

    queries: list[list[int]]
    retrieved: Ids
    last: Index
    following: MostFrequentNext
    conditional: SparseRows

    def expected(self, sessions: Index, queries: Index) -> Floats:
        """(pairs, ``SOURCES``) the probability of each query in its session; -1 is one as if it were typed half."""
        shares = self.following.shares
        in_log = queries >= 0
        popular = np.full(len(queries), 0.5 / (self.following.totals.sum() + 1))
        popular[in_log] = shares[queries[in_log]]
        remainder = 1 - np.bincount(self.conditional.owners(), self.conditional.data, self.conditional.shape[0])
        # The rows of a condition follow those of the one before it, one per session.
        rows = np.arange(len(CONDITIONS))[:, None] * len(self.last) + sessions
        probabilities = self.conditional.at(rows, np.where(in_log, queries, 0)) * in_log + remainder[rows] * popular
        return np.concatenate([probabilities, popular[None]]).T

    def ranks(self, sessions: Index, queries: Index) -> Index:
        """(pairs,) the rank of each query among those retrieved for its session; -1 for those not retrieved."""
        size = len(self.following.shares) + 1
        rows, ranks = np.nonzero(self.retrieved >= 0)
        table = sparse_rows(rows, self.retrieved[rows, ranks], ranks + 1.0, (len(self.retrieved), size))
        return table.at(sessions, queries).astype(np.int64) - 1

    def followed(self, sessions: Index, queries: Index) -> Index:
        """(pairs,) how often each query followed the last one of its session."""
        size = len(self.following.shares) + 1
        owners, followers, counts = self.following.follow(self.last, np.full(len(self.last), size))
        table = sparse_rows(owners, followers, counts, (len(self.last), size))
        return table.at(sessions, queries).astype(np.int64)


def look_up(state: SuggestState, sessions: Histories, prefixes: Sequence[str]) -> LookedUp:
    """Look up the counts for a few sessions, none of which is empty.

    Args:
        state: trained.
        sessions: what was typed so far.
        prefixes: the text in the search box of each.
    """
    settings = state.shared
    following = state.following
    retrieval = state.retrieval
    assert retrieval is not None
    query_ids, texts = following.query_ids(sessions)
    retrieved = retrieval.candidates(sessions, settings.retrieved, typed=settings.repeats, located=(query_ids, texts))
    conditional = state.shares.given(CONDITIONS, sessions, query_ids)
    looked_up = LookedUp([], retrieved, last_of_each(sessions, query_ids), following, conditional)
    size = 2 * settings.retrieved
    popular = following.by_frequency[:size]
    likely = _highest_of_rows(conditional, size)
    for row, prefix in enumerate(prefixes):
        lists = [retrieved[row], *likely[row :: len(prefixes)], popular]
        if prefix:
            lists = [_completions(looked_up, row, prefix, size)]
        # A column per list, -1 below its end: read row by row, the lists take turns.
        columns = np.full((max(map(len, lists)), len(lists)), -1, np.int64)
        for number, queries in enumerate(lists):
            columns[: len(queries), number] = queries
        looked_up.queries.append([*dict.fromkeys(columns[columns >= 0].tolist())][:size])
    return looked_up


def _highest_of_rows(table: SparseRows, size: int) -> list[npt.NDArray[np.integer]]:
    """For each row the columns of its highest values, ties in rising order."""
    rows: list[npt.NDArray[np.integer]] = []
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
