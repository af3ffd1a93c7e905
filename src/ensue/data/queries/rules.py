"""Rules of cleaning query logs: each rule is a field, and each row left out is counted by its reason.

In this order: rows without a query go, sessions are cut at pauses, queries over a cap go, then those that repeat the
one before them, and at last sessions that are too short or too long. A row that goes for its length still keeps its
session together, for somebody was there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import polars as pl

from ensue.data.sequences.sessions import GAP, check_gap
from ensue.errors import SettingError
from ensue.forks import require_polars
from ensue.lines import plural

Normalisation = Literal["plain", "paper"]
NOTHING = "-"
"""Stands in the AOL log where a query was taken out."""
# Control characters, and marks that no one sees. The joiners U+200C and U+200D stay: Persian, Hindi and families of
# emoji are spelled with them; so do the tags that make flags.
_UNSEEN = r"[\p{Cc}&&[^\s]]|[\u00AD\u061C\u180E\u200B\u200E\u200F\u202A-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB]"

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # of ASCII, those among them
_SPACE, _OTHER = re.compile(r"[\t-\r ]+"), re.compile(r"[^a-z0-9']+")


@dataclass(frozen=True, kw_only=True)
class QueryRules:
    """Which rows of a log are queries, and which of them make a session."""

    gap: float = GAP
    """Minutes without a query that end a session; 0 never ends one. Sessions that the file names are not cut."""
    min_queries: int = 2
    """Queries that a session must have; with fewer than 2 nothing follows anything. 0 keeps the place of a session of
    which the rules leave nothing, so that each has its answer."""
    max_queries: int | None = None
    """Queries that a session may have; a longer one is left out whole, as the paper does."""
    max_words: int | None = None
    """Words, by the spaces between them, that a query may have; a longer one is left out and its session stays."""
    max_characters: int = 500
    """Characters that a query may have: what is longer was pasted, not asked."""
    repeats: bool = False
    """True if a query that repeats the one before it is kept: result pages and clicks repeat it in most logs."""
    normalisation: Normalisation = "plain"
    """``plain``: Unicode NFKC, lower case, white space folded, control characters dropped. ``paper``: of that, letters
    (of any script), digits and apostrophes alone."""

    def __post_init__(self) -> None:
        check_gap(self.gap)
        for name in ("min_queries", "max_queries", "max_words", "max_characters"):
            if (value := getattr(self, name)) is not None and value < (minimum := int(name != "min_queries")):
                raise SettingError(f"{name} is {value}; it must be at least {minimum}")
        if self.max_queries is not None and self.max_queries < self.min_queries:
            raise SettingError(f"max_queries is {self.max_queries}, below min_queries, {self.min_queries}")
        if self.normalisation not in get_args(Normalisation):
            raise SettingError(
                f"normalisation: {self.normalisation!r} is not known; choose {' or '.join(get_args(Normalisation))}"
            )


PAPER_RULES = QueryRules(min_queries=3, max_queries=5, max_words=10, normalisation="paper")
"""Rules of the MTN paper (5.1): 3 to 5 queries a session, at most 10 words a query."""

_REASONS = {
    "no_query": ("row", "without a query: clicks, blanks, or a bare dash"),
    "no_user": ("row", "without a user, or without a session although other rows have one"),
    "words": ("query", "of more than {max_words} words"),
    "characters": ("query", "of more than {max_characters} characters"),
    "repeats": ("query", "identical to the previous one"),
    "short_sessions": ("session", "of fewer than {min_queries} queries"),
    "in_short_sessions": ("query", "in them"),
    "long_sessions": ("session", "of more than {max_queries} queries"),
    "in_long_sessions": ("query", "in those"),
}
_PLURAL = {"query": "queries"}


def sentences(dropped: Mapping[str, int], rules: QueryRules) -> list[str]:
    """One line for people a reason, those that never came up left out."""
    fields = vars(rules)
    reasons = ((count, *_REASONS[reason]) for reason, count in dropped.items() if count)
    return [f"{plural(count, noun, _PLURAL.get(noun, ''))} {text.format(**fields)}" for count, noun, text in reasons]


def normalise_ascii(text: str, normalisation: Normalisation = "plain") -> str:
    """:func:`normalise` for one ASCII text, as most queries are: columns take a hundred times as long to set up."""
    # The same steps as for columns; what they do beyond ASCII cannot occur.
    plain = _CONTROL.sub("", text).lower()
    return _SPACE.sub(" ", plain if normalisation == "plain" else _OTHER.sub(" ", plain)).strip(" ")


def normalise(texts: pl.Series, normalisation: Normalisation = "plain") -> pl.Series:
    """The texts as they are compared, learned and shown; doing it twice changes nothing.

    Args:
        texts: (texts,) any texts.
        normalisation: see :class:`QueryRules`.
    """
    require_polars()
    frame = texts.cast(pl.String).to_frame("text")
    return frame.select(normalised(pl.col("text"), normalisation)).to_series().rename(texts.name)


def normalised(text: pl.Expr, normalisation: Normalisation = "plain") -> pl.Expr:
    """:func:`normalise` as an expression."""
    seen = text.str.replace_all(_UNSEEN, "")
    # Lower case may come apart into a letter and a mark, which have a form of their own.
    plain = seen.str.normalize("NFKC").str.to_lowercase().str.normalize("NFKC").str.to_lowercase()
    if normalisation == "paper":
        plain = plain.str.replace_all("[’ʼ]", "'").str.replace_all(r"[^\p{L}\p{M}\p{N}']+", " ")
    return plain.str.replace_all(r"\s+", " ").str.strip_chars(" ")


def refused(texts: pl.Series, rules: QueryRules) -> pl.Series:
    """(texts,) why a normalised text is no query, or ``None`` where it is one."""
    characters = texts.str.len_chars() > rules.max_characters
    # Normalised texts have single spaces: words are one more than spaces.
    words = texts.str.count_matches(" ", literal=True) + 1 > (rules.max_words or rules.max_characters)
    missing = texts.is_null() | (texts == "") | (texts == NOTHING)
    reason = pl.when(missing).then(pl.lit("no_query")).when(characters).then(pl.lit("characters"))
    return pl.select(reason.when(words).then(pl.lit("words"))).to_series()
