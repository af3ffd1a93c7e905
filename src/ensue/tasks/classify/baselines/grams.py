"""Features of the linear models: words, word pairs, character n-grams, and what two texts of a pair share.

A gram is one number of 63 bits, made of ids of words, so that a text never becomes a list of texts::

    bit 62   bits 59 to 61   bits 31 to 58   bits 0 to 30
    side     kind            first word      last word      (CHARACTERS: a number of 44 bits in place of both)

``WORDS`` holds words (first word 0) and pairs of neighbours. Of pairs of texts, ``SHARED`` are words that both sides
have, ``ALONE`` those that one side alone has, and ``ACROSS`` each word that only the first side has beside each that
only the second one has: "a man sleeps" and "a man runs" differ by (sleeps, runs).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, Mask, offsets_of, ranges
from ensue.nn.validation import require_ids
from ensue.tasks.classify.dataset import Sides
from ensue.text.tokens import Tokens
from ensue.vocabulary import UNKNOWN

WORDS, CHARACTERS, SHARED, ALONE, ACROSS, OVERLAP = range(6)
KIND, SIDE = 59, 62
"""The bits at which a gram's kind and side begin."""
CROSSED = 32
"""Words of a side, at most, that are put beside those of the other: 1,024 such grams a pair, no more."""


class Grams(NamedTuple):
    """The grams of some texts whose words are all known, each as often as it stands there, in no order that matters."""

    keys: Index
    """Which."""
    texts: Index
    """Number of the text of each gram."""
    first: Index
    """Position of its first word, counted over all words of all sides."""
    last: Index
    """Position of its last word; that of the first for a single word."""


def require_grams(name: str, keys: Index, num_words: int) -> None:
    """Check grams of a file, whoever wrote it.

    Args:
        name: what the message calls them.
        keys: (grams,) int64.
        num_words: ids of the vocabulary, padding and unknown included.

    Raises:
        ValueError: they do not rise, or one is of no kind or of a word that is not in the vocabulary.
    """
    if (keys[1:] <= keys[:-1]).any():
        raise ValueError(f"{name} falls somewhere")
    require_ids(name, keys, 2**63 - 1)
    kinds = (keys >> KIND) % (1 << SIDE - KIND)
    require_ids(name, kinds, OVERLAP + 1)
    words = keys[(kinds != CHARACTERS) & (kinds != OVERLAP)] & ((1 << KIND) - 1)
    require_ids(f"the first word of {name}", words >> 31, num_words)
    require_ids(f"the last word of {name}", words & (2**31 - 1), num_words)


def join(tables: list[Grams]) -> Grams:
    """All of them."""
    return Grams(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))


def word_grams(sides: Sides) -> Grams:
    """Words and pairs of neighbours, each side's apart; a word that is not known parts its neighbours."""
    tables, base = [], 0
    for side, tokens in enumerate(sides):
        owner = np.repeat(np.arange(len(tokens)), tokens.lengths)
        ids = tokens.ids.astype(np.int64)
        positions = np.arange(len(tokens.ids)) + base
        is_known = ids != UNKNOWN
        # Two words are neighbours if both are in the vocabulary and in the same text.
        is_pair = is_known[1:] & is_known[:-1] & (owner[1:] == owner[:-1])
        # A word is its id in the lowest bits; a pair has its first word above them.
        keys = np.concatenate([ids[is_known], ((ids[:-1] << 31) + ids[1:])[is_pair]]) + (side << SIDE)
        texts, first, last = (
            np.concatenate([single[is_known], double[is_pair]])
            for single, double in ((owner, owner[1:]), (positions, positions[:-1]), (positions, positions[1:]))
        )
        tables.append(Grams(keys, texts, first, last))
        base += len(ids)
    return join(tables)


class Distinct(NamedTuple):
    """The known words of one side, each once a text."""

    texts: Index
    """Number of the text of each gram, rising; sorted by id within a text."""
    ids: Index
    places: Index
    """Position of its first occurrence."""

    @classmethod
    def of(cls, tokens: Tokens, base: int) -> Distinct:
        """Return the grams of a side whose first word is at ``base``."""
        owner = np.repeat(np.arange(len(tokens)), tokens.lengths)
        in_vocabulary = np.flatnonzero(tokens.ids != UNKNOWN)
        # Text and word as one number: sorted by text, then by id, each once.
        cells, first_rows = np.unique((owner[in_vocabulary] << 31) + tokens.ids[in_vocabulary], return_index=True)
        return cls(cells >> 31, cells & (2**31 - 1), in_vocabulary[first_rows] + base)

    @property
    def cells(self) -> Index:
        """Text and word as one number, increasing."""
        return (self.texts << 31) + self.ids

    def keep(self, kept: Index | Mask) -> Distinct:
        """Some of them, in order."""
        return Distinct(self.texts[kept], self.ids[kept], self.places[kept])


def shared_grams(sides: Sides) -> Grams:
    """Return the grams of pairs: shared, only in one text, and different at the same place."""
    first = Distinct.of(sides[0], 0)
    second = Distinct.of(sides[1], len(sides[0].ids))
    common, first_rows, second_rows = np.intersect1d(first.cells, second.cells, assume_unique=True, return_indices=True)
    shared = Grams(
        (common & (2**31 - 1)) + (SHARED << KIND), common >> 31, first.places[first_rows], second.places[second_rows]
    )
    only = [
        side.keep(~np.isin(np.arange(len(side.ids)), indices))
        for side, indices in ((first, first_rows), (second, second_rows))
    ]
    alone = [
        Grams(words.ids + (ALONE << KIND) + (side << SIDE), words.texts, words.places, words.places)
        for side, words in enumerate(only)
    ]
    return join(
        [shared, *alone, _across(*(words.keep(_first_few(words, CROSSED)) for words in only), num_texts=len(sides[0]))]
    )


def _first_few(words: Distinct, most: int) -> Index:
    """Which of the words are among the first so many of their text."""
    # Rank of each word within its text, in the order in which words occur.
    order = np.lexsort((words.places, words.texts))
    offsets = offsets_of(np.bincount(words.texts))
    rank = np.arange(len(order)) - offsets[words.texts[order]]
    return np.sort(order[rank < most])


def _across(first: Distinct, second: Distinct, *, num_texts: int) -> Grams:
    """Each word of the one beside each of the other: of 2 and 3 words, 0 0 0 1 1 1 beside 0 1 2 0 1 2."""
    sizes = [np.bincount(side.texts, minlength=num_texts) for side in (first, second)]
    # Repeat each first word once per second word of its text, and list those second words.
    starts = offsets_of(sizes[1])[:-1]
    first_rows = np.repeat(np.arange(len(first.ids)), sizes[1][first.texts])
    second_rows = ranges(starts[first.texts], sizes[1][first.texts])
    keys = (first.ids[first_rows] << 31) + second.ids[second_rows] + (ACROSS << KIND)
    return Grams(keys, first.texts[first_rows], first.places[first_rows], second.places[second_rows])
