"""Tokens of short texts, and constraints on the beam search: the k-anonymity threshold and the typed prefix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest.batch import FIRST, UNKNOWN
from ensue.tasks.suggest.prefix import PrefixRule
from ensue.tasks.suggest.privacy import Floor

MAX_TEXTS = 200_000
"""Texts and words whose tokens are cached; then all are computed again."""


class Spelling:
    """Splits texts as ``task.spell_out`` does; the tokens of words and of texts are cached.

    Args:
        tokenizer: splits words that are new.
    """

    def __init__(self, tokenizer: QueryTokenizer) -> None:
        self.tokenizer = tokenizer
        self.words: dict[str, list[int]] = {}
        self.texts: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each normalised text; one without any is a single unknown token. They must not be changed."""
        new = [text for text in dict.fromkeys(texts) if text not in self.texts]
        if len(self.texts) + len(new) > MAX_TEXTS:
            new = [*dict.fromkeys(texts)]
            self.texts = {}
            self.words = {}
        if new:
            lists = [text.split(" ") if text else [] for text in new]
            # Words repeat across texts: only new ones are cut into tokens.
            new_words = [word for word in dict.fromkeys(chain.from_iterable(lists)) if word not in self.words]
            self.words.update(zip(new_words, self.tokenizer.spell(new_words), strict=True))
            for text, words in zip(new, lists, strict=True):
                self.texts[text] = [*chain.from_iterable(self.words[word] for word in words)] or [UNKNOWN]
        return [self.texts[text] for text in texts]


class GenerationRules:
    """Constraints on generated tokens; what only a network needs is made when a network first asks for it.

    Args:
        floor: what may be shown.
        tokenizer: splits texts into the tokens that are generated.

    Attributes:
        spelling: the tokens of what is typed and looked up.
    """

    def __init__(self, floor: Floor, tokenizer: QueryTokenizer) -> None:
        self.floor = floor
        self.tokenizer = tokenizer
        self.spelling = Spelling(tokenizer)

    @cached_property
    def banned(self) -> npt.NDArray[np.bool_]:
        """(ids,) True for tokens that no text which may be shown can hold."""
        return ~self.floor.word_ids_allowed(self.tokenizer)

    @cached_property
    def prefixes(self) -> PrefixRule:
        """Which tokens continue a text."""
        return PrefixRule(spellings(self.tokenizer))


def spellings(tokenizer: QueryTokenizer) -> list[bytes]:
    """Return the text of each token: a word and a space, or the bytes of a subword."""
    if tokenizer.kind == "words":
        return [f"{token} ".encode() for token in tokenizer.tokens]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # Radford et al. 2019: other bytes are 256 and up
    hidden = (byte for byte in range(256) if byte not in set(printable))
    table = {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(hidden)}
    special = (b"" for _ in range(FIRST))
    return [*special, *(bytes(table[mark] for mark in token) for token in tokenizer.tokens[FIRST:])]
