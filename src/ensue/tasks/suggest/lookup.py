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
        known = shares[rows] if len(shares) else np.zeros(len(rows))
        popular = np.where(rows >= 0, known, 0.5 / (self.following.totals.sum() + 1))
        own = [np.array([part.get(place, 0.0) for place in places]) + rest * popular for part, rest in self.given]
        return np.stack([*own, popular], axis=1)


def look_up(state: SuggestState, sessions: Histories, prefixes: Sequence[str]) -> list[LookedUp]:
    """Look up the counts for a few sessions, none of which is empty.

    Args:
        state: trained.
        sessions: what was typed so far.
        prefixes: what stands in the search box of each.
    """
    own, following, retrieval = state.shared, state.following, state.retrieval
    assert retrieval is not None
    places, texts = following.places(sessions)
    near = retrieval.candidates(sessions, own.retrieved, typed=own.repeats, placed=(places, texts))
    tables = [state.shares.of(name, sessions, places) for name in GIVEN]
    found = []
    for row, prefix in enumerate(prefixes):
        lists, given = [near[row][near[row] >= 0].tolist()], []
        for table in tables:
            part = slice(table.indptr[row], table.indptr[row + 1])
            queries, shares = table.indices[part].astype(np.int64), table.data[part]
            lists.append(_highest(queries, shares, 2 * own.retrieved))
            given.append((dict(zip(queries.tolist(), shares.tolist(), strict=True)), 1 - float(shares.sum())))
        ranks = {place: rank for rank, place in enumerate(lists[0])}
        known = LookedUp([], ranks, following, given)
        lists.append(following.by_frequency[: 2 * own.retrieved].tolist())
        if prefix:
            lists = [_completions(known, prefix, 2 * own.retrieved)]
        turns = dict.fromkeys(place for turn in zip_longest(*lists, fillvalue=-1) for place in turn if place >= 0)
        known.texts.extend(following.vocabulary.value(place + FIRST) for place in [*turns][: 2 * own.retrieved])
        found.append(known)
    return found


def _highest(queries: Index, shares: Floats, most: int) -> list[int]:
    """The queries with the highest shares, ties in order of arrival."""
    order = np.lexsort((queries, -np.round(shares, 12)))[:most]
    best: list[int] = queries[order].tolist()
    return best


def _completions(known: LookedUp, prefix: str, most: int) -> list[int]:
    """The queries that begin with a text, those of the highest mean share first."""
    fitting = np.flatnonzero(known.following.queries.str.starts_with(prefix).to_numpy())
    return _highest(fitting.astype(np.int64), known.expected(fitting.tolist()).sum(1), most)
