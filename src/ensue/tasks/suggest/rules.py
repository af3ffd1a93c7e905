"""Constraints on the beam search: no words below the k-anonymity threshold, and the typed prefix."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest.batch import FIRST
from ensue.tasks.suggest.prefix import PrefixRule
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.spelling import Spelling


class Rules(NamedTuple):
    """Constraints on generated tokens.

    Attributes:
        banned: (ids,) True for tokens that no text which may be shown can hold.
        prefixes: which tokens continue a text.
        spelling: the tokens of what is typed and looked up.
    """

    banned: Tensor
    prefixes: PrefixRule
    spelling: Spelling

    @classmethod
    def of(cls, floor: Floor, tokenizer: QueryTokenizer) -> Rules:
        """The rules of a floor and of the tokens it is written in."""
        banned = torch.from_numpy(~floor.word_ids_allowed(tokenizer))
        return cls(banned, PrefixRule(spellings(tokenizer)), Spelling(tokenizer))


def spellings(tokenizer: QueryTokenizer) -> list[bytes]:
    """Return the text of each token: a word and a space, or the bytes of a subword."""
    if tokenizer.kind == "words":
        return [f"{token} ".encode() for token in tokenizer.tokens]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # Radford et al. 2019: other bytes are 256 and up
    hidden = (byte for byte in range(256) if byte not in set(printable))
    table = {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(hidden)}
    special = (b"" for _ in range(FIRST))
    return [*special, *(bytes(table[mark] for mark in token) for token in tokenizer.tokens[FIRST:])]
