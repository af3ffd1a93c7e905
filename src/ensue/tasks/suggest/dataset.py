"""Tensors of query sessions: queries are tokenised once, sessions are windows of query numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Ids, Index, offsets_of, ranges
from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest.batch import UNKNOWN, QueryBatch, look_up
from ensue.training.batches import epoch_batches, evaluation_batches
from ensue.vocabulary import FIRST

CELLS = 2**14
"""Places for tokens in a group of windows, about."""


class Spelled(NamedTuple):
    """Queries in tokens, one after the other.

    Attributes:
        tokens: flat ids.
        offsets: (queries + 1,) where each begins and ends; none is empty.
    """

    tokens: Ids
    offsets: Index


def spell_out(tokenizer: QueryTokenizer, texts: pl.Series) -> Spelled:
    """The tokens of each text; one without any stands as a single unknown token."""
    tokens, offsets = tokenizer.encode(texts)
    empty = np.diff(offsets) == 0
    if empty.any():
        # Insert before the text that follows; all later texts move by the number of insertions.
        tokens = np.insert(tokens, offsets[:-1][empty], UNKNOWN).astype(np.int32)
        offsets = offsets + np.concatenate([[0], np.cumsum(empty)])
    return Spelled(tokens, offsets)


class Sessions:
    """Sessions as training data: windows of at most ``turns`` queries.

    Two windows of a long session share one query, so that every query but the first is a target once: with ``turns`` 3
    a session of five queries has the windows 0 1 2 and 2 3 4, and one query alone has none.

    Args:
        sessions: ids stand for the queries that are spelled, in their order.
        spelled: all values of the vocabulary.
        turns: queries of a window at most.
        width: tokens that are read of a query at most.
    """

    def __init__(self, sessions: Histories, spelled: Spelled, turns: int, width: int) -> None:
        self.queries: Index = sessions.ids.astype(np.int64) - FIRST
        self.spelled = spelled
        self.width = width
        # Windows of ``turns`` queries that share one have ``turns - 1`` steps each; the division rounds up.
        num_windows = np.where(sessions.lengths > 1, -(-(sessions.lengths - 1) // (turns - 1)), 0)
        owners = np.repeat(np.arange(len(sessions)), num_windows)
        # Window i of a session starts i x (turns - 1) queries after its first.
        self.starts: Index = sessions.offsets[:-1][owners] + ranges(np.zeros_like(num_windows), num_windows) * (
            turns - 1
        )
        self.lengths: Index = np.minimum(sessions.offsets[1:][owners] - self.starts, turns)
        # The largest size in each window: reduceat over (begin, end) pairs, of whose results every second is of a gap.
        sizes = np.diff(spelled.offsets)[self.queries]
        bounds = np.stack([self.starts, self.starts + self.lengths], axis=1).ravel()
        widest = np.maximum.reduceat(np.append(sizes, 0), bounds)[::2] if len(bounds) else bounds
        self.widths: Index = np.minimum(widest, width)
        self.cut_sessions, self.cut_queries = int((num_windows > 1).sum()), int((sizes > width).sum())

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.starts)

    def arrays(self) -> tuple[npt.NDArray[np.integer], ...]:
        """Everything that training depends on."""
        return self.queries, self.starts, self.lengths, *self.spelled

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """A shuffled epoch: batches of ``size`` windows of like size, in random order; the same for the same seed."""
        return epoch_batches([self.widths, self.lengths], size, seed)

    def groups(self, targets: int = CELLS) -> Iterator[Index]:
        """All windows once, shortest first, in groups of about so many places for tokens."""
        # Windows of like size share a group, so that little of it is padding.
        order = np.lexsort((self.widths, self.lengths))
        return evaluation_batches(order, self.lengths * self.widths, targets)

    def batch(self, index: Index) -> QueryBatch:
        """The windows ``index`` as padded tensors on the CPU."""
        return look_up(*self.spelled, rows_of(self.queries, self.starts[index], self.lengths[index]), self.width)


def rows_of(values: Index, starts: Index, lengths: Index) -> npt.NDArray[np.int64]:
    """(rows, longest) ranges of ``values`` side by side, -1 at padding."""
    # starts [0 3], lengths [3 1]: rows [v0 v1 v2] and [v3 -1 -1].
    table = np.full((len(starts), max(1, int(lengths.max(initial=1)))), -1, np.int64)
    is_filled = np.arange(table.shape[1]) < lengths[:, None]
    # Row by row, the mask picks as many cells as each range has values.
    table[is_filled] = values[ranges(starts, lengths)]
    return table


def latest(sessions: Histories, turns: int) -> Histories:
    """The latest queries of each session."""
    lengths = np.minimum(sessions.lengths, turns)
    # The last ``lengths`` events of each session, one session after the other.
    events = ranges(sessions.offsets[1:] - lengths, lengths)
    offsets = offsets_of(lengths)
    return Histories(sessions.ids[events], offsets, sessions.vocabulary)
