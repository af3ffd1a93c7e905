"""Overlap and lengths of the two texts of a pair, as hat functions over [0, 1].

A share of 0.5 is not half of what a share of 1 says, so each number becomes the heights of hats at 0, 0.2, … 1, of
which two at most are above 0 and all sum to 1: 0.25 is 0.75 at 0.2 and 0.25 at 0.4. A linear model of them is any line
that bends there.
"""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.classify.baselines.grams import Distinct, word_grams
from ensue.tasks.classify.baselines.spelling import SpelledWords
from ensue.tasks.classify.dataset import Sides
from ensue.text.tokens import Tokens

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
    parts = [
        (_count(common >> 31, num), *(_count(own.texts, num) for own in words)),
        (_count(common >> 31, num, idf[common & _LOW]), *(_count(own.texts, num, idf[own.ids]) for own in words)),
        _neighbours(sides),
        _ngrams(sides, spelled),
    ]
    numbers = [share for part in parts for share in _shares(*part)]
    first, second = (np.log1p(tokens.lengths) for tokens in sides)
    numbers += [first / 6, second / 6, (first - second) / 4 + 0.5]
    heights = np.clip(np.stack(numbers, 1), 0, 1)[:, :, None] * (_BENDS - 1) - np.arange(_BENDS)
    hats: Floats = np.maximum(0.0, 1 - np.abs(heights)).reshape(num, -1)
    return hats


def _count(texts: Index, num: int, weights: Floats | None = None) -> Floats:
    return np.bincount(texts, weights, num).astype(np.float64)


def _shares(both: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the fraction of the first, of the second and of the union that is shared; 0 if empty."""
    wholes = first, second, first + second - both
    return tuple(both / np.where(whole > 0, whole, 1.0) for whole in wholes)  # type: ignore[return-value]


def _neighbours(sides: Sides) -> tuple[Floats, Floats, Floats]:
    """(pairs,) distinct pairs of neighbours that both texts hold, that the first holds, that the second holds."""
    num, grams = len(sides[0]), [word_grams((tokens,)) for tokens in sides]
    double = [own.first < own.last for own in grams]
    distinct, codes = np.unique(
        np.concatenate([own.keys[two] for own, two in zip(grams, double, strict=True)]), return_inverse=True
    )
    cells = np.concatenate([own.texts[two] for own, two in zip(grams, double, strict=True)]) * len(distinct) + codes
    first, second = (np.unique(part) for part in np.split(cells, [int(double[0].sum())]))
    both = np.intersect1d(first, second, assume_unique=True)
    width = max(len(distinct), 1)
    return _count(both // width, num), _count(first // width, num), _count(second // width, num)


def _ngrams(sides: Sides, spelled: SpelledWords) -> tuple[Floats, Floats, Floats]:
    """(pairs,) distinct character n-grams that both texts hold, that the first holds, that the second holds."""
    num, width = len(sides[0]), max(len(spelled.keys), 1)

    def cells(tokens: Tokens) -> Index:
        texts, columns, _ = spelled.of_texts(tokens)
        return texts * width + columns

    first, second = map(cells, sides)
    both = np.intersect1d(first, second, assume_unique=True)
    return _count(both // width, num), _count(first // width, num), _count(second // width, num)
