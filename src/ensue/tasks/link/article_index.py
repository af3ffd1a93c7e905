"""The articles that posts are compared with: their terms, counted once, and their vectors; it grows by appending."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ensue.data.posts.dataset import Articles
from ensue.metrics import Floats
from ensue.nn.validation import require_number
from ensue.text.latent import Latent
from ensue.text.lexical import Kind, Lexical
from ensue.text.terms import Keys

_HEAD = "head "
KINDS: Mapping[str, Kind] = {
    "words": "words", "characters": "characters", "bm25": "bm25",
    f"{_HEAD}words": "words", f"{_HEAD}characters": "characters", f"{_HEAD}bm25": "bm25", "stems": "stems",
    "pairs": "pairs",
}  # fmt: skip
"""Kinds of terms counted in whole articles and in heads. Posts outside the tests of PolitiFact and Clickbait22 are
ranked no better by stems of heads."""


@dataclass(eq=False)
class ArticleIndex:
    """The articles that posts are compared with, by their terms and by their vectors.

    Attributes:
        articles: in the order of the columns of all scores.
        lexical: by name, such as ``words`` of the whole text or ``head words`` of its head.
        vectors: (articles, width) of the network; of width 0 without one.
        latent: of stems, as the first articles taught it.
    """

    articles: Articles
    lexical: dict[str, Lexical]
    vectors: Tensor
    latent: Latent | None = None
    _topics: Floats | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Check that everything is of the same articles.

        Raises:
            ValueError: it is not.
        """
        for name, lexical in self.lexical.items():
            if len(lexical) not in (0, len(self)):
                raise ValueError(f"lexical.{name}: terms of {len(lexical)} articles where {len(self)} are stored")
        require_number("vectors", self.vectors, 1.01, -1.01)  # of length 1

    def __len__(self) -> int:
        """Number of articles."""
        return len(self.articles)

    @property
    def topics(self) -> Floats:
        """(articles, width) of latent semantic analysis."""
        assert self.latent is not None
        if self._topics is None:
            self._topics = self.latent.vectors(self.lexical["stems"].own_terms(), len(self))
        return self._topics

    @classmethod
    def of(cls, articles: Articles) -> ArticleIndex:
        """An index of some articles, without vectors."""
        lexical = {name: Lexical(kind) for name, kind in KINDS.items()}
        index = cls(articles, lexical, torch.zeros(len(articles), 0))
        index._append(articles)
        index.latent = Latent.of(index.lexical["stems"].own_terms(), len(index))
        return index

    def observe(self, texts: pl.Series) -> None:
        """Count the words and character n-grams of these texts too: without training no score needs other terms."""
        for counted in ("words", "characters"):
            scorers = [lexical for lexical in self.lexical.values() if lexical.counted == counted]
            frequencies = scorers[0].frequencies(texts)
            for lexical in scorers:
                lexical.take(frequencies)

    def word_terms(self, texts: pl.Series) -> Keys:
        """Return the sorted keys of all words of some texts."""
        return np.unique(self.lexical["words"].terms_of(texts)[1])

    def joined(self, articles: Articles) -> tuple[ArticleIndex, list[int], list[int]]:
        """An index with more articles, those of this one first.

        Of an index of a and b joined with b and c, c is new: a, b and c have the columns 0, 1 and 2, so that the given
        articles have 1 and 2, and number 1 of them is new.

        Returns:
            The index, with a network's vectors of before; the columns of the given articles; and which of them are new:
            of another id, or of another text.
        """
        columns = {row: column for column, row in enumerate(zip(self.articles.ids, self.articles.texts, strict=True))}
        rows = list(zip(articles.ids, articles.texts, strict=True))
        new = [number for number, row in enumerate(rows) if row not in columns]
        columns |= {rows[number]: len(self) + place for place, number in enumerate(new)}
        own_columns = [columns[row] for row in rows]
        if not new:
            return self, own_columns, new
        added = articles.select(np.array(new))
        no_vectors = torch.zeros(len(self) + len(new), 0)
        index = ArticleIndex(
            _concatenated(self.articles, added), {}, self.vectors if self.vectors.shape[1] else no_vectors, self.latent
        )
        for name, lexical in self.lexical.items():
            index.lexical[name] = copy(lexical)
        index._append(added)
        return index, own_columns, new

    def _append(self, articles: Articles) -> None:
        texts = {"": articles.texts, _HEAD: heads(articles)}
        for name, lexical in self.lexical.items():
            lexical.add(texts[_HEAD if name.startswith(_HEAD) else ""])


def heads(articles: Articles) -> pl.Series:
    """(articles,) what most posts repeat: the title and the first paragraph; without a title, three paragraphs."""
    titled = (articles.titles != "") & (articles.titles != articles.bodies)
    paragraphs = articles.bodies.str.strip_chars().str.extract_all(r"[^\n]+")
    first, three = (paragraphs.list.head(num).list.join("\n") for num in (1, 3))
    return (articles.titles + "\n" + first).zip_with(titled, three)


def _concatenated(first: Articles, second: Articles) -> Articles:
    """Articles of both, in this order."""
    columns = ("bodies", "titles", "ids")
    return Articles(*(pl.concat([getattr(first, name), getattr(second, name)]) for name in columns))
