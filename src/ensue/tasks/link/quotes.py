"""The sentence of an article that matches a post best; sentences are split and counted once per article."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import polars as pl

from ensue.data.histories import Index, offsets_of
from ensue.metrics import Floats
from ensue.text.lexical import Kind, Lexical
from ensue.text.sentences import sentences

KINDS: tuple[Kind, ...] = ("words", "characters")
"""Kinds of terms whose cosines are averaged."""
CACHED = 512
"""Number of articles whose sentences stay counted."""
_CELLS = 1 << 21
"""Number of cosines in a block."""


@lru_cache(CACHED)
def counted_sentences(text: str) -> tuple[list[str], list[Lexical]]:
    """Return the sentences of an article, and an index of them for each of ``KINDS``."""
    texts = sentences(text)
    return texts, [Lexical.of(kind, pl.Series("text", texts, dtype=pl.String)) for kind in KINDS]


class Quotes:
    """Sentences of some articles, in one index.

    Args:
        texts: the articles.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        articles = [counted_sentences(text) for text in texts]
        self.sentences = [sentence for lines, _ in articles for sentence in lines]
        self.offsets = offsets_of([len(lines) for lines, _ in articles])
        self.lexical = [Lexical.concatenated(kind, [terms[i] for _, terms in articles]) for i, kind in enumerate(KINDS)]

    def cosines(self, posts: pl.Series) -> Floats:
        """Return the mean of the cosines over words and over character n-grams, (posts, sentences)."""
        return np.mean([lexical.scores(posts) for lexical in self.lexical], axis=0, dtype=np.float64)

    def best(self, cosines: Floats, article: int) -> str:
        """Return the best matching sentence of an article, "" where none shares a term with the post.

        Args:
            cosines: (sentences,) a row of :meth:`cosines`.
            article: index of the article.
        """
        low, high = self.offsets[article : article + 2].tolist()
        # The sentences of one article are side by side.
        scores = cosines[low:high]
        return self.sentences[low + int(scores.argmax())] if len(scores) and scores.max() > 0 else ""

    def closest(self, posts: pl.Series, articles: Index) -> list[str]:
        """Return the best matching sentence for each post, (posts,).

        Args:
            posts: (posts,) texts.
            articles: (posts,) index of the article whose sentences are compared.
        """
        matches: list[str] = []
        # A block of cosines stays in memory, whatever the number of sentences.
        step = max(1, _CELLS // max(len(self.sentences), 1))
        for low in range(0, len(posts), step):
            cosines = self.cosines(posts[low : low + step])
            indices = articles[low : low + step].tolist()
            matches += [self.best(row, index) for row, index in zip(cosines, indices, strict=True)]
        return matches
