"""The sentence of an article that a post is closest to: sentences are cut and counted once an article."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl

from ensue.data.histories import Index, offsets_of
from ensue.metrics import Floats
from ensue.text.lexical import Kind, Lexical
from ensue.text.sentences import sentences

KINDS: tuple[Kind, ...] = ("words", "characters")
"""Kinds of terms whose cosines are added."""
CACHED = 512
"""Number of articles whose sentences stay counted."""
_CELLS = 1 << 21
"""Cosines of a block."""


class Counted(NamedTuple):
    """The sentences of an article, and of each kind of terms what ``Lexical`` counted of them."""

    sentences: list[str]
    terms: list[Lexical]


@lru_cache(CACHED)
def counted_sentences(text: str) -> Counted:
    """Split an article into sentences, and count the terms of each."""
    parts, terms = sentences(text), []
    for kind in KINDS:
        lexical = Lexical(kind)
        lexical.add(pl.Series("text", parts, dtype=pl.String))
        terms.append(lexical)
    return Counted(parts, terms)


class Quotes:
    """Sentences of some articles, in one index.

    Args:
        texts: the articles.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        articles = [counted_sentences(text) for text in texts]
        self.flat = [part for own in articles for part in own.sentences]
        self.offsets = offsets_of([len(own.sentences) for own in articles])
        self.lexical = [_together(kind, [own.terms[place] for own in articles]) for place, kind in enumerate(KINDS)]

    def near(self, posts: pl.Series) -> Floats:
        """(posts, sentences) the mean of the cosines over words and over runs of characters."""
        near: Floats = np.mean([own.scores(posts) for own in self.lexical], axis=0, dtype=np.float64)
        return near

    def pick(self, near: Floats, article: int) -> str:
        """The closest sentence of an article, by a row of :meth:`near`; empty where none shares anything."""
        low, high = self.offsets[article : article + 2].tolist()
        part = near[low:high]
        return self.flat[low + int(part.argmax())] if len(part) and part.max() > 0 else ""

    def closest(self, posts: pl.Series, articles: Index) -> list[str]:
        """(posts,) the sentence that is closest to each of that one of the articles which is named beside it."""
        found: list[str] = []
        step = max(1, _CELLS // max(len(self.flat), 1))
        for low in range(0, len(posts), step):
            near = self.near(posts[low : low + step])
            numbers = articles[low : low + step].tolist()
            found += [self.pick(row, number) for row, number in zip(near, numbers, strict=True)]
        return found


def _together(kind: Kind, parts: Sequence[Lexical]) -> Lexical:
    if not parts:
        return Lexical(kind)
    offsets = offsets_of(np.concatenate([np.diff(lexical.offsets) for lexical in parts]))
    keys, counts = (np.concatenate([getattr(lexical, name) for lexical in parts]) for name in ("keys", "counts"))
    return Lexical(kind, offsets=offsets, keys=keys, counts=counts)
