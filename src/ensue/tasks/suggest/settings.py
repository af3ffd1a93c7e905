"""What all models of the task share: the privacy floor, how queries are cut, and how answers are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ensue.settings import Count, Settings, must_be, one_of
from ensue.tasks.suggest.decoding import Search

Size = Annotated[int, must_be("at least 1 and at most 100,000", lambda value: 1 <= value <= 100_000)]
Exponent = Annotated[float, must_be("at least 0 and at most 10", lambda value: 0 <= value <= 10)]


@dataclass(frozen=True, kw_only=True)
class SuggestSettings(Settings):
    """Settings that every model of the task knows."""

    min_users: Size = 5
    """The privacy floor: how many users (sessions, where the log knows no users) must have typed what is shown."""
    tokens: Annotated[str, one_of("auto", "words", "bpe")] = "auto"
    """What queries are cut into: words, or bpe (byte-level pieces, which leave no word unknown). ``auto`` takes words,
    and pieces where most queries are of a script that puts no space between words."""
    min_count: Size = 3
    """Of words: how often one must occur to have a vector; the others are read as one unknown word."""
    vocabulary_size: int = 8192
    """Of bpe: how many pieces at most."""
    turns: Annotated[int, must_be("at least 2", lambda value: value >= 2)] = 16
    """Queries that are read at once: longer sessions are learned in windows, and answered from their latest queries."""
    query_tokens: Size = 24
    """Tokens of a query that are read; the rest is cut."""
    suggestion_tokens: Annotated[int, must_be("at least 1 and at most 256", lambda value: 1 <= value <= 256)] = 12
    """Tokens that a suggestion has at most."""
    beam: Annotated[int, must_be("at least 1 and at most 1,000", lambda value: 1 <= value <= 1000)] = 5
    """Open beams in the search for suggestions; as many as are asked for, if that is more."""
    exponent: Exponent = 0.6
    """A suggestion's log-probability is divided by its length to this power."""
    repeats: bool = False
    """Whether a query that was typed in the session already may be suggested."""
    exhaustive: bool = False
    """Whether the search goes on until no open beam can come in: see :class:`ensue.tasks.suggest.decoding.Search`."""
    retrieved: Annotated[Count, must_be("at most 100,000", lambda value: value <= 100_000)] = 0
    """Queries of the log that are looked up for each answer and scored by the model beside those it writes."""
    first: Annotated[str, one_of("likeliest", "consensus")] = "likeliest"
    """Which suggestion leads: likeliest, or consensus: the one whose words most of what may come shares."""

    def search(self, k: int) -> Search:
        """How ``k`` suggestions are looked for."""
        beam = max(self.beam, k)
        return Search(
            beam=beam,
            keep=beam,
            longest=self.suggestion_tokens,
            exponent=self.exponent,
            repeats=self.repeats,
            exhaustive=self.exhaustive,
        )
