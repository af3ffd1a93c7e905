"""The sentence of an article that matches a post best; sentences are split and counted once per article.

The sentences of running text, for people to read: each stands there as it was written.

A mark ends a sentence if a space follows and what comes next is not in lower case (in a line that has no capitals, even
so). A full stop after an abbreviation
ends one only where abbreviations do (``Inc.``, ``U.S.``, an initial) and a word that opens sentences follows; after a
title (``Mr.``) or ``e.g.`` it never does, after ``No.`` or ``Fig.`` not before a number. Marks inside a word or number
are none: ``3.5``, ``ensue.org``.

Networks that read documents sentence by sentence find theirs in :mod:`ensue.text.tokens`: what was learned from those
would no longer fit here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import polars as pl

from ensue.data.histories import Index, offsets_of
from ensue.metrics import Floats
from ensue.text.lexical import Kind, Lexical


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_BEFORE_NAMES = _words(
    "mr mrs ms mx dr prof st mt ft gen col capt cpt lt maj cmdr sgt cpl pvt adm rev fr hon sen rep gov pres supt insp",
    "messrs mme mlle vs v cf al approx ca e.g i.e viz eg ie bzw z.b d.h u.a",
)
"""Never the last word of a sentence."""
_BEFORE_NUMBERS = _words("no nos nr fig figs vol vols art sec ch pp p para op eq tab ed §")
_ANYWHERE = _words(
    "inc ltd co corp bros jr sr esq etc dept est assn univ ave blvd rd ph.d",
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun",
)
"""Last words of sentences at times: whether one ends shows in the word that follows."""
_OPENERS = _words(
    "a an and as at but by for from he her his however i if in it its meanwhile my no not on our she since so some",
    "that the their then there these they this those though to under we what when where while who why with you yet",
)
_MARK = re.compile(
    r"(?<![.!?…])(?P<mark>[.!?…]++)[\"'”’»)\]]*(?=\s|$)|(?P<wide>[。！？]+)[\"'”’»）」』]*|(?P<line>\n\s*)"
)
_WORD_BEFORE = re.compile(r"[^\s\"'“”‘’«»()\[\]—–/]+$")
_NEXT = re.compile(r"\s*[\"'“‘«(\[]*(?P<word>[\w.]*)")
_LONGEST = 40
"""Characters of the word before a mark that are looked at."""
_WRAPPED = 40
"""Characters that a line has at least where it was wrapped."""


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, none empty; together they hold all of it but the spaces between."""
    found_sentences = list[str]()
    start = 0
    number = 0
    cased = [line != line.lower() for line in text.split("\n")]
    # Marks inside a sentence that has ended already, such as the second of "?!", are skipped.
    for mark in _MARK.finditer(text):
        if mark.end() > start and _ends(text, start, mark, cased=cased[number]):
            found_sentences.append(text[start : mark.end()].strip())
            start = mark.end()
        number += (mark["line"] or "").count("\n")
    return [sentence for sentence in [*found_sentences, text[start:].strip()] if sentence]


def _ends(text: str, start: int, mark: re.Match[str], *, cased: bool) -> bool:
    following = _NEXT.match(text, mark.end())
    next_word = following["word"] if following else ""
    if mark["line"]:  # a long line that goes on in lower case was only wrapped
        # A line of at least _WRAPPED characters before the break was wrapped, not ended.
        wrapped = next_word[:1].islower() and "\n" not in text[mark.start() - _WRAPPED : mark.start()]
        return not wrapped or mark["line"].count("\n") > 1 or mark.start() < _WRAPPED
    if mark["wide"]:
        return True
    if next_word[:1].islower() and (cased or mark["mark"] != "."):
        return False
    if mark["mark"] != ".":
        return True
    last_word = _WORD_BEFORE.search(text[max(start, mark.start() - _LONGEST) : mark.start()])
    return last_word is None or not _holds(
        last_word[0], next_word, alone=last_word[0] == text[start : mark.start()].strip()
    )


def _holds(word: str, after: str, *, alone: bool) -> bool:
    """Return whether a full stop after this word belongs to it; ``alone``: the word opens its sentence."""
    plain = word.lower()
    if plain in _BEFORE_NAMES or (alone and word.isdigit()):
        return True
    if plain in _BEFORE_NUMBERS:
        return after[:1].isdigit()
    # Initials (J.) and abbreviations of letters (U.S.A).
    lettered = (len(word) == 1 and word.isupper() and word != "I") or re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word)
    return bool(lettered or plain in _ANYWHERE) and after.lower() not in _OPENERS and after != ""


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
