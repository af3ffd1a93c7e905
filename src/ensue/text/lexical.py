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

Number of texts that hold each term, counted a block of texts at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from ensue.data.histories import Ids, Index, Mask, offsets_of
from ensue.errors import SettingError
from ensue.metrics import Floats
from ensue.nn.validation import MAX_COUNT, require_ids, require_offsets, require_table
from ensue.text.postings import Postings
from ensue.text.sparse import SparseRows, sparse_rows
from ensue.text.terms import (
    STOP_WORDS,
    Keys,
    Terms,
    bm25_idf,
    bm25_saturation,
    character_terms,
    pair_terms,
    smooth_idf,
    word_keys,
    word_terms,
)

_TEXTS, _CHARACTERS = 1 << 14, 1 << 22
"""Maximum number of texts and of characters per block; a single text may be longer."""
_MERGED = 1 << 20
"""Terms that wait before they are sorted into the others; more wait where there are more of these."""


class Frequencies(NamedTuple):
    """(terms,) sorted terms, and the number of ``num`` texts that hold each."""

    terms: Keys
    seen: Index
    num: int

    @classmethod
    def of(cls, texts: pl.Series, keys_of: Callable[[pl.Series], Keys]) -> Frequencies:
        """Count a column.

        Args:
            texts: (texts,).
            keys_of: the terms of some texts, each as often as texts hold it.
        """
        total = cls(np.empty(0, np.uint64), np.empty(0, np.int64), 0)
        pending = []
        for block in _blocks(texts):
            # Merging is a sort, so several blocks are merged at once.
            pending.append(cls(*np.unique(keys_of(block), return_counts=True), len(block)))
            if sum(len(table.terms) for table in pending) > max(_MERGED, len(total.terms)):
                total = total.joined(*pending)
                pending = []
        return total.joined(*pending)

    def joined(self, *others: Frequencies) -> Frequencies:
        """Return the table of all texts together; 3 7 seen 1 1 and 7 9 seen 2 1 are 3 7 9 seen 1 3 1."""
        tables = [table for table in (self, *others) if len(table.terms)]
        num = sum(table.num for table in (self, *others))
        if len(tables) < 2:  # as it is, so that several may hold one table
            return (tables[0] if tables else self)._replace(num=num)
        terms, seen = (np.concatenate(column) for column in list(zip(*tables, strict=True))[:2])
        # A term of several tables is summed up over its run in the sorted terms.
        order = np.argsort(terms, kind="stable")  # of parts that are sorted it is a merge
        terms = terms[order]
        starts = np.flatnonzero(np.append(True, terms[1:] != terms[:-1]))
        return Frequencies(terms[starts], np.add.reduceat(seen[order], starts), num)


def _blocks(texts: pl.Series) -> Iterator[pl.Series]:
    low = 0
    ends = np.cumsum(texts.str.len_chars().fill_null(0).to_numpy().astype(np.int64))
    while low < len(texts):
        # A block ends at the number of texts or of characters, whichever comes first.
        done = ends[low - 1] if low else 0
        high = max(low + 1, min(low + _TEXTS, int(np.searchsorted(ends, done + _CHARACTERS, side="right"))))
        yield texts[low:high]
        low = high


Kind = Literal["words", "characters", "bm25", "stems", "pairs"]
KINDS: tuple[Kind, ...] = ("words", "characters", "bm25", "stems", "pairs")
TermKind = Literal["words", "characters", "stems", "pairs"]
"""Kind of terms that are counted."""
TERM_KINDS: tuple[TermKind, ...] = ("words", "characters", "stems", "pairs")
STEM = 5
"""Number of characters of a stem."""


def counted_terms(texts: pl.Series, counted: TermKind, stop: Collection[str] = STOP_WORDS) -> Terms:
    """Return the terms of texts, of a kind."""
    if counted == "characters":
        return character_terms(texts)
    count = pair_terms if counted == "pairs" else word_terms
    return count(texts, stop, cut=None if counted == "words" else STEM)


class Cells(NamedTuple):
    """Terms of texts that the documents have too."""

    texts: Index
    """(cells,) number of the text, not decreasing."""
    columns: Index
    """(cells,) number of the term among the terms of the documents."""
    log_counts: Floats
    """(cells,) 1 + ln of how often the text holds the term."""


@dataclass(eq=False)
class Lexical:
    """Documents by their terms.

    Attributes:
        kind: one of ``KINDS``.
        stop: words that are no terms; not used for characters.
        offsets: (documents + 1,) document ``d`` has the cells ``offsets[d]`` to ``offsets[d + 1]``.
        keys: (cells,) which term.
        counts: (cells,) how often.
        terms: (terms,) of texts that were only observed, sorted.
        seen: (terms,) how many of those texts hold each.
        num_seen: number of texts that were only observed.
        source: an index of longer texts that hold all terms of this one, and whose columns are used; then
            :meth:`cells` of either are those of both. [default: columns of its own]
    """

    kind: Kind = "words"
    stop: frozenset[str] = STOP_WORDS
    offsets: Index = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    terms: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    seen: Index = field(default_factory=lambda: np.empty(0, np.int64))
    num_seen: Annotated[int, Field(ge=0, lt=MAX_COUNT)] = 0
    source: Lexical | None = field(init=False, default=None)
    _index: _Indexed | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check that the columns belong together.

        Raises:
            SettingError: an unknown kind.
            ValueError: the columns do not belong together.
        """
        if self.kind not in KINDS:
            raise SettingError(f"kind: {self.kind!r} is not known; the kinds are {', '.join(KINDS)}")
        require_table("counts", self.counts, np.int32, [len(self.keys)])
        require_ids("counts", self.counts, MAX_COUNT, 1)
        require_offsets("offsets", self.offsets, len(self.keys))
        require_table("seen", self.seen, np.int64, [len(self.terms)])
        require_ids("seen", self.seen, self.num_seen + 1)
        require_rising("terms", self.terms)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1

    @classmethod
    def of(cls, kind: Kind, texts: pl.Series) -> Lexical:
        """Return an index of some texts."""
        lexical = cls(kind)
        lexical.add(texts)
        return lexical

    @classmethod
    def concatenated(cls, kind: Kind, indexes: Sequence[Lexical]) -> Lexical:
        """Return one index of the documents of several."""
        lengths = [np.diff(lexical.offsets) for lexical in indexes]
        offsets = offsets_of(np.concatenate([*lengths, np.empty(0, np.int64)]))
        all_indexes = [cls(kind), *indexes]
        keys = np.concatenate([lexical.keys for lexical in all_indexes])
        counts = np.concatenate([lexical.counts for lexical in all_indexes])
        return cls(kind, offsets=offsets, keys=keys, counts=counts)

    def add(self, texts: pl.Series) -> None:
        """Append documents; they are numbered after the documents that are stored."""
        owners, keys, counts = self.terms_of(texts)
        # Owners do not decrease: the end of a document is where the next owner begins.
        ends = np.searchsorted(owners, np.arange(len(texts)), side="right") + self.offsets[-1]
        self.offsets = np.concatenate([self.offsets, ends])
        self.keys = np.concatenate([self.keys, keys])
        self.counts = np.concatenate([self.counts, counts.astype(np.int32)])
        self._index = None

    def frequencies(self, texts: pl.Series) -> Frequencies:
        """Count the texts that hold each term, in memory for the distinct terms of all texts."""
        return Frequencies.of(texts, lambda block: self.terms_of(block)[1])

    def take(self, frequencies: Frequencies) -> None:
        """Add what :meth:`frequencies` returned, of this or of another index of the same terms."""
        self.terms, self.seen, self.num_seen = Frequencies(self.terms, self.seen, self.num_seen).joined(frequencies)
        self._index = None

    def weighted_by(self, kind: Kind, source: Lexical | None = None) -> Lexical:
        """Return an index of the same documents and terms with other weights; the arrays are shared.

        Args:
            kind: of the weights.
            source: see the attribute.
        """
        lexical = replace(self, kind=kind)
        lexical.source = source
        return lexical

    def scores(self, texts: pl.Series) -> npt.NDArray[np.float32]:
        """Return scores, (texts, documents); 0 where no term is shared. Cosines in [0, 1] but for BM25."""
        cells = self.cells(self.terms_of(texts))
        weights = self.text_weights(cells, len(texts))
        return self._indexed().postings.scores(cells.texts, cells.columns, weights, len(texts)).astype(np.float32)

    def terms_of(self, texts: pl.Series) -> Terms:
        """Return the terms of texts, of which every score is made."""
        return counted_terms(texts, self.counted, self.stop)

    @property
    def counted(self) -> TermKind:
        """Return the kind of terms; scorers of one kind can share counts."""
        return "words" if self.kind == "bm25" else self.kind

    @property
    def by_cosine(self) -> bool:
        """Return whether scores are cosines; those of BM25 are sums."""
        return self.kind in ("words", "characters")

    def cells(self, terms: Terms) -> Cells:
        """Return the terms that documents have, with their columns."""
        columns, is_present = self._indexed().columns.of(terms.keys)
        (present,) = is_present.nonzero()
        return Cells(terms.owners.take(present), columns.take(present), 1 + np.log(terms.counts.take(present)))

    def rows(self, texts: pl.Series) -> SparseRows:
        """Return the cosine weights of texts as queries, (texts, terms of the documents).

        Rows are of length 1, or 0 where no document has a term of the text.
        """
        cells = self.cells(self.terms_of(texts))
        weights = self.text_weights(cells, len(texts))
        return sparse_rows(cells.texts, cells.columns, weights, (len(texts), len(self._indexed().idf)))

    def known_words(self, more_terms: Keys) -> KnownWords:
        """Return the words whose terms are all in documents, in observed texts or in ``more_terms``, sorted keys."""
        return KnownWords((self._indexed().columns.terms, self.terms, more_terms), self.stop)

    def own_terms(self) -> Terms:
        """Return the terms of the documents."""
        return Terms(self._owners(), self.keys, self.counts.astype(np.int64))

    def _owners(self) -> Index:
        """Return the document of each cell, (cells,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def text_weights(self, cells: Cells, num_texts: int) -> Floats:
        """Return the weight of each term in its text, (cells,): 1, or of cosines so that a text has length 1 or 0."""
        if not self.by_cosine:
            return np.ones(len(cells.texts))
        weights = cells.log_counts * self._indexed().idf.take(cells.columns)
        # Unit length per text, so that products with unit documents are cosines.
        lengths = np.sqrt(np.bincount(cells.texts, weights**2, num_texts))
        return weights / np.maximum(lengths, _TINY).take(cells.texts)

    def _indexed(self) -> _Indexed:
        if self._index is None:
            self._index = self._build()
        return self._index

    def _build(self) -> _Indexed:
        # Postings are the cells sorted by term; a stable sort keeps documents rising within a term.
        order = np.argsort(self.keys, kind="stable")
        keys = self.keys[order]
        owners = self._owners()[order]
        counts = self.counts[order].astype(np.float64)
        columns = _Columns(_distinct(keys)) if self.source is None else self.source._indexed().columns
        cell_columns = np.searchsorted(columns.terms, keys)
        frequencies = np.bincount(cell_columns, minlength=len(columns.terms))
        smooth = smooth_idf if self.by_cosine else bm25_idf
        idf = smooth(frequencies + self._frequencies_seen(columns.terms), len(self) + self.num_seen)
        idf[frequencies == 0] = 0.0  # terms of the source alone do not count
        if self.by_cosine:
            weights = (1 + np.log(counts)) * idf[cell_columns]
            # Documents have unit length, as the texts that are scored.
            weights /= np.sqrt(np.bincount(owners, weights**2, len(self)))[owners]
        else:
            lengths = np.bincount(self._owners(), self.counts, len(self))
            mean = float(lengths.mean()) if len(lengths) else 1.0
            weights = bm25_saturation(counts, lengths[owners], mean) * idf[cell_columns]
        offsets = offsets_of(frequencies)
        postings = Postings(offsets, owners.astype(np.int32), weights.astype(np.float32), len(self))
        return _Indexed(columns, idf, postings)

    def _frequencies_seen(self, keys: Keys) -> Index:
        """Return how many observed texts hold each term, (keys,)."""
        positions, is_observed = places_of(self.terms, keys)
        return np.where(is_observed, self.seen[positions], 0) if len(self.terms) else np.zeros(len(keys), np.int64)


class LexicalGroup(dict[str, Lexical]):
    """Indexes of the same documents by name, which score texts in one call: of a single text, a call outlasts its sums.

    An index that others have as their source comes before them.
    """

    @cached_property
    def _joined(self) -> tuple[Postings, dict[str, int]]:
        """The postings of all, and the number of the first term of each."""
        indexes = [lexical._indexed() for lexical in self.values()]
        postings = [index.postings for index in indexes]
        first_entries = offsets_of([len(table.documents) for table in postings])
        first_terms = offsets_of([len(table.offsets) for table in postings])
        joined = Postings(
            np.concatenate([table.offsets + first for table, first in zip(postings, first_entries, strict=False)]),
            np.concatenate([table.documents for table in postings]),
            np.concatenate([table.weights for table in postings]),
            postings[0].num_documents,
        )
        for lexical, index, (first, last) in zip(self.values(), indexes, pairwise(first_terms), strict=True):
            # A view, so that entries are in memory once.
            lexical._index = index._replace(postings=replace(joined, offsets=joined.offsets[first:last]))
        return joined, dict(zip(self, first_terms.tolist(), strict=False))

    def scores(self, names: Sequence[str], terms: Mapping[TermKind, Terms], num_texts: int) -> Floats:
        """Return the scores of some of the indexes, (names, texts, documents); see :meth:`Lexical.scores`.

        Args:
            names: of the indexes, at least one.
            terms: of the texts, by kind.
            num_texts: number of texts.
        """
        postings, first_terms = self._joined
        all_cells: dict[TermKind, Cells] = {}
        columns_of_names = []
        for row, name in enumerate(names):
            lexical = self[name]
            if (kind := lexical.counted) not in all_cells:
                # An index and its source have the same cells.
                all_cells[kind] = lexical.cells(terms[kind])
            cells = all_cells[kind]
            weights = lexical.text_weights(cells, num_texts)
            columns_of_names.append((cells.texts + row * num_texts, cells.columns + first_terms[name], weights))
        texts, columns, weights = (np.concatenate(column) for column in zip(*columns_of_names, strict=True))
        return postings.scores(texts, columns, weights, len(names) * num_texts).reshape(len(names), num_texts, -1)


_TINY = np.finfo(np.float64).tiny
_MAX_WORDS = 1 << 16
"""Number of words that are stored as known or unknown."""


class _Indexed(NamedTuple):
    """Index made from the counts: columns of the terms, their idf and their postings."""

    columns: _Columns
    idf: Floats
    postings: Postings


class _Columns:
    """The columns of sorted terms, by a table of the lowest bits: of many keys it takes a third of a binary search.

    Args:
        terms: (terms,) rising hashes, whose lowest bits are evenly distributed.
    """

    def __init__(self, terms: Keys) -> None:
        # At least four slots per term, so that few terms share one.
        bits = len(terms).bit_length() + 2
        self.terms = terms
        self._mask = np.uint64((1 << bits) - 1)
        slots = (terms & self._mask).view(np.int64)
        self._columns = np.zeros(1 << bits, np.int32)
        self._columns[slots] = np.arange(len(terms))
        self._shared = np.bincount(slots, minlength=1 << bits) > 1

    def of(self, keys: Keys) -> tuple[Index, Mask]:
        """See :func:`places_of`."""
        if not len(self.terms):
            return places_of(self.terms, keys)
        slots = (keys & self._mask).view(np.int64)
        # For a few keys, take is twice as fast as an index in brackets.
        columns = self._columns.take(slots).astype(np.int64)
        is_present = self.terms.take(columns) == keys
        # A slot of several terms holds the last one: the others are searched.
        collisions = (self._shared.take(slots) > is_present).nonzero()[0]
        if len(collisions):
            columns[collisions], is_present[collisions] = places_of(self.terms, keys[collisions])
        return columns, is_present


class KnownWords(dict[str, bool]):
    """Words by whether all their terms are in some tables; each is looked up once.

    Args:
        tables: sorted keys of terms.
        stop: words that are no terms.
    """

    def __init__(self, tables: tuple[Keys, ...], stop: frozenset[str]) -> None:
        super().__init__()
        self.tables, self.stop = tables, stop

    def __missing__(self, word: str) -> bool:
        """Look a word up."""
        if len(self) >= _MAX_WORDS:
            self.clear()
        # A word such as well-known has two terms, and is known if each is in some table.
        keys = np.array(word_keys(word, self.stop), np.uint64)
        is_known = self[word] = bool(np.any([places_of(table, keys)[1] for table in self.tables], axis=0).all())
        return is_known


def _distinct(keys: Keys) -> Keys:
    """Return sorted keys, each once."""
    is_first = np.ones(len(keys), bool)
    is_first[1:] = keys[1:] != keys[:-1]
    return keys[is_first]


def require_rising(name: str, terms: Keys) -> None:
    """Check that terms rise strictly.

    Raises:
        ValueError: they do not.
    """
    if terms.dtype != np.uint64 or (terms[1:] <= terms[:-1]).any():
        raise ValueError(f"{name} does not rise")


def places_of(terms: npt.NDArray[np.integer], keys: npt.NDArray[np.integer]) -> tuple[Index, Mask]:
    """Return (keys,) the place of each key in sorted terms, 0 where it is missing, and whether it is there."""
    positions = np.searchsorted(terms, keys)
    is_present = positions < len(terms)
    is_present[is_present] = terms[positions[is_present]] == keys[is_present]
    return np.where(is_present, positions, 0), is_present


def chosen_terms(terms: Terms, texts: Index) -> Terms:
    """Return the terms of some texts, whose numbers rise, renumbered: text 7 of the texts 3 and 7 becomes 1."""
    owners, keys, counts = terms
    positions = np.searchsorted(texts, owners).clip(max=len(texts) - 1)
    is_chosen = texts[positions] == owners
    return Terms(positions[is_chosen], keys[is_chosen], counts[is_chosen])
