"""Queries of the log that are considered for a session, from every counting model, and the share each expects of any.

Lists of retrieval, of what each given thing says (:mod:`ensue.tasks.suggest.baselines.shares`) and of what is typed
most take turns until there are twice ``retrieved``. Behind what stands in the search box only its completions stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from ensue.data.histories import Histories, Index
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.counting import MostFrequentNext
from ensue.tasks.suggest.baselines.shares import GIVEN
from ensue.tasks.suggest.state import SuggestState
from ensue.vocabulary import FIRST


@dataclass(frozen=True, eq=False)
class LookedUp:
    """Counts for one session.

    Attributes:
        texts: queries that are considered, in the order of their turn.
        ranks: place of a query to its rank among what retrieval found.
        following: the queries of the log.
        given: a thing given to the share of each query it speaks for; and the share it leaves to all queries.
    """

    texts: list[str]
    ranks: Mapping[int, int]
    following: MostFrequentNext
    given: Sequence[tuple[Mapping[int, float], float]]

    def expected(self, places: Sequence[int]) -> Floats:
        """(places, ``SOURCES``) the share of the query at each; of one not kept (-1), as if it had been typed half."""
        shares, rows = self.following.shares, np.array(places, np.int64)
        query_shares = shares[rows] if len(shares) else np.zeros(len(rows))
        popular = np.where(rows >= 0, query_shares, 0.5 / (self.following.totals.sum() + 1))
        parts_of_sources = [
            np.array([shares_of.get(place, 0.0) for place in places]) + rest * popular for shares_of, rest in self.given
        ]
        return np.stack([*parts_of_sources, popular], axis=1)


def look_up(state: SuggestState, sessions: Histories, prefixes: Sequence[str]) -> list[LookedUp]:
    """Look up the counts for a few sessions, none of which is empty.

    Args:
        state: trained.
        sessions: what was typed so far.
        prefixes: what stands in the search box of each.
    """
    settings, following, retrieval = state.shared, state.following, state.retrieval
    assert retrieval is not None
    query_ids, texts = following.places(sessions)
    retrieved = retrieval.candidates(sessions, settings.retrieved, typed=settings.repeats, placed=(query_ids, texts))
    tables = [state.shares.of(name, sessions, query_ids) for name in GIVEN]
    lookups = []
    for row, prefix in enumerate(prefixes):
        lists, given = [retrieved[row][retrieved[row] >= 0].tolist()], []
        for table in tables:
            entries = slice(table.indptr[row], table.indptr[row + 1])
            queries, shares = table.indices[entries].astype(np.int64), table.data[entries]
            lists.append(_highest(queries, shares, 2 * settings.retrieved))
            given.append((dict(zip(queries.tolist(), shares.tolist(), strict=True)), 1 - float(shares.sum())))
        ranks = {query_id: rank for rank, query_id in enumerate(lists[0])}
        lookup = LookedUp([], ranks, following, given)
        lists.append(following.by_frequency[: 2 * settings.retrieved].tolist())
        if prefix:
            lists = [_completions(lookup, prefix, 2 * settings.retrieved)]
        turns = dict.fromkeys(
            query_id for ranked_ids in zip_longest(*lists, fillvalue=-1) for query_id in ranked_ids if query_id >= 0
        )
        lookup.texts.extend(
            following.vocabulary.value(query_id + FIRST) for query_id in [*turns][: 2 * settings.retrieved]
        )
        lookups.append(lookup)
    return lookups


def _highest(queries: Index, shares: Floats, most: int) -> list[int]:
    """The queries with the highest shares, ties in order of arrival."""
    order = np.lexsort((queries, -np.round(shares, 12)))[:most]
    best: list[int] = queries[order].tolist()
    return best


def _completions(known: LookedUp, prefix: str, most: int) -> list[int]:
    """The queries that begin with a text, those of the highest mean share first."""
    query_ids = np.flatnonzero(known.following.queries.str.starts_with(prefix).to_numpy())
    return _highest(query_ids.astype(np.int64), known.expected(query_ids.tolist()).sum(1), most)
