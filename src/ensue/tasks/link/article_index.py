"""The articles that posts are compared with: their terms, counted once, and their vectors; it grows by appending."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from ensue.data.posts.dataset import Articles
from ensue.metrics import Floats
from ensue.nn.validation import require_number
from ensue.text.encoder import Vectors
from ensue.text.latent import Latent
from ensue.text.lexical import Kind, KnownWords, Lexical, LexicalGroup
from ensue.text.terms import Keys

HEAD = "head "
KINDS: Mapping[str, Kind] = {
    "words": "words", "characters": "characters", "bm25": "bm25",
    f"{HEAD}words": "words", f"{HEAD}characters": "characters", f"{HEAD}bm25": "bm25", "stems": "stems",
    "pairs": "pairs",
}  # fmt: skip
"""Kinds of terms of whole articles and of heads. Posts outside the tests of PolitiFact and Clickbait22 are ranked no
better by stems of heads."""
COSINES = tuple(name for name, kind in KINDS.items() if kind in ("words", "characters"))
"""Names of the terms whose scores are cosines; others are sums of BM25."""
TABLE_NAMES = tuple(name for name, kind in KINDS.items() if kind != "bm25")
"""Names of the terms that are counted; BM25 has the terms of words."""


@dataclass(eq=False)
class ArticleIndex:
    """The articles that posts are compared with, by their terms and by their vectors.

    Attributes:
        articles: in the order of the columns of all scores.
        terms: counted terms by the names of ``TABLE_NAMES``.
        vectors: (articles, width) of the network; of width 0 without one.
        latent: of stems, fitted on the first articles.
        lexical: by the names of ``KINDS``, the weighted terms of whole articles and of heads.
    """

    articles: Articles
    terms: dict[str, Lexical]
    vectors: Vectors
    latent: Latent | None = None
    lexical: LexicalGroup = field(init=False)
    _known_words: KnownWords | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check that everything is of the same articles.

        Raises:
            ValueError: it is not.
        """
        for name, terms in self.terms.items():
            if len(terms) != len(self):
                raise ValueError(f"terms.{name}: terms of {len(terms)} articles where {len(self)} are stored")
        require_number("vectors", self.vectors, 1.01, -1.01)  # of length 1
        self._weigh()

    def __len__(self) -> int:
        """Number of articles."""
        return len(self.articles)

    @cached_property
    def topics(self) -> Floats:
        """Vectors of latent semantic analysis, (articles, width)."""
        assert self.latent is not None
        return self.latent.vectors(self.lexical["stems"].own_terms(), len(self))

    @classmethod
    def of(cls, articles: Articles) -> ArticleIndex:
        """Return an index of some articles, without vectors."""
        terms = _appended({name: Lexical(KINDS[name]) for name in TABLE_NAMES}, articles)
        latent = Latent.of(terms["stems"].own_terms(), len(articles))
        return cls(articles, terms, np.zeros((len(articles), 0), np.float32), latent)

    def observe(self, texts: pl.Series) -> None:
        """Count the words and character n-grams of these texts too: without training no score needs other terms."""
        for kind in ("words", "characters"):
            frequencies = self.terms[kind].frequencies(texts)
            for name in (kind, f"{HEAD}{kind}"):
                self.terms[name].take(frequencies)
        self._weigh()

    def word_terms(self, texts: pl.Series) -> Keys:
        """Return the sorted keys of all words of some texts."""
        return np.unique(self.terms["words"].terms_of(texts).keys)

    def known_words(self, post_terms: Keys) -> KnownWords:
        """Return the words of the articles, of observed texts and of ``post_terms``, sorted keys."""
        if self._known_words is None or self._known_words.tables[-1] is not post_terms:
            self._known_words = self.lexical["words"].known_words(post_terms)
        return self._known_words

    def joined(self, articles: Articles) -> tuple[ArticleIndex, list[int], list[int]]:
        """Return an index with more articles, those of this one first.

        Of an index of a and b joined with b and c, c is new: a, b and c have the columns 0, 1 and 2, so that the given
        articles have 1 and 2, and number 1 of them is new.

        Returns:
            The index, with the former vectors of a network; the columns of the given articles; and the numbers of those
            that are new: of another id, or of another text.
        """
        # An article is the same if its id and its text are.
        columns = {row: column for column, row in enumerate(zip(self.articles.ids, self.articles.texts, strict=True))}
        rows = list(zip(articles.ids, articles.texts, strict=True))
        new = [number for number, row in enumerate(rows) if row not in columns]
        columns |= {rows[number]: len(self) + rank for rank, number in enumerate(new)}
        given_columns = [columns[row] for row in rows]
        if not new:
            return self, given_columns, new
        added = articles.select(np.array(new))
        # Vectors of new articles are added by the caller, who has the network.
        vectors = self.vectors if self.vectors.shape[1] else np.zeros((len(self) + len(new), 0), np.float32)
        terms = _appended({name: copy(lexical) for name, lexical in self.terms.items()}, added)
        return ArticleIndex(self.articles + added, terms, vectors, self.latent), given_columns, new

    def _weigh(self) -> None:
        """Make the weighted terms: those of heads and BM25 have the columns of the whole articles."""
        self.lexical, self._known_words = LexicalGroup(), None
        for name, kind in KINDS.items():
            # BM25 weighs the counts of words.
            terms = self.terms[name.replace("bm25", "words")]
            self.lexical[name] = terms.weighted_by(kind, self.lexical.get(terms.counted))


def heads(articles: Articles) -> pl.Series:
    """Return what most posts repeat: the title and the first paragraph; without a title, three paragraphs."""
    titled = (articles.titles != "") & (articles.titles != articles.bodies)
    # Paragraphs end at a line break.
    paragraphs = articles.bodies.str.strip_chars().str.extract_all(r"[^\n]+")
    first, three = (paragraphs.list.head(num).list.join("\n") for num in (1, 3))
    return (articles.titles + "\n" + first).zip_with(titled, three)


def _appended(terms: dict[str, Lexical], articles: Articles) -> dict[str, Lexical]:
    """Count the terms of more articles."""
    whole_texts = articles.texts
    head_texts = heads(articles)
    for name, lexical in terms.items():
        lexical.add(head_texts if name.startswith(HEAD) else whole_texts)
    return terms
