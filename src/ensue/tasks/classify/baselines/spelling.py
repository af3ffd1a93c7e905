"""Character n-grams inside the words of texts: what linear models know of a word that they never saw."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.classify.baselines.grams import CHARACTERS, KIND
from ensue.tasks.classify.dataset import Sides
from ensue.text.lexical import places_of
from ensue.text.sparse import SparseRows
from ensue.text.terms import Terms, character_terms
from ensue.text.tokens import Tokens
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary

Int32s = npt.NDArray[np.int32]
MAX_ROWS = 2**18
"""Words that are remembered at most; then all are forgotten."""
_LOCK = threading.Lock()


class SpelledWords:
    """The character n-grams of words, of 3 to 5 characters, as columns; each word is cut once and remembered.

    Args:
        vocabulary: of the words.
        keys: (columns,) the n-grams that are kept, as grams of the first side, increasing.
    """

    def __init__(self, vocabulary: Vocabulary, keys: Index) -> None:
        self._vocabulary, self.keys = vocabulary, keys
        self._forget()

    @classmethod
    def of(cls, sides: Sides, vocabulary: Vocabulary) -> SpelledWords:
        """Return the words of some texts with all of their n-grams."""
        ids = np.unique(np.concatenate([tokens.ids for tokens in sides]))
        words = [*{word: None for tokens in sides for word in _unknown_words(tokens)}]
        terms = _cut(vocabulary, ids, words)
        spelled = cls(vocabulary, np.unique(_keys(terms)))
        spelled._append(ids, words, terms)
        return spelled

    def _forget(self) -> None:
        self._known = np.full(len(self._vocabulary), -1)  # (ids,) the row of each word, -1 if it was not cut
        self._unknown: dict[str, int] = {}  # the rows of words outside the vocabulary
        self._num_rows = 0
        self._starts: Index = np.zeros(1, np.int64)
        self._columns: Int32s = np.zeros(0, np.int32)
        self._counts: Floats = np.zeros(0)

    def of_words(self, tokens: Tokens) -> tuple[Index, SparseRows]:
        """Return (words,) the row of each word, and (rows, columns) how often each n-gram is in the word of a row.

        Words outside the vocabulary have n-grams where the texts hold the words themselves.
        """
        rows, starts, columns, counts = self._tables(tokens)
        return rows, SparseRows(starts, columns, counts, len(self.keys))

    def of_texts(self, tokens: Tokens) -> tuple[Index, Index, Floats]:
        """Return (cells,) the text, not decreasing, the column, and how often its n-gram is in the text."""
        rows, starts, columns, counts = self._tables(tokens)
        # (texts, words) ones times (words, n-grams) counts.
        words = SparseRows(tokens.sentences[tokens.texts], rows, np.ones(len(rows)), len(starts) - 1)
        ngrams = words @ SparseRows(starts, columns, counts, len(self.keys))
        return ngrams.owners(), ngrams.indices.astype(np.int64), ngrams.data

    def _tables(self, tokens: Tokens) -> tuple[Index, Index, Int32s, Floats]:
        """Return the rows of words, and where the columns and counts of each row begin, the columns and the counts."""
        # Two threads must not append to the tables at once.
        if not _LOCK.acquire(blocking=False):  # held by another thread, or by one that a fork left behind
            return SpelledWords(self._vocabulary, self.keys)._remembered(tokens)
        try:
            return self._remembered(tokens)
        finally:
            _LOCK.release()

    def _remembered(self, tokens: Tokens) -> tuple[Index, Index, Int32s, Floats]:
        # The tables only grow, so a long-running service starts afresh now and then.
        if self._num_rows > MAX_ROWS or len(self._known) < len(self._vocabulary):
            self._forget()
        words = _unknown_words(tokens)
        new_ids = np.unique(tokens.ids[self._known[tokens.ids] < 0])
        new_words = [*{word: None for word in words if word not in self._unknown}]
        if len(new_ids) or new_words:
            self._append(new_ids, new_words, _cut(self._vocabulary, new_ids, new_words))
        rows = self._known[tokens.ids]
        if words:
            rows[tokens.ids == UNKNOWN] = [self._unknown[word] for word in words]
        starts = self._starts[: self._num_rows + 1]
        return rows, starts, self._columns[: starts[-1]], self._counts[: starts[-1]]

    def _append(self, ids: npt.NDArray[np.integer], words: Sequence[str], terms: Terms) -> None:
        """Append the rows of words of the vocabulary and of others."""
        first, num_words = self._num_rows, len(ids) + len(words)
        columns, is_kept = places_of(self.keys, _keys(terms))
        size = int(self._starts[first])
        # Where the n-grams of each new word end in the flat columns.
        ends = size + np.cumsum(np.bincount(terms.owners[is_kept], minlength=num_words))
        self._starts = _with_values(self._starts, first + 1, ends)
        self._columns = _with_values(self._columns, size, columns[is_kept])
        self._counts = _with_values(self._counts, size, terms.counts[is_kept])
        self._known[ids] = first + np.arange(len(ids))
        self._unknown.update(zip(words, range(first + len(ids), first + num_words), strict=True))
        self._num_rows += num_words


def _cut(vocabulary: Vocabulary, ids: npt.NDArray[np.integer], words: Sequence[str]) -> Terms:
    """Return the n-grams of words of the vocabulary, by id, and of others."""
    known_words = [vocabulary.value(id) if id >= FIRST else "" for id in ids.tolist()]
    return character_terms(pl.Series([*known_words, *words], dtype=pl.String))


def _unknown_words(tokens: Tokens) -> list[str]:
    """Return the words outside the vocabulary in order, where the texts hold them."""
    outside = np.flatnonzero(tokens.ids == UNKNOWN)
    return [] if tokens.words is None or not len(outside) else tokens.words.gather(outside).to_list()


def _keys(terms: Terms) -> Index:
    return terms.keys.astype(np.int64) + (CHARACTERS << KIND)


def _with_values(table: npt.NDArray[Any], size: int, values: Index) -> npt.NDArray[Any]:
    """Return a table whose first ``size`` rows stay and are followed by values; it doubles where there is no room."""
    if size + len(values) > len(table):
        table = np.concatenate([table[:size], np.zeros(size + len(values), table.dtype)])
    table[size : size + len(values)] = values
    return table
