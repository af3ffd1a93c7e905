"""Queries in tokens for answers: a few short texts at a time, whose words come again and again.

Taking a log apart pays for columns; for one question their set-up costs more than the work. No token reaches over a
space, so the tokens of each word are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest.batch import UNKNOWN

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
