"""Words that a network has no row for, as runs of their characters: a name of yesterday, and scripts without spaces.

A word w is ``<w>`` with a mark at either end, and its pieces are the runs of ``RUN`` characters in it (of a shorter
word, all of it), each a number below ``PIECES`` by its hash (Bojanowski et al., Enriching word vectors with subword
information, TACL 2017). Texts that hold the same new word share all of its pieces, texts with forms of it most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Ids, Index, offsets_of, ranges, scrambled
from ensue.text.tokens import Tokens
from ensue.vocabulary import UNKNOWN

PIECES = 1 << 12
"""Rows that all pieces share."""
RUN = 4
"""Characters of a piece."""
PIECES_A_WORD = 6.0
"""Approximate number of subwords of an English word, which share its weight."""
LONGEST = 64
"""Characters of a word that are read."""


def with_pieces(tokens: Tokens) -> Tokens:
    """Return the texts with each unknown word replaced by its subwords, as ids -1 and below.

    Args:
        tokens: with their words, and each text one sentence.
    """
    assert tokens.words is not None
    positions = np.flatnonzero(tokens.ids == UNKNOWN)
    if not len(positions):
        return replace(tokens, words=None)
    distinct, which = np.unique(tokens.words.gather(positions).to_numpy(), return_inverse=True)
    pieces, offsets = pieces_of(list(distinct))
    # A known word stays one id; an unknown one becomes as many as it has pieces.
    sizes = np.ones(len(tokens.ids), np.int64)
    sizes[positions] = np.diff(offsets)[which]
    # Of ids 7 1 8 whose second word has the pieces -3 -5, sizes are 1 2 1 and the new ids 7 -3 -5 8.
    ids: Ids = np.repeat(tokens.ids, sizes)
    ends = offsets_of(sizes)
    ids[ranges(ends[positions], sizes[positions])] = pieces[ranges(offsets[which], sizes[positions])]
    return replace(tokens, ids=ids, sentences=ends[tokens.sentences], words=None)


def pieces_of(words: Sequence[str]) -> tuple[npt.NDArray[np.int32], Index]:
    """(pieces,) -1 and below, word after word, and (words + 1,) where those of each begin."""
    marked = [f"<{word[:LONGEST]}>" for word in words]
    counts = np.array([max(1, len(word) - RUN + 1) for word in marked], np.int64)
    runs = [word[low : low + RUN] for word, num in zip(marked, counts.tolist(), strict=True) for low in range(num)]
    # One row of code points per run; shorter runs end in zeros.
    codes = np.zeros((len(runs), RUN), np.uint64)
    for row, run in enumerate(runs):
        codes[row, : len(run)] = [ord(character) for character in run]
    hashed = np.zeros(len(runs), np.uint64)
    # Hash all runs at once, one character at a time.
    for column in codes.T:
        hashed = scrambled(hashed ^ column)
    return -1 - (hashed % np.uint64(PIECES)).astype(np.int32), offsets_of(counts)
