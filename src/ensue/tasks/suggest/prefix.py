"""Constrained decoding: tokens under which a query begins with the prefix that was typed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, Mask
from ensue.tasks.suggest.batch import FIRST_TOKEN


class Typed(NamedTuple):
    """The prefixes of a batch as tables over how many of their bytes are written.

    Attributes:
        allowed: (rows, bytes + 1, ids) bool: after so many bytes, which tokens can follow. From a row's own length on
            every token can.
        sizes: (ids,) bytes of each token.
        ends: (rows,) bytes of each prefix.
    """

    allowed: Mask
    sizes: Index
    ends: Index


class PrefixRule:
    """Finds tokens by what they spell.

    A query is what its tokens spell, one after the other. So where tokens are words, each spells its word and a space:
    ``"how to bri"`` then lets ``"how "`` come first, then ``"to "``, then all words that begin with ``bri``; a prefix
    that ends in a space asks for the whole word. Where tokens are pieces (BPE), a piece spells itself, and any way to
    cut the prefix into pieces is allowed.

    Args:
        spellings: of every token id, in bytes; those of the special tokens are not looked at.
    """

    def __init__(self, spellings: Sequence[bytes]) -> None:
        self.count = len(spellings)
        # Sorted by spelling, all tokens that begin with a text are a range.
        pairs = sorted((text, id) for id, text in enumerate(spellings) if id >= FIRST_TOKEN and text)
        self.texts = [text for text, _ in pairs]
        self.ids = np.array([id for _, id in pairs], np.int64)
        self.longest = max((len(text) for text in self.texts), default=0)
        sizes = [len(text) if id >= FIRST_TOKEN else 0 for id, text in enumerate(spellings)]
        self.sizes = np.array(sizes, np.int64)

    def read(self, prefixes: Sequence[str]) -> Typed:
        """One prefix a row; an empty one forbids nothing."""
        texts = [prefix.encode() for prefix in prefixes]
        longest = max(map(len, texts), default=0)
        allowed = np.zeros((len(texts), longest + 1, self.count), np.bool_)
        for row, text in enumerate(texts):
            for position in range(len(text)):
                # After ``position`` bytes a token must agree with the rest of the prefix, as far as both go.
                allowed[row, position, self._following(text[position:])] = True
            # The prefix is complete: anything may follow.
            allowed[row, len(text) :] = True
        return Typed(allowed, self.sizes, np.array([len(text) for text in texts], np.int64))

    def _following(self, rest: bytes) -> Index:
        """Ids of the tokens that begin with ``rest``, or that ``rest`` begins with."""
        low, high = bisect_left(self.texts, rest), self._after(rest)
        ids = [self.ids[low:high]]
        for size in range(1, min(len(rest) - 1, self.longest) + 1):
            # A token that is shorter than the rest must be its beginning.
            spelled = rest[:size]
            ids.append(self.ids[bisect_left(self.texts, spelled) : bisect_right(self.texts, spelled)])
        return np.concatenate(ids)

    def _after(self, rest: bytes) -> int:
        """Return the end of the range of tokens that begin with ``rest``."""
        # The next text in byte order: the last byte that can grow grows by one.
        stem = rest.rstrip(b"\xff")
        return bisect_left(self.texts, stem[:-1] + bytes([stem[-1] + 1])) if stem else len(self.texts)
