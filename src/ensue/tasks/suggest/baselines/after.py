"""Counts of queries after words, and of queries by their position in a session.

Queries are new more often than their words: a word has followers where the whole query has none.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Index, distinct_texts, offsets_of, ranges
from ensue.data.queries.rows import WORDS
from ensue.tasks.suggest.baselines.co_occurrence import FADE
from ensue.tasks.suggest.baselines.table import Crowd, QueryTable
from ensue.vocabulary import FIRST, Vocabulary

LATEST = 3
"""Number of queries before another whose words count, each by ``FADE`` less than the one after it."""
TURNS = 6
"""Positions in a session that have counts of their own; the last includes all later ones."""


@dataclass(frozen=True, eq=False)
class After:
    """Next-query counts given a word, and given a position.

    Attributes:
        words: all above the k-anonymity threshold.
        by_word: (words, queries) counts of queries after each word.
        by_turn: (``TURNS``, queries) counts of queries after 1, 2, ... queries.
    """

    words: Vocabulary
    by_word: QueryTable
    by_turn: QueryTable

    @classmethod
    def fit(
        cls, sessions: Histories, query_ids: Index, allowed: Set[str] | None = None, crowd: Crowd | None = None
    ) -> After:
        """Count the sessions of a log.

        Args:
            sessions: training data.
            query_ids: (events,) the typed queries; below 0 for one that is not stored.
            allowed: words that pass the k-anonymity threshold. [default: all]
            crowd: who typed the sessions; ``None``: every event counts each time.
        """
        min_users = 1 if crowd is None else crowd.min_users
        owners = sessions.sequence_index()
        value_ids = sessions.ids.astype(np.int64) - FIRST
        # The words of all values one after the other: those of value v are codes[ends[v]:ends[v + 1]].
        lists = pl.Series(sessions.vocabulary.values, dtype=pl.String).str.extract_all(WORDS).list.unique()
        lengths = lists.list.len().to_numpy().astype(np.int64)
        words, codes = distinct_texts(lists.explode(empty_as_null=False))
        ends = offsets_of(lengths)
        is_allowed = np.ones(len(words), np.bool_) if allowed is None else words.is_in([*allowed]).to_numpy()
        people = owners if crowd is None else crowd.people[owners]
        pairs = []
        for distance in range(1, min(LATEST + 1, len(value_ids))):
            earlier = np.flatnonzero((owners[:-distance] == owners[distance:]) & (query_ids[distance:] >= 0))
            num_words = lengths[value_ids[earlier]]
            word_ids = codes[ranges(ends[value_ids[earlier]], num_words)]
            rows = np.repeat(earlier, num_words)[is_allowed[word_ids]]
            weight = FADE ** (distance - 1)
            pairs.append((word_ids[is_allowed[word_ids]], query_ids[rows + distance], people[rows], weight))
        # Words that have followers are numbered in alphabetical order.
        used = np.unique(np.concatenate([np.empty(0, np.int64), *(word_ids for word_ids, *_ in pairs)]))
        by_name = used[words.gather(used).arg_sort().to_numpy()]
        numbers = np.full(len(words), -1, np.int64)
        numbers[by_name] = np.arange(len(by_name))
        numbered = [(numbers[word_ids], followers, typists, weight) for word_ids, followers, typists, weight in pairs]
        turns = np.arange(len(value_ids)) - np.repeat(sessions.offsets[:-1], sessions.lengths)
        is_follower = (turns > 0) & (query_ids >= 0)
        at_turn = (np.minimum(turns[is_follower], TURNS) - 1, query_ids[is_follower], people[is_follower], 1.0)
        by_word = QueryTable.of(numbered, len(by_name), min_users)
        return cls(Vocabulary(words.gather(by_name)), by_word, QueryTable.of([at_turn], TURNS, min_users))

    def with_(self, new: After, old_queries: Index, new_queries: Index) -> After:
        """Return the merged counts of two logs.

        Args:
            new: of the other log.
            old_queries: (queries of this log,) the id of each among all.
            new_queries: (queries of the other log,) the id of each among all.
        """
        words = Vocabulary(sorted({*self.words.values, *new.words.values}))
        old_words, new_words = (words.ids(log.words.values).astype(np.int64) - FIRST for log in (self, new))
        turns = np.arange(TURNS)
        return After(
            words,
            self.by_word.with_(new.by_word, (old_words, old_queries), (new_words, new_queries), len(words) - FIRST),
            self.by_turn.with_(new.by_turn, (turns, old_queries), (turns, new_queries), TURNS),
        )
