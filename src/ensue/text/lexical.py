"""Articles found by the words they share with a post: TF-IDF and BM25, exact, over postings that grow by appending.

========== =======================================================================================================
words      cosine of (1 + ln tf) (ln((1 + N) / (1 + n)) + 1) over words: scikit-learn's ``TfidfVectorizer`` with
           ``sublinear_tf`` and the stop words of ``terms``; terms that no article has do not count
characters the same over runs of 3 to 5 characters (``char_wb``), which forgives spelling, inflection and script
bm25       Robertson & Zaragoza 2009 with Lucene's idf, ln(1 + (N - n + 1/2) / (n + 1/2)); a post's words count once
stems      the same over the first ``STEM`` characters of words, so that forms of a word are one term, in any language
           that ends words by their form (McNamee & Mayfield 2004 find 4 or 5 best over eight languages)
pairs      the same over pairs of stems that stand close to each other: names and phrases, which words tear apart
========== =======================================================================================================

N and n count the articles, and texts that were only observed: five articles say too little of how rare a word is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from pydantic import Field

from ensue.data.histories import Index, offsets_of, ranges
from ensue.errors import SettingError
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_offsets, require_table
from ensue.text.frequencies import Frequencies
from ensue.text.postings import Postings
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.text.terms import STOP_WORDS, Keys, Terms, character_terms, pair_terms, word_terms
from ensue.text.weights import bm25_idf, bm25_saturation, smooth_idf

Kind = Literal["words", "characters", "bm25", "stems", "pairs"]
KINDS: tuple[Kind, ...] = ("words", "characters", "bm25", "stems", "pairs")
Counted = Literal["words", "characters", "stems", "pairs"]
"""Kind of terms that are counted."""
COUNTED: tuple[Counted, ...] = ("words", "characters", "stems", "pairs")
STEM = 5
"""Characters of a word that tell it from others."""
_CELLS = 1 << 22
"""Scores that are held at once."""


def counted_terms(texts: pl.Series, counted: Counted, stop: Collection[str] = STOP_WORDS) -> Terms:
    """The terms of texts, of a kind."""
    if counted == "characters":
        return character_terms(texts)
    of = pair_terms if counted == "pairs" else word_terms
    return of(texts, stop, cut=None if counted == "words" else STEM)


@dataclass(eq=False)
class Lexical:
    """Documents by their terms.

    Attributes:
        kind: one of ``KINDS``.
        stop: words that are no terms; of no meaning to characters.
        offsets: (documents + 1,) document ``d`` has the cells ``offsets[d]`` to ``offsets[d + 1]``.
        keys: (cells,) which term.
        counts: (cells,) how often.
        terms: (terms,) of texts that were only observed, sorted.
        seen: (terms,) how many of those texts hold each.
        num_seen: texts that were only observed.
    """

    kind: Kind = "words"
    stop: frozenset[str] = STOP_WORDS
    offsets: Index = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    terms: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    seen: Index = field(default_factory=lambda: np.empty(0, np.int64))
    num_seen: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    _index: _Indexed | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check that the columns belong together.

        Raises:
            SettingError: an unknown kind.
            ValueError: the columns do not belong together.
        """
        if self.kind not in KINDS:
            raise SettingError(f"kind: {self.kind!r} is not known; the kinds are {', '.join(KINDS)}")
        require_table("counts", self.counts, torch.int32, [len(self.keys)])
        require_ids("counts", self.counts, MAX_COUNT, 1)
        require_offsets("offsets", self.offsets, len(self.keys))
        require_table("seen", self.seen, torch.int64, [len(self.terms)])
        require_ids("seen", self.seen, self.num_seen + 1)
        require_rising("terms", self.terms)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1

    def add(self, texts: pl.Series) -> None:
        """Append documents; they are numbered on from those that are there."""
        owners, keys, counts = self.terms_of(texts)
        ends = np.searchsorted(owners, np.arange(len(texts)), side="right") + self.offsets[-1]
        self.offsets = np.concatenate([self.offsets, ends])
        self.keys = np.concatenate([self.keys, keys])
        self.counts = np.concatenate([self.counts, counts.astype(np.int32)])
        self._index = None

    def frequencies(self, texts: pl.Series) -> Frequencies:
        """In how many texts each term stands; of memory, what the distinct terms of all texts need."""
        return Frequencies.of(texts, lambda some: self.terms_of(some)[1])

    def take(self, found: Frequencies) -> None:
        """Count what :meth:`frequencies` gave, of this or of another of the same terms."""
        self.terms, self.seen, self.num_seen = Frequencies(self.terms, self.seen, self.num_seen).joined(found)
        self._index = None

    def keep(self, chosen: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> None:
        """Keep the chosen documents, numbered anew in the order chosen."""
        index = np.arange(len(self))[chosen]
        lengths = np.diff(self.offsets)[index]
        cells = ranges(self.offsets[index], lengths)
        self.keys, self.counts = self.keys[cells], self.counts[cells]
        self.offsets = offsets_of(lengths)
        self._index = None

    def scores(self, texts: pl.Series) -> npt.NDArray[np.float32]:
        """(texts, documents) scores; 0 where no term is shared. Cosines in [0, 1] but for BM25."""
        scores = np.zeros((len(texts), len(self)), np.float32)
        for low, block in self.blocks(texts):
            scores[low : low + len(block)] = block
        return scores

    def blocks(self, texts: pl.Series) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """The scores of some texts at a time, with the number of the first: memory stays bounded for any corpus."""
        step = max(1, min(_CELLS // max(len(self), 1), 1 << 16))
        for low in range(0, len(texts), step):
            block = texts[low : low + step]
            yield low, self.scores_of(self.terms_of(block), len(block))

    def terms_of(self, texts: pl.Series) -> Terms:
        """The terms of texts, of which every score is made."""
        return counted_terms(texts, self.counted, self.stop)

    @property
    def counted(self) -> Counted:
        """Return the kind of terms; scorers of one kind can share counts."""
        return "words" if self.kind == "bm25" else self.kind

    @property
    def by_cosine(self) -> bool:
        """Return whether scores are cosines; those of BM25 are sums."""
        return self.kind in ("words", "characters")

    def scores_of(self, terms: Terms, num: int) -> npt.NDArray[np.float32]:
        """(texts, documents) scores of as many texts, by their terms."""
        texts, columns, weights = self._cells(terms, num)
        return self._indexed().postings.scores(texts, columns, weights, num).astype(np.float32)

    def rows(self, texts: pl.Series) -> SparseRows:
        """(texts, terms) weights of texts as queries, in the columns of the terms that the documents have.

        Rows are of length 1, or 0 where no document has a term of the text; of BM25 a term counts 1.
        """
        return sparse_rows(*self._cells(self.terms_of(texts), len(texts)), (len(texts), len(self._indexed().terms)))

    def in_vocabulary(self, texts: pl.Series, more_terms: Keys) -> npt.NDArray[np.bool_]:
        """Return a (texts,) mask of texts whose terms are all in documents, in observed texts or in ``more_terms``.

        Args:
            texts: to look up.
            more_terms: (terms,) sorted keys.
        """
        owners, keys, _ = self.terms_of(texts)
        known = np.any([places_of(terms, keys)[1] for terms in (self._indexed().terms, self.terms, more_terms)], axis=0)
        mask = np.ones(len(texts), bool)
        mask[owners[~known]] = False
        return mask

    def own_terms(self) -> Terms:
        """The terms of the documents."""
        owners = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return Terms(owners, self.keys, self.counts.astype(np.int64))

    def _cells(self, terms: Terms, num: int) -> tuple[Index, Index, Floats]:
        """(cells,) whose, in the column of which term of the documents, and how much it weighs in the text."""
        index, (owners, keys, counts) = self._indexed(), terms
        columns, present = index.columns.of(keys)
        owners, columns, weights = owners[present], columns[present], np.ones(int(present.sum()))
        if self.by_cosine:
            weights = (1 + np.log(counts[present])) * index.idf[columns]
            weights /= np.sqrt(np.bincount(owners, weights**2, num))[owners]
        return owners, columns, weights

    def _indexed(self) -> _Indexed:
        if self._index is None:
            self._index = self._build()
        return self._index

    def _build(self) -> _Indexed:
        owners = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        order = np.argsort(self.keys)
        owners, counts = owners[order], self.counts[order].astype(np.float64)
        terms, starts = np.unique(self.keys[order], return_index=True)
        offsets = np.append(starts, len(order)).astype(np.int64)
        frequencies = np.diff(offsets)
        idf = self._idf(frequencies + self._held(terms))
        if not self.by_cosine:
            lengths = np.bincount(np.repeat(np.arange(len(self)), np.diff(self.offsets)), self.counts, len(self))
            mean = float(lengths.mean()) if len(lengths) else 1.0
            weights = bm25_saturation(counts, lengths[owners], mean) * np.repeat(idf, frequencies)
        else:
            weights = (1 + np.log(counts)) * np.repeat(idf, frequencies)
            weights /= np.sqrt(np.bincount(owners, weights**2, len(self)))[owners]
        postings = Postings(offsets, owners.astype(np.int32), weights.astype(np.float32), len(self))
        return _Indexed(terms, idf, postings, _Columns(terms))

    def _held(self, keys: Keys) -> Index:
        """(keys,) how many observed texts hold each."""
        places, observed = places_of(self.terms, keys)
        return np.where(observed, self.seen[places], 0) if len(self.terms) else np.zeros(len(keys), np.int64)

    def _idf(self, frequencies: Index) -> Floats:
        every = len(self) + self.num_seen
        return smooth_idf(frequencies, every) if self.by_cosine else bm25_idf(frequencies, every)


class _Indexed(NamedTuple):
    """Index made from the counts: terms, their idf and their postings."""

    terms: Keys
    idf: Floats
    postings: Postings
    columns: _Columns


class _Columns:
    """The columns of sorted terms, by a table of the lowest bits: of many keys it takes a third of a binary search.

    Args:
        terms: (terms,) rising hashes, whose lowest bits are evenly distributed.
    """

    def __init__(self, terms: Keys) -> None:
        bits = len(terms).bit_length() + 2
        self._terms, self._mask = terms, np.uint64((1 << bits) - 1)
        slots = (terms & self._mask).view(np.int64)
        self._columns = np.zeros(1 << bits, np.int32)
        self._columns[slots] = np.arange(len(terms))
        self._shared = np.bincount(slots, minlength=1 << bits) > 1

    def of(self, keys: Keys) -> tuple[Index, npt.NDArray[np.bool_]]:
        """See :func:`places_of`."""
        if not len(self._terms):
            return places_of(self._terms, keys)
        slots = (keys & self._mask).view(np.int64)
        columns = self._columns[slots].astype(np.int64)
        present = self._terms[columns] == keys
        # A slot of several terms holds the last one: the others are searched.
        others = np.flatnonzero(self._shared[slots] & ~present)
        columns[others], present[others] = places_of(self._terms, keys[others])
        return columns, present


def require_rising(name: str, terms: Keys) -> None:
    """Check that terms rise, each standing once.

    Raises:
        ValueError: they do not.
    """
    if terms.dtype != np.uint64 or (terms[1:] <= terms[:-1]).any():
        raise ValueError(f"{name} does not rise")


def places_of(terms: Keys, keys: Keys) -> tuple[Index, npt.NDArray[np.bool_]]:
    """(keys,) the place of each in the sorted terms, 0 where it is not there; and whether it is."""
    places = np.searchsorted(terms, keys)
    present = places < len(terms)
    present[present] = terms[places[present]] == keys[present]
    return np.where(present, places, 0), present


def chosen_terms(terms: Terms, texts: Index) -> Terms:
    """The terms of some texts, whose numbers rise, numbered anew: of texts 3 and 7, those of 7 become those of 1."""
    owners, keys, counts = terms
    places = np.searchsorted(texts, owners).clip(max=len(texts) - 1)
    kept = texts[places] == owners
    return Terms(places[kept], keys[kept], counts[kept])
