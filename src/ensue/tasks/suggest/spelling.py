"""Queries in tokens for answers: a few short texts at a time, whose words come again and again.

Taking a log apart pays for columns; for one question their set-up costs more than the work. No token reaches over a
space, so the tokens of each word are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest.batch import UNKNOWN

MOST = 200_000
"""Words that are kept; then all are forgotten."""


class Spelling:
    """Spells texts as ``task.spell_out`` does.

    Args:
        tokenizer: does it for words that are new.
    """

    def __init__(self, tokenizer: QueryTokenizer) -> None:
        self.tokenizer = tokenizer
        self.words: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each normalised text; one without any stands as a single unknown token."""
        parts = [text.split(" ") if text else [] for text in texts]
        distinct = dict.fromkeys(chain.from_iterable(parts))
        if len(self.words) + len(distinct) > MOST:
            self.words = {}
        spelled = self.words
        new = [word for word in distinct if word not in spelled]
        spelled.update(zip(new, self.tokenizer.spell(new), strict=True))
        return [[*chain.from_iterable(spelled[word] for word in own)] or [UNKNOWN] for own in parts]
