"""Words, pairs of neighbours and runs of characters under logistic regression; of pairs of texts, what they share too.

Each kind of gram (``grams``) of each side is a block of its own: (1 + ln tf) times scikit-learn's smooth idf, every
block of a text of length 1, as in a ``FeatureUnion`` of ``TfidfVectorizer(sublinear_tf=True)``, under its
``LogisticRegression``. Of pairs, the grams that they share and do not share are blocks too, and ``overlap`` stands
beside them. A gram of a kind of which there are more than ``MOST`` must stand in so many texts that fewer remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.tasks.classify.baselines.grams import (
    KIND,
    OVERLAP,
    SIDE,
    Grams,
    join,
    shared_grams,
    word_grams,
)
from ensue.tasks.classify.baselines.overlap import HATS, overlaps
from ensue.tasks.classify.baselines.spelling import Spelling
from ensue.tasks.classify.dataset import Sides
from ensue.text import linear
from ensue.text.linear import Linear, Strength, centred
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.text.weights import smooth_idf
from ensue.vocabulary import Vocabulary

MOST = 2**18
"""Grams of a kind: 20 bytes each in a folder, and as many again for every further label."""
_BLOCKS = 16
_HATS = np.arange(HATS) + (OVERLAP << KIND)


class _Counts(NamedTuple):
    """Counts of the grams of texts, by kind."""

    keys: Index
    """(distinct,) increasing."""
    texts: Index
    """(cells,)."""
    codes: Index
    """(cells,) which of the keys."""
    counts: Floats
    """(cells,) how often; the number itself for ``OVERLAP``."""

    @classmethod
    def of(cls, grams: Grams) -> _Counts:
        keys, codes = np.unique(grams.keys, return_inverse=True)
        cells, counts = np.unique(grams.texts * max(len(keys), 1) + codes, return_counts=True)
        return cls(keys, cells // max(len(keys), 1), cells % max(len(keys), 1), counts.astype(np.float64))


class _Rows(NamedTuple):
    """Texts as rows, cell by cell: texts do not decrease."""

    texts: Index
    columns: Index
    values: Floats
    counts: Floats
    """Counts before weighting."""
    matrix: SparseRows
    """(texts, features)."""


class Lesson(NamedTuple):
    """Texts as they are learned."""

    rows: SparseRows
    targets: Tensor
    start: Linear
    """Weights before this update."""
    seen: int
    """Texts behind it."""


@dataclass(eq=False)
class Tfidf:
    """Grams, weighed by how few texts hold them, under logistic regression.

    Attributes:
        num_labels: number of labels.
        strength: how much the data counts beside the penalty, scikit-learn's ``C``.
        keys: (grams,) increasing.
        held: (grams,) texts that hold each.
        linear: the weights of the grams.
        num_texts: that were counted.
        vocabulary: of the words whose characters are read; that of the tokenizer, which is packed there.
    """

    num_labels: Annotated[int, Field(ge=2)]
    strength: Strength
    keys: Index = field(default_factory=lambda: np.empty(0, np.int64))
    held: Index = field(default_factory=lambda: np.empty(0, np.int64))
    linear: Linear = None  # type: ignore[assignment]  # zeros unless given
    num_texts: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        """Check that the tables belong together.

        Raises:
            ValueError: they are of other grams or labels.
        """
        require_table("keys", self.keys, torch.int64, [None])
        require_table("held", self.held, torch.int64, [len(self.keys)])
        require_ids("held", self.held, self.num_texts + 1)
        self.linear = self.linear or linear.zeros(0, self.num_labels)
        self.linear.require("linear", len(self.keys), self.num_labels)

    def count(self, sides: Sides, targets: Index) -> None:
        """Learn texts; what was learned before stays the ground from which the weights move.

        Args:
            sides: the texts, or first and second texts.
            targets: (texts,) codes of the labels.
        """
        self.learn(sides, targets)

    def learn(self, sides: Sides, targets: Index) -> Lesson:
        """Count and fit as :meth:`count` does; return the feature rows, as large as the texts, for :meth:`anew`."""
        parts = [*self._counts(sides, unknown=False)]
        held = [np.bincount(part.codes, minlength=len(part.keys)) for part in parts]
        fresh = [part.keys[own >= _least(own)] for part, own in zip(parts, held, strict=True)]
        keys = np.unique(np.concatenate([self.keys, *fresh, *([_HATS] if len(sides) == 2 else [])]))
        weight, counts = torch.zeros(len(keys), self.linear.weight.shape[1]).double(), np.zeros(len(keys), np.int64)
        old = np.searchsorted(keys, self.keys)
        weight[torch.from_numpy(old)], counts[old] = self.linear.weight, self.held
        for part, own in zip(parts, held, strict=True):
            columns, known = _places(keys, part.keys)
            counts[columns[known]] += own[known]
        seen, start = self.num_texts, Linear(weight, self.linear.bias)
        self.keys, self.held, self.num_texts = keys, counts, seen + len(targets)
        lesson = Lesson(self._rows(sides, parts).matrix, torch.from_numpy(targets), start, seen)
        self._solve(lesson)
        return lesson

    def anew(self, lesson: Lesson, strength: float) -> Tfidf:
        """Return the model refitted to the same rows at another strength; making the rows takes longer than fitting."""
        other = copy(self)
        other.strength = strength
        other._solve(lesson)
        return other

    def _solve(self, lesson: Lesson) -> None:
        rows, wanted, start, seen = lesson
        self.linear = linear.fit(rows, wanted, self.num_labels, strength=self.strength, start=start, seen=seen)

    def scores(self, sides: Sides) -> Tensor:
        """(texts, labels) scores before normalising, in float64."""
        return self.linear.scores(self._rows(sides, self._counts(sides)).matrix)

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """(words of all sides,) how much each word moves the score of its text's label (texts,), up or down.

        Two words share what their gram does, and all words of a pair what its overlap does.
        """
        rows, size, width = self._rows(sides, self._counts(sides)), sum(len(own.ids) for own in sides), len(self.keys)
        moved = rows.values * centred(self.linear.weight)[rows.columns, labels[rows.texts]] / rows.counts
        cells, sums = rows.texts * width + rows.columns, np.zeros(size)
        order = np.argsort(cells)
        for grams in self._grams(sides, unknown=True):
            columns, known = _places(self.keys, grams.keys)
            own = moved[order[np.searchsorted(cells, (grams.texts * width + columns)[known], sorter=order)]] / 2
            sums += np.bincount(grams.first[known], own, size) + np.bincount(grams.last[known], own, size)
        apart = (self.keys[rows.columns] >> KIND) % (1 << SIDE - KIND) == OVERLAP
        texts = np.concatenate([np.repeat(np.arange(len(own)), own.lengths) for own in sides])
        whole = np.bincount(rows.texts[apart], (moved * rows.counts)[apart], len(labels))
        spread: Floats = sums + (whole / np.maximum(np.bincount(texts, minlength=len(labels)), 1))[texts]
        return spread

    def grow(self, num_words: int) -> None:
        """New words need no room: grams get theirs when they are counted."""

    def _grams(self, sides: Sides, *, unknown: bool) -> Iterator[Grams]:
        """Every gram at its place."""
        yield word_grams(sides)
        yield Spelling.of(sides, self.vocabulary, unknown=unknown).grams(sides)
        if len(sides) == 2:
            yield shared_grams(sides)

    def _counts(self, sides: Sides, *, unknown: bool = True) -> Iterator[_Counts]:
        """Return the counts of the grams."""
        yield _Counts.of(join([word_grams(sides), *([shared_grams(sides)] if len(sides) == 2 else [])]))
        spelling = Spelling.of(sides, self.vocabulary, unknown=unknown)
        for side in range(len(sides)):
            rows = spelling.of_texts(sides, side)
            texts = np.repeat(np.arange(len(sides[side])), np.diff(rows.indptr))
            yield _Counts(spelling.keys + (side << SIDE), texts, rows.indices.astype(np.int64), rows.data)

    def _overlap(self, sides: Sides) -> _Counts:
        """The numbers of :func:`overlaps`, where pairs were learned."""
        single = (self.keys & ~(1 << SIDE)) < 1 << 31
        ids = self.keys[single] & ((1 << 31) - 1)
        held = np.bincount(ids, self.held[single], len(self.vocabulary)).astype(np.int64)
        spelling = Spelling.of(sides, self.vocabulary, unknown=True)
        heights = overlaps(sides, spelling, smooth_idf(held, 2 * self.num_texts))
        texts, codes = heights.nonzero()
        return _Counts(_HATS, texts, codes, heights[texts, codes])

    def _rows(self, sides: Sides, parts: Iterable[_Counts]) -> _Rows:
        found = []
        for part in (*parts, *([self._overlap(sides)] if len(sides) == 2 else [])):
            columns, known = _places(self.keys, part.keys)
            kept = known[part.codes]
            found.append((part.texts[kept], columns[part.codes[kept]], part.counts[kept]))
        texts, columns, counts = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(texts, kind="stable")  # a few sorted stretches
        texts, columns, counts = texts[order], columns[order], counts[order]
        values = self._weighed(texts, columns, counts, len(sides[0]))
        matrix = sparse_rows(texts, columns, values, (len(sides[0]), len(self.keys)))
        return _Rows(texts, columns, values, counts, matrix)

    def _weighed(self, texts: Index, columns: Index, counts: Floats, num_texts: int) -> Floats:
        """(cells,) TF-IDF, each block of a text of length 1; numbers of ``OVERLAP`` stay as they are."""
        idf = smooth_idf(self.held, self.num_texts)
        kinds = self.keys >> KIND
        values, blocks = (1 + np.log(counts)) * idf[columns], texts * _BLOCKS + kinds[columns]
        norms = np.sqrt(np.bincount(blocks, values**2, num_texts * _BLOCKS))
        values = values / norms[blocks]
        return np.where(kinds[columns] == OVERLAP, counts, values)


def _places(keys: Index, wanted: Index) -> tuple[Index, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the positions of keys in a sorted array, and a mask of those that are in it."""
    places = np.searchsorted(keys, wanted)
    known = places < len(keys)
    known[known] = keys[places[known]] == wanted[known]
    return places, known


def _least(held: Index) -> int:
    """In how many texts a gram must stand so that at most ``MOST`` are kept."""
    if len(held) <= MOST:
        return 1
    return int(np.sort(held)[-MOST - 1]) + 1
