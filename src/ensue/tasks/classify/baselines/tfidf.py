"""Words, pairs of neighbours and runs of characters under logistic regression; of pairs of texts, what they share too.

Each kind of gram (``grams``) of each side is a block of its own: (1 + ln tf) times scikit-learn's smooth idf, every
block of a text of length 1, as in a ``FeatureUnion`` of ``TfidfVectorizer(sublinear_tf=True)``, under its
``LogisticRegression``. Of pairs, the grams that they share and do not share are blocks too, and ``overlap`` stands
beside them. A gram of a kind of which there are more than ``MAX_GRAMS`` must stand in so many texts that fewer remain.

``overlap`` are hat functions over [0, 1] of the overlap and the lengths of both texts. A share of 0.5 is not half of
what a share of 1 says, so each number becomes the heights of hats at 0, 0.2, … 1, of which two at most are above 0 and
all sum to 1: 0.25 is 0.75 at 0.2 and 0.25 at 0.4. A linear model of them is any line that bends there.

Character n-grams inside the words of texts: what linear models know of a word that they never saw.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from ensue.data.histories import Ids, Index, ranges
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.tasks.classify.baselines.grams import (
    CHARACTERS,
    KIND,
    OVERLAP,
    SIDE,
    Distinct,
    Grams,
    join,
    shared_grams,
    word_grams,
)
from ensue.tasks.classify.dataset import Sides
from ensue.text import linear
from ensue.text.lexical import places_of
from ensue.text.linear import Array, Linear, Strength, centred, widened
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.text.terms import Terms, character_terms, smooth_idf
from ensue.text.tokens import Tokens
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary

Int32s = Ids
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


_BENDS = 6
HATS = 15 * _BENDS
"""Features of a pair."""
_LOW = 2**31 - 1


def overlaps(sides: Sides, spelled: SpelledWords, idf: Floats) -> Floats:
    """(pairs, features) heights of the hats of 15 numbers.

    Of words, of words weighed by how rare they are, of pairs of neighbours, and of runs of characters: the share of the
    first text's that the second has, of the second's that the first has, and of both texts' that they share (Jaccard).
    Then the logarithms of the lengths, and of how many times as long the first is.

    Args:
        sides: first and second texts.
        spelled: the words of both.
        idf: (words,) by id, how rare each is.
    """
    num = len(sides[0])
    words = [Distinct.of(tokens, 0) for tokens in sides]
    common = np.intersect1d(words[0].cells, words[1].cells, assume_unique=True)
    counts = [
        (_count(common >> 31, num), *(_count(side.texts, num) for side in words)),
        (_count(common >> 31, num, idf[common & _LOW]), *(_count(side.texts, num, idf[side.ids]) for side in words)),
        _neighbours(sides),
        _ngrams(sides, spelled),
    ]
    numbers = [fraction for triple in counts for fraction in _shares(*triple)]
    first, second = (np.log1p(tokens.lengths) for tokens in sides)
    numbers += [first / 6, second / 6, (first - second) / 4 + 0.5]
    # Distance of each number to each of the bends; a hat falls to 0 at the next bend.
    heights = np.clip(np.stack(numbers, 1), 0, 1)[:, :, None] * (_BENDS - 1) - np.arange(_BENDS)
    return np.maximum(0.0, 1 - np.abs(heights)).reshape(num, -1)


def _count(texts: Index, num: int, weights: Floats | None = None) -> Floats:
    return np.bincount(texts, weights, num).astype(np.float64)


def _shares(num_shared: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the fraction of the first, of the second and of the union that is shared; 0 if empty."""
    totals = first, second, first + second - num_shared
    return tuple(num_shared / np.where(total > 0, total, 1.0) for total in totals)  # type: ignore[return-value]


def _neighbours(sides: Sides) -> tuple[Floats, Floats, Floats]:
    """Return numbers of distinct pairs of adjacent words: on both sides, on the first, on the second."""
    grams = [word_grams((tokens,)) for tokens in sides]
    is_pair = [side_grams.first < side_grams.last for side_grams in grams]
    keys, texts = (
        [getattr(side_grams, name)[double] for side_grams, double in zip(grams, is_pair, strict=True)]
        for name in ("keys", "texts")
    )
    distinct, codes = np.unique(np.concatenate(keys), return_inverse=True)
    width = max(len(distinct), 1)
    cells = np.concatenate(texts) * width + codes
    first, second = map(np.unique, np.split(cells, [len(keys[0])]))
    return _common_counts(first, second, width, len(sides[0]))


def _ngrams(sides: Sides, spelled: SpelledWords) -> tuple[Floats, Floats, Floats]:
    """Return numbers of distinct character n-grams: on both sides, on the first, on the second."""
    width = max(len(spelled.keys), 1)
    (first_texts, first_columns, _), (second_texts, second_columns, _) = map(spelled.of_texts, sides)
    return _common_counts(
        first_texts * width + first_columns, second_texts * width + second_columns, width, len(sides[0])
    )


def _common_counts(first: Index, second: Index, width: int, num: int) -> tuple[Floats, Floats, Floats]:
    """Return how many cells, text x width + key, both sides, the first and the second have of each text."""
    common = np.intersect1d(first, second, assume_unique=True)
    return _count(common // width, num), _count(first // width, num), _count(second // width, num)


MAX_GRAMS = 2**18
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
        # Text and gram as one number: sorted by text, with how often it occurs.
        cells, counts = np.unique(grams.texts * max(len(keys), 1) + codes, return_counts=True)
        return cls(keys, cells // max(len(keys), 1), cells % max(len(keys), 1), counts.astype(np.float64))


class _Cells(NamedTuple):
    """Weighted counts of the grams of some kinds in texts; texts do not decrease."""

    texts: Index
    columns: Index
    counts: Floats
    """Counts before weighting."""
    values: Floats


@dataclass(frozen=True)
class _Tables:
    """Tables that follow from the counted texts.

    Attributes:
        idf: (columns,).
        kinds: (columns,) side and kind of each.
        runs: the first column of the runs of characters of each side, and those of its words.
    """

    idf: Floats
    kinds: npt.NDArray[np.int8]
    runs: tuple[list[int], list[SpelledWords]]


class Lesson(NamedTuple):
    """Texts as they are learned."""

    rows: SparseRows
    targets: Index
    start: Linear
    """Weights before this update."""
    num_seen: int
    """Number of texts behind them."""
    solution: Array | None = None
    """Coordinates where a refit begins."""


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
    sets: bool = False
    """True if a text may have several labels, or none."""
    vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        """Check that the tables belong together.

        Raises:
            ValueError: they are of other grams or labels.
        """
        require_table("keys", self.keys, np.int64, [None])
        require_table("held", self.held, np.int64, [len(self.keys)])
        require_ids("held", self.held, self.num_texts + 1)
        self.linear = self.linear or linear.zeros(0, self.num_labels, sets=self.sets)
        self.linear.require("linear", len(self.keys), self.num_labels, sets=self.sets)

    def count(self, sides: Sides, targets: Index) -> None:
        """Learn texts; what was learned before stays the ground from which the weights move.

        Args:
            sides: the texts, or first and second texts.
            targets: (texts,) codes of the labels.
        """
        self.learn(sides, targets)

    def learn(self, sides: Sides, targets: Index) -> Lesson:
        """Count and fit as :meth:`count` does; return the feature rows, as large as the texts, for :meth:`refitted`."""
        kinds = [*_training_counts(sides, self.vocabulary)]
        text_counts = [np.bincount(kind.codes, minlength=len(kind.keys)) for kind in kinds]
        # Rare grams of a kind with too many are dropped; grams of earlier texts stay.
        new_keys = [
            kind.keys[num_texts >= _min_texts(num_texts)] for kind, num_texts in zip(kinds, text_counts, strict=True)
        ]
        keys = np.unique(np.concatenate([self.keys, *new_keys, *([_HATS] if len(sides) == 2 else [])]))
        weight = np.zeros((len(keys), self.linear.weight.shape[1]))
        counts = np.zeros(len(keys), np.int64)
        # Former grams keep their weights and counts where they now stand among the new ones.
        former = np.searchsorted(keys, self.keys)
        weight[former] = self.linear.weight
        counts[former] = self.held
        for kind, num_texts in zip(kinds, text_counts, strict=True):
            columns, is_known = places_of(keys, kind.keys)
            counts[columns[is_known]] += num_texts[is_known]
        start = Linear(weight, self.linear.bias)
        num_seen = self.num_texts
        self.keys, self.held = keys, counts
        self.num_texts += len(targets)
        self.__dict__.pop("_tables", None)
        lesson = Lesson(self._training_rows(sides, kinds), targets, start, num_seen)
        return lesson._replace(solution=self._solve(lesson))

    def refitted(self, lesson: Lesson, strength: float) -> Tfidf:
        """Return the model refitted to the same rows at another strength; making the rows takes longer than fitting."""
        other = copy(self)
        other.strength = strength
        other._solve(lesson)
        return other

    def _solve(self, lesson: Lesson) -> Array:
        self.linear, solution = linear.fit(
            lesson.rows,
            lesson.targets,
            self.num_labels,
            strength=self.strength,
            start=lesson.start,
            num_seen=lesson.num_seen,
            begin=lesson.solution,
        )
        return solution

    def scores(self, sides: Sides) -> Floats:
        """Return scores before normalising, (texts, labels)."""
        totals = sum(self._product(cells, len(sides[0])) for cells in self._cells(sides))
        return widened(totals + self.linear.bias)

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """(words of all sides,) how much each word moves the score of its text's label (texts,), up or down.

        Two words share what their gram does, and all words of a pair what its overlap does.
        """
        cells = _Cells(*map(np.concatenate, zip(*self._cells(sides), strict=True)))
        weights = self.linear.weight[cells.columns]
        if not self.sets:  # labels of sets are not compared with each other: each is on its own
            weights = centred(weights)
        moved = cells.values * weights[np.arange(len(weights)), labels[cells.texts]]
        # What one occurrence of a gram does is looked up by the number of its text and column.
        numbers = cells.texts * len(self.keys) + cells.columns
        single = moved / cells.counts
        order = np.argsort(numbers)
        numbers, single = numbers[order], single[order]
        size = sum(len(tokens.ids) for tokens in sides)
        sums, base = np.zeros(size), 0
        # Half of a gram goes to its first and half to its last word, which may be the same.
        for grams in (word_grams(sides), *([shared_grams(sides)] if len(sides) == 2 else [])):
            columns, is_known = places_of(self.keys, grams.keys)
            halves = single[np.searchsorted(numbers, (grams.texts * len(self.keys) + columns)[is_known])] / 2
            sums += np.bincount(grams.first[is_known], halves, size) + np.bincount(grams.last[is_known], halves, size)
        owners = [np.repeat(np.arange(len(tokens)), tokens.lengths) for tokens in sides]
        # Each n-gram of characters goes to the word that contains it.
        for tokens, texts, start, spelled in zip(sides, owners, *self._tables.runs, strict=False):
            rows, runs = spelled.of_words(tokens)
            num_runs = np.diff(runs.indptr)[rows]
            entries = ranges(runs.indptr[rows].astype(np.int64), num_runs)
            words = np.repeat(np.arange(len(rows)), num_runs)
            occurring = np.searchsorted(numbers, texts[words] * len(self.keys) + start + runs.indices[entries])
            sums += np.bincount(base + words, single[occurring] * runs.data[entries], size)
            base += len(rows)
        # Numbers of the overlap belong to no word: all words of the pair share them.
        is_overlap = self._tables.kinds[cells.columns] == OVERLAP
        overlap_moves = np.bincount(cells.texts[is_overlap], moved[is_overlap], len(labels))
        texts = np.concatenate(owners)
        return sums + (overlap_moves / np.maximum(np.bincount(texts, minlength=len(labels)), 1))[texts]

    def grow(self, num_words: int) -> None:
        """New words need no room: grams get theirs when they are counted."""

    @cached_property
    def _tables(self) -> _Tables:
        kinds = (self.keys >> KIND).astype(np.int8)
        sides = [np.searchsorted(kinds, [kind, kind + 1]) for kind in (CHARACTERS, CHARACTERS + (1 << SIDE - KIND))]
        spelled = [
            SpelledWords(self.vocabulary, self.keys[low:high] - (side << SIDE))
            for side, (low, high) in enumerate(sides)
        ]
        starts = [int(low) for low, _ in sides]
        return _Tables(smooth_idf(self.held, self.num_texts), kinds, (starts, spelled))

    def _cells(self, sides: Sides) -> Iterator[_Cells]:
        """Yield the cells of texts: words, characters of each side, overlaps of pairs."""
        grams = _Counts.of(join([word_grams(sides), *([shared_grams(sides)] if len(sides) == 2 else [])]))
        yield self._known_cells(grams)
        for tokens, start, spelled in zip(sides, *self._tables.runs, strict=False):
            texts, columns, counts = spelled.of_texts(tokens)
            yield self._weighted(texts, columns + start, counts, texts)
        if len(sides) == 2:
            yield self._overlap(sides)

    def _product(self, cells: _Cells, num_texts: int) -> Floats:
        """(texts, columns of the weights) values times weights."""
        weight = self.linear.weight
        return sparse_rows(cells.texts, cells.columns, cells.values, (num_texts, len(weight))) @ weight

    def _known_cells(self, counts: _Counts) -> _Cells:
        columns, in_keys = places_of(self.keys, counts.keys)
        is_kept = in_keys[counts.codes]
        texts = counts.texts[is_kept]
        columns = columns[counts.codes[is_kept]]
        blocks = texts * _BLOCKS + self._tables.kinds[columns]
        return self._weighted(texts, columns, counts.counts[is_kept], blocks)

    def _training_rows(self, sides: Sides, parts: Iterable[_Counts]) -> SparseRows:
        """(texts, features) of counted texts."""
        overlap = [self._overlap(sides)] if len(sides) == 2 else []
        cells = _Cells(*map(np.concatenate, zip(*map(self._known_cells, parts), *overlap, strict=True)))
        order = np.argsort(cells.texts, kind="stable")  # a few sorted stretches
        columns = cells.columns[order]
        values = cells.values[order]
        return sparse_rows(cells.texts[order], columns, values, (len(sides[0]), len(self.keys)))

    def _overlap(self, sides: Sides) -> _Cells:
        """Return the numbers of :func:`overlaps`, which are not weighted."""
        # Keys of single words: no kind, and no first word of a pair.
        single = (self.keys & ~(1 << SIDE)) < 1 << 31
        ids = self.keys[single] & ((1 << 31) - 1)
        text_counts = np.bincount(ids, self.held[single], len(self.vocabulary)).astype(np.int64)
        spelled = SpelledWords.of(sides, self.vocabulary)
        heights = overlaps(sides, spelled, smooth_idf(text_counts, 2 * self.num_texts))
        texts, codes = heights.nonzero()
        columns, is_known = places_of(self.keys, _HATS)
        texts, codes = texts[is_known[codes]], codes[is_known[codes]]
        numbers = heights[texts, codes]
        return _Cells(texts, columns[codes], numbers, numbers)

    def _weighted(self, texts: Index, columns: Index, counts: Floats, blocks: Index) -> _Cells:
        """Return TF-IDF of (cells,) counts; a block is what a text has of one side and kind, and has length 1."""
        values = self._tables.idf[columns]
        # 1 + ln 1 is 1: most grams occur once, and logarithms are slow.
        repeated = np.flatnonzero(counts > 1)
        values[repeated] *= 1 + np.log(counts[repeated])
        norms = np.sqrt(np.bincount(blocks, values * values))
        return _Cells(texts, columns, counts, values / norms[blocks])


def _training_counts(sides: Sides, vocabulary: Vocabulary) -> Iterator[_Counts]:
    """Yield the counts of the grams of texts that are learned, in which unknown words have no characters."""
    yield _Counts.of(join([word_grams(sides), *([shared_grams(sides)] if len(sides) == 2 else [])]))
    # N-grams of words that min_count keeps out of the vocabulary would give them away.
    in_vocabulary = tuple(replace(tokens, words=None) for tokens in sides)
    spelled = SpelledWords.of(in_vocabulary, vocabulary)
    for side, tokens in enumerate(in_vocabulary):
        yield _Counts(spelled.keys + (side << SIDE), *spelled.of_texts(tokens))


def _min_texts(text_counts: Index) -> int:
    """In how many texts a gram must stand so that at most ``MAX_GRAMS`` are kept."""
    if len(text_counts) <= MAX_GRAMS:
        return 1
    return int(np.sort(text_counts)[-MAX_GRAMS - 1]) + 1
