"""Which query came after which words, and at which place of a session.

Queries are new more often than their words are: what follows a word is known where nothing ever followed the query.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index, distinct_texts, ranges
from ensue.data.queries.rows import WORDS
from ensue.tasks.suggest.baselines.co_occurrence import FADE
from ensue.tasks.suggest.baselines.table import Crowd, Table
from ensue.vocabulary import FIRST, Vocabulary

LATEST = 3
"""Queries before another whose words count, each ``FADE`` less than the one after it."""
TURNS = 6
"""Places in a session that are told apart; the last stands for all later ones."""


@dataclass(frozen=True, eq=False)
class After:
    """Next-query counts given a word, and given a turn.

    Attributes:
        words: those that are given, all above the k-anonymity threshold.
        by_word: (words) which query came after each.
        by_turn: (``TURNS``) which query came after so many queries, from one on.
    """

    words: Vocabulary
    by_word: Table
    by_turn: Table

    @classmethod
    def fit(
        cls, sessions: Histories, places: Index, allowed: Set[str] | None = None, crowd: Crowd | None = None
    ) -> After:
        """Count the sessions of a log.

        Args:
            sessions: to learn from.
            places: (events,) which query was typed; below 0 for one that is not kept.
            allowed: words that pass the k-anonymity threshold. [default: all]
            crowd: who typed the sessions; ``None``: what came counts each time.
        """
        min_users = 1 if crowd is None else crowd.min_users
        owners, ids = sessions.sequence_index(), sessions.ids.astype(np.int64) - FIRST
        lists = pl.Series(sessions.vocabulary.values, dtype=pl.String).str.extract_all(WORDS).list.unique()
        lengths = lists.list.len().to_numpy().astype(np.int64)
        words, codes = distinct_texts(lists.explode(empty_as_null=False))
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        people = owners if crowd is None else crowd.people[owners]
        parts = []
        for apart in range(1, min(LATEST + 1, len(ids))):
            near = np.flatnonzero((owners[:-apart] == owners[apart:]) & (places[apart:] >= 0))
            entries = ranges(ends[ids[near]], lengths[ids[near]])
            came = np.repeat(places[near + apart], lengths[ids[near]])
            person = np.repeat(people[near], lengths[ids[near]])
            parts.append((codes[entries], came, person, FADE ** (apart - 1)))
        used = np.unique(np.concatenate([np.empty(0, np.int64), *(given for given, *_ in parts)]))
        shown = used if allowed is None else used[words.gather(used).is_in([*allowed]).to_numpy()]
        order = shown[words.gather(shown).arg_sort().to_numpy()]
        table = np.full(len(words), -1, np.int64)
        table[order] = np.arange(len(order))
        shown_parts = []
        for given, came, person, weight in parts:
            is_shown = table[given] >= 0
            shown_parts.append((table[given][is_shown], came[is_shown], person[is_shown], weight))
        before = np.arange(len(ids)) - np.repeat(sessions.offsets[:-1], sessions.lengths)
        there = (before > 0) & (places >= 0)
        at_turn = (np.minimum(before[there], TURNS) - 1, places[there], people[there], 1.0)
        by_word, by_turn = Table.of(shown_parts, len(order), min_users), Table.of([at_turn], TURNS, min_users)
        return cls(Vocabulary(words.gather(order)), by_word, by_turn)

    def with_(self, new: After, old_queries: Index, new_queries: Index) -> After:
        """Return the merged counts of two logs.

        Args:
            new: of the other log.
            old_queries: (own queries,) where each stands among all.
            new_queries: (its queries,) the same.
        """
        words = Vocabulary(sorted({*self.words.values, *new.words.values}))
        one, other = (words.ids(own.words.values).astype(np.int64) - FIRST for own in (self, new))
        every = np.arange(TURNS)
        return After(
            words,
            self.by_word.with_(new.by_word, (one, old_queries), (other, new_queries), len(words) - FIRST),
            self.by_turn.with_(new.by_turn, (every, old_queries), (every, new_queries), TURNS),
        )
