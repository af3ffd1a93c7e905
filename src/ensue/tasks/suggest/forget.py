"""Forget a person: count the log again without the rows of one, where the counts are those of the log.

A folder holds no user of a query, and counts of several people cannot be taken apart. So the log is needed: where the
counts of the folder are those of the log, they are replaced by the counts of the log without the person's rows, and
are as if the person had never searched. Where they are not (an update was learned, or other rows), they stay and that
is reported.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.data.queries.tokens import SPECIAL
from ensue.learning.life import EVENTS, Forgotten, clear_rows, remove_examples, remove_hashes
from ensue.learning.state import require_trained
from ensue.store.pack import TABLES, TREE, pack
from ensue.tasks.suggest.privacy import bounded, prints
from ensue.tasks.suggest.state import SuggestState


def forget_users(
    state: SuggestState, records: tuple[Queries, Queries] | None, users: Collection[str], folder: Path
) -> Forgotten:
    """Remove some users.

    Args:
        state: of a model folder.
        records: the log that was learned, and the same log without the rows of these users.
        users: their names.
        folder: the model folder.
    """
    forgotten = Forgotten()
    if records is None:
        return forgotten
    full, remaining = (bounded(data, state.shared.min_users) for data in records)
    if state.metadata.examples:
        gone = {*_endings(full.histories)} - {*_endings(remaining.histories)}
        remove_examples(state, forgotten, lambda shown: shown not in gone)
    remove_hashes(state, forgotten, prints(full.histories), prints(remaining.histories), "steps")
    # Counts can be subtracted only if the folder holds exactly those of the records.
    stored = _stored(state)
    if stored == _counts(state, full):
        _count(state, full, remaining, forgotten)
    elif stored != _counts(state, remaining):
        forgotten.remains.append(
            "counts of queries, words and what followed them, for they are not those of the records alone (an update, "
            "a part that was held out, or other rows): fit again without the person's rows"
        )
    if state.schedule is not None:
        forgotten.remains.append("weights of the network, which was trained on all sessions: fit again without them")
    if state.metadata.mixture is not None:
        forgotten.remains.append("numbers chosen on held-out sessions, such as the weights of the mixture: fit again")
    return forgotten


def _endings(sessions: Histories) -> list[tuple[str, ...]]:
    """Return the endings of all sessions that an example for the page may be."""
    longest = EVENTS + 1
    return [
        record.values[-size:]
        for record in sessions.records()
        for size in range(2, min(len(record.values), longest) + 1)
    ]


def _counts(state: SuggestState, data: Queries) -> tuple[object, dict[str, bytes]]:
    other = copy(state)
    other.count(data, state.shared.min_users)
    return _stored(other)


def _stored(state: SuggestState) -> tuple[object, dict[str, bytes]]:
    """Return everything that was counted, in a form that can be compared."""
    _, arrays = pack(require_trained(state.retrieval).without_topics())
    return pack(state.floor), {name: array.tobytes() for name, array in arrays.items()}


def _count(state: SuggestState, whole: Queries, rest: Queries, forgotten: Forgotten) -> None:
    """Replace the counts by those of the log without the person, and the words that nobody else typed."""
    assert state.retrieval is not None
    floor = state.floor
    with_topics = bool(len(state.retrieval.topics))
    counts_only = state.model is state.retrieval
    state.count(rest, state.shared.min_users)
    if not with_topics:
        state.retrieval = state.retrieval.without_topics()
    if counts_only:
        state.model = state.retrieval
    forgotten.add(TREE, "queries that may be shown", len(floor.queries - state.floor.queries))
    forgotten.add(TREE, "words that may be shown", len(floor.words - state.floor.words))
    forgotten.add(TABLES, "sessions subtracted from counts", len(whole) - len(rest))
    metadata = state.metadata
    metadata.sessions, metadata.queries = len(rest), len(rest.histories.ids)
    if state.tokenizer.kind != "words":
        forgotten.remains.append("pieces of words that the tokenizer learned from all queries: fit again")
        return
    common = state.floor.common(pl.Series("query", rest.histories.vocabulary.values, dtype=pl.String))
    # Words that the remaining log still has; all others leave the tokenizer.
    typed = set(common.str.split(" ").explode().to_list())
    tokens = state.tokenizer.tokens
    lost = [
        id for id in range(len(SPECIAL), len(tokens)) if tokens[id] not in typed and not tokens[id].startswith("< ")
    ]
    if lost:
        state.tokenizer = state.tokenizer.without(lost)
        forgotten.add(TREE, "words", len(lost))
        clear_rows(state, np.array(lost), len(tokens))
