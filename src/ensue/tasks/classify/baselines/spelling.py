"""Runs of characters inside the words of texts: what linear models know of a word that they never saw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from ensue.data.histories import Index, ranges
from ensue.tasks.classify.baselines.grams import CHARACTERS, KIND, SIDE, Grams
from ensue.tasks.classify.dataset import Sides
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.text.terms import character_terms
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary


class Spelling(NamedTuple):
    """The runs of characters of some texts, word by word: each distinct word is cut once."""

    words: Index
    """(words of all sides,) the row of each word in ``runs``."""
    runs: SparseRows
    """(distinct words, runs) how often each run stands in each word, one space at either end of it."""
    keys: Index
    """(runs,) which, as grams of the first side, increasing."""

    @classmethod
    def of(cls, sides: Sides, vocabulary: Vocabulary, *, unknown: bool) -> Spelling:
        """The runs of 3 to 5 characters; of words that are not known too where that is wanted and the texts hold them.

        Words of a single text are learned from known words alone: runs of words that ``min_count`` keeps out of the
        vocabulary would give them away.
        """
        ids = np.concatenate([tokens.ids for tokens in sides]).astype(np.int64)
        distinct, numbers = np.unique(ids, return_inverse=True)
        spelled = [vocabulary.value(id) if id >= FIRST else "" for id in distinct.tolist()]
        new = np.flatnonzero(ids == UNKNOWN)
        if unknown and len(new) and all(tokens.words is not None for tokens in sides):
            words = pl.concat([tokens.words for tokens in sides if tokens.words is not None]).gather(new)
            numbers[new] = words.rank("dense").to_numpy().astype(np.int64) - 1 + len(spelled)
            spelled += words.unique().sort().to_list()
        owners, hashed, counts = character_terms(pl.Series(spelled, dtype=pl.String))
        keys, columns = np.unique(hashed.astype(np.int64) + (CHARACTERS << KIND), return_inverse=True)
        return cls(numbers, sparse_rows(owners, columns, counts.astype(np.float64), (len(spelled), len(keys))), keys)

    def of_texts(self, sides: Sides, side: int) -> SparseRows:
        """(texts, runs) how often each run stands in the texts of a side."""
        begin, tokens, width = sum(len(own.ids) for own in sides[:side]), sides[side], self.runs.shape[0]
        owner = np.repeat(np.arange(len(tokens)), tokens.lengths)
        cells, counts = np.unique(owner * width + self.words[begin : begin + len(owner)], return_counts=True)
        words = sparse_rows(cells // width, cells % width, counts.astype(np.float64), (len(tokens), width))
        return words @ self.runs

    def grams(self, sides: Sides) -> Grams:
        """Each run as often as it stands in a text, at the place of its word."""
        sizes = np.diff(self.runs.indptr).astype(np.int64)[self.words]
        entries = ranges(self.runs.indptr.astype(np.int64)[self.words], sizes)
        times = self.runs.data[entries].astype(np.int64)
        places = np.repeat(np.repeat(np.arange(len(self.words)), sizes), times)
        texts = np.concatenate([np.repeat(np.arange(len(tokens)), tokens.lengths) for tokens in sides])
        later = np.repeat(np.arange(len(sides)), [len(tokens.ids) for tokens in sides]) << SIDE
        keys = np.repeat(self.keys[self.runs.indices[entries]], times) + later[places]
        return Grams(keys, texts[places], places, places)
