"""What all models of the task share: the privacy floor, how queries are cut, and how answers are made."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.errors import SettingError
from ensue.settings import require
from ensue.tasks.suggest.decoding import Search
from ensue.tasks.suggest.sizes import require_sizes


@dataclass(frozen=True, kw_only=True)
class SuggestSettings:
    """Settings that every model of the task knows."""

    min_users: int = 5
    """The privacy floor: how many users (sessions, where the log knows no users) must have typed what is shown."""
    tokens: str = "words"
    """What queries are cut into: words, or bpe (byte-level pieces, which leave no word unknown)."""
    min_count: int = 3
    """Of words: how often one must occur to have a vector; the others are read as one unknown word."""
    vocabulary_size: int = 8192
    """Of bpe: how many pieces at most."""
    turns: int = 16
    """Queries that are read at once: longer sessions are learned in windows, and answered from their latest queries."""
    query_tokens: int = 24
    """Tokens of a query that are read; the rest is cut."""
    suggestion_tokens: int = 12
    """Tokens that a suggestion has at most."""
    beam: int = 5
    """Open beams in the search for suggestions; as many as are asked for, if that is more."""
    exponent: float = 0.6
    """A suggestion's log-probability is divided by its length to this power."""
    repeats: bool = False
    """Whether a query that was typed in the session already may be suggested."""
    exhaustive: bool = False
    """Whether the search goes on until no open beam can come in: see :class:`ensue.tasks.suggest.decoding.Search`."""
    retrieved: int = 0
    """Queries of the log that are looked up for each answer and scored by the model beside those it writes."""
    first: str = "likeliest"
    """Which suggestion leads: likeliest, or consensus: the one whose words most of what may come shares."""

    def __post_init__(self) -> None:
        names = ("min_users", "min_count", "query_tokens", "suggestion_tokens", "beam")
        require_sizes(self, *names)
        if self.tokens not in ("words", "bpe"):
            raise SettingError(f"tokens is {self.tokens!r}; choose from words, bpe")
        if self.first not in ("likeliest", "consensus"):
            raise SettingError(f"first is {self.first!r}; choose from likeliest, consensus")
        if self.turns < 2:
            raise SettingError(f"turns is {self.turns}; it must be at least 2, for nothing follows a single query")
        require(self, "0 or more", lambda value: value >= 0, "retrieved", "exponent")

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
