"""The floor: what may be suggested to others because enough people typed it, and what must never be.

A text may be shown if at least ``min_users`` users typed it, or at least so many typed each of its words; k-anonymity
in the sense of Samarati & Sweeney (1998), applied to queries. Whatever the counts, a text that looks personal is never
shown: an e-mail address (spelled out too), a URL with a query or a token, an IP address, a bank account, a payment
card, a phone number, a long secret, and long numbers.

**Numbers.** Six digits or more in one run are refused, whatever marks or spaces stand between them: that is where phone
numbers begin in most countries, and card and account numbers are longer. Three kinds of run pass, for they name
nobody and people type them all day: up to three years (``2026``, ``2024-2025``), a year beside one number of at most
two digits (``may 15 2026``, ``iphone 15 2026``), and round numbers (``1,000,000``). A date with day, month and year in
digits may be a birthday and does not pass. ``1 800`` alone has four digits and passes; with a number behind it, it does
not. Letters end a run (``windows 11 24h2``), so a card's digits are also looked for across them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.queries import Queries
from ensue.data.query_rows import WORDS, count_words
from ensue.data.query_rules import normalised
from ensue.data.query_tokens import SPECIAL, QueryTokenizer
from ensue.errors import DataError, SettingError
from ensue.vocabulary import FIRST

Mask = npt.NDArray[np.bool_]
FORMAT = 1
LONG = 6
"""Digits in one run that are too many."""
_CARD = range(13, 20)
_MAIL = r"gmail|googlemail|hotmail|outlook|yahoo|ymail|aol|icloud|gmx|protonmail|proton|yandex|qq|live|msn|web|mail"
_HOST = r"[\p{L}\p{N}-]+"
_NAMELESS = (
    r"www|https?|to|in|into|of|my|login|sign|open|create|the|new|free|account|email|mail|and|or|for|on|app|is|are|was|does"
    r"|do|how|use|using|with|from|at|get|a|an|your|vs|between|about|why|what"
)
_PERSONAL = "|".join(
    (
        r"[^\s@]@[^\s@]",
        rf"\S\s+@\s*{_HOST}\s*(?:\.|\sdot\s)|\S\s*@\s+{_HOST}\s*(?:\.|\sdot\s)",
        rf"\S\s*(?:[(\[{{<]\s*at\s*[)\]}}>]|\bat\b)\s*{_HOST}\s*(?:[(\[{{<]\s*dot\s*[)\]}}>]|\bdot\b)\s*\p{{L}}",
        rf"\S\s*(?:[(\[{{<]\s*at\s*[)\]}}>])\s*{_HOST}\s*\.\s*\p{{L}}",
        rf"\S\s+at\s+(?:{_MAIL})\s*\.\s*\p{{L}}",
        r"://\S*[?#;=@]\S",
        r"\b[\p{L}\p{N}-]+\.\p{L}{2,}\S*/\S*[?&=#;]",
        r"\b[\p{L}\p{N}-]+\.\p{L}{2,}/?\?[\p{L}\p{N}]",
        r"\b(?:token|key|secret|session_?id|auth|sig|signature)\s?=\s?\S|\b(?:password|passwd|pwd|pin)\s?[=:]\s?\S",
        r"\b\d{1,3}(?:\s?\.\s?\d{1,3}){3}\b",
        r"\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){4,7}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*::[0-9a-f:]*[0-9a-f]",
        r"\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b",
    )
)
# Of a paper's normalisation only letters and digits are left: "jane doe gmail com".
_BARE_MAIL = rf"\s(?:{_MAIL})\s?\.?\s?(?:com|net|org|de|fr|co|ru|me|ch)\b"
_RUN = re.compile(r"\d(?:[\W_]{0,4}\d)*")
_IBAN = re.compile(r"\b[a-z]{2}[\W_]?\d{2}(?:[\W_]?[a-z0-9]){11,30}")
_MIXED = r"[a-z0-9_+/=-]{16,}"
_CHANGES = 5
"""From letters to digits or back, within one word of 16 characters or more."""
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_ROUND = re.compile(r"[1-9]\d{0,2}(?:[ ,.'’]000)+|[1-9]0+")
# Joiners and marks that no one sees, or that only dress a digit up.
_DRESS = r"[\u200c\u200d\p{M}]"


@dataclass(frozen=True, eq=False)
class Floor:
    """What has been typed by enough people; made by :meth:`of` or :meth:`from_json`.

    Attributes:
        min_users: how many are enough.
        counted: ``users``, or ``sessions`` where the log knows no users.
        queries: the normalised queries that reach the floor and do not look personal.
        words: the words that reach it.
        left_out: how many distinct queries were below the floor, and how many looked personal.
    """

    min_users: int
    counted: str
    queries: frozenset[str]
    words: frozenset[str]
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, queries: Queries, min_users: int = 5) -> Floor:
        """The floor of a log; its sessions stand in for users where it has none.

        Args:
            queries: the sessions to learn from; users are counted over the whole file they were read from.
            min_users: how many people must have typed what is shown; 1 shows whatever was typed and is not personal.

        Raises:
            SettingError: below 1.
        """
        if min_users < 1:
            raise SettingError(f"min_users: {min_users} is below 1; 1 shows whatever was typed and is not personal")
        histories = queries.histories
        values, ids = pl.Series(histories.vocabulary.values, dtype=pl.String), histories.ids.astype(np.int64) - FIRST
        if len(queries.users):
            counts, words, word_counts = queries.users, queries.words, queries.word_users
        else:
            pairs = pl.DataFrame({"id": ids, "session": histories.sequence_index()}).unique()
            counts = np.bincount(pairs["id"].to_numpy(), minlength=len(values))
            words, word_counts = count_words(values, ids, histories.sequence_index())
        typed = np.bincount(ids, minlength=len(values)) > 0
        often, enough = values.filter(typed & (counts >= min_users)), words.filter(word_counts >= min_users)
        personal = looks_personal(often)
        return cls(
            min_users,
            "users" if len(queries.users) else "sessions",
            frozenset(often.filter(~personal)),
            frozenset(enough.filter(~looks_personal(enough))),
            {"below": int(typed.sum()) - len(often), "personal": int(personal.sum())},
        )

    @property
    def facts(self) -> dict[str, Any]:
        """What to say of it, for cards and folders."""
        stand_in = "" if self.counted == "users" else "; sessions stand in for users, whom the log does not know"
        return {
            "min_users": self.min_users,
            "counted": self.counted,
            "queries": len(self.queries),
            "words": len(self.words),
            **self.left_out,
            "rule": f"typed by at least {self.min_users} {self.counted}, or made of words that were{stand_in}",
        }

    def allowed(self, candidates: Sequence[str] | pl.Series) -> Mask:
        """(candidates,) whether each may be shown.

        Args:
            candidates: texts; they are normalised first, so that no odd spelling slips through.
        """
        texts = pl.Series("text", candidates, dtype=pl.String).to_frame()
        found = texts.select(plain=normalised(pl.col("text"))).with_columns(
            words=pl.col("plain").str.extract_all(WORDS)
        )
        often = [
            text in self.queries or (len(words) > 0 and self.words.issuperset(words))
            for text, words in found.iter_rows()
        ]
        return np.array(often, np.bool_) & ~looks_personal(found["plain"])

    def kept(self, values: Sequence[str] | pl.Series) -> Mask:
        """(values,) whether each was itself typed by enough people: only those may be stored with a model.

        A query made of frequent words may be shown if a model makes it up, but that somebody typed it is
        nobody else's affair.
        """
        return np.array([value in self.queries for value in values], np.bool_)

    def common(self, texts: pl.Series) -> pl.Series:
        """The texts without the words below the floor: what a vocabulary may be learned from, for it is stored too.

        Args:
            texts: (texts,) normalised queries.
        """
        lists = texts.str.split(" ")
        words = lists.explode().unique()
        rare = words.filter(~self._reached(words)).to_list()
        kept = lists.to_frame("words").select(pl.col("words").list.filter(~pl.element().is_in(rare)).list.join(" "))
        return kept.to_series().rename(texts.name)

    def word_ids_allowed(self, tokenizer: QueryTokenizer) -> Mask:
        """(tokens,) whether a text with this token can be allowed at all, so that a beam need not try it.

        A word is ruled out unless its parts reach the floor or a query that does has it. Pieces of words rule nothing
        out, and neither do the tokens that begin and end a query.
        """
        tokens = pl.Series(tokenizer.tokens, dtype=pl.String)
        if tokenizer.kind == "bpe":
            return np.ones(len(tokens), np.bool_)
        found = self._reached(tokens)
        found[: len(SPECIAL)] = True
        return found

    def _reached(self, words: pl.Series) -> Mask:
        """(words,) whether each word, by the spaces between them, may be part of what is shown."""
        shown = {word for query in self.queries for word in query.split(" ")}
        parts = words.str.extract_all(WORDS)
        fine = [word in shown or self.words.issuperset(own) for word, own in zip(words, parts, strict=True)]
        return np.array(fine, np.bool_) & ~looks_personal(words)

    def to_json(self) -> str:
        """All of it, in order of the alphabet; nothing below the floor is in it. Read back by :meth:`from_json`."""
        kept = {
            "format": FORMAT,
            "min_users": self.min_users,
            "counted": self.counted,
            "left_out": dict(self.left_out),
            "queries": sorted(self.queries),
            "words": sorted(self.words),
        }
        return json.dumps(kept, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str = "floor.json") -> Floor:
        """Read what :meth:`to_json` wrote.

        Raises:
            DataError: naming ``where`` (a file) and what is wrong.
        """
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); save the model again") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise DataError(f"{where}: is no floor of format {FORMAT}; save the model again with this version")
        lists = [found.get(name) for name in ("queries", "words")]
        texts = all(isinstance(kept, list) and all(isinstance(text, str) for text in kept) for kept in lists)
        low, left_out = found.get("min_users"), found.get("left_out")
        if not texts or not isinstance(low, int) or low < 1 or found.get("counted") not in ("users", "sessions"):
            raise DataError(
                f'{where}: expected lists of texts "queries" and "words", "min_users" of 1 or more, and "counted"; '
                "save the model again"
            )
        left_out = {str(reason): int(count) for reason, count in left_out.items()} if left_out else {}
        return cls(low, found["counted"], frozenset(found["queries"]), frozenset(found["words"]), left_out)


def looks_personal(texts: pl.Series) -> Mask:
    """(texts,) whether a text holds what must never be shown, however many typed it; see the module for the rules."""
    text = pl.col("text")
    mails, nameless = (text.str.count_matches(rf"(?:^|\s){name}{_BARE_MAIL}") for name in (r"\S+", f"(?:{_NAMELESS})"))
    frame = texts.cast(pl.String).to_frame("text").select(normalised(text).str.replace_all(_DRESS, ""))
    frame = frame.with_columns(
        found=text.str.contains(_PERSONAL) | (mails > nameless),
        doubtful=(text.str.count_matches(r"\d") >= LONG) | text.str.contains(_MIXED),
    )
    personal: Mask = frame["found"].to_numpy().copy()
    for row in np.flatnonzero(frame["doubtful"].to_numpy() & ~personal).tolist():
        own = frame["text"][row]
        personal[row] = _holds_number(own) or _holds_card(own) or _holds_account(own) or _holds_secret(own)
    return personal


def _holds_number(text: str) -> bool:
    """Whether a run of digits is long and none of the three kinds that pass."""
    for run in _RUN.findall(text):
        groups = re.findall(r"\d+", run)
        if sum(map(len, groups)) < LONG or _ROUND.fullmatch(run):
            continue
        others = [group for group in groups if not _YEAR.fullmatch(group)]
        years = len(groups) - len(others)
        short = years == 1 and len(others) == 1 and len(others[0]) <= 2
        if (others or years > 3) and not short:
            return True
    return False


def _holds_card(text: str) -> bool:
    """Whether all digits together have a card's length and pass its check (Luhn 1960)."""
    digits = [int(digit) for digit in re.findall(r"\d", text)]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(digits) in _CARD and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _holds_account(text: str) -> bool:
    """Whether an IBAN begins somewhere and ends with a word: its check is a remainder of 1 by 97 (ISO 13616)."""
    for match in _IBAN.finditer(text):
        ends = [end.start() for end in re.finditer(r"\b", match[0])]
        for end in ends:
            account = re.sub(r"[\W_]", "", match[0][:end])
            if len(account) >= 15 and sum(map(str.isdigit, account)) >= 8:
                moved = account[4:] + account[:4]
                if moved.isascii() and int("".join(str(int(letter, 36)) for letter in moved)) % 97 == 1:
                    return True
    return False


def _holds_secret(text: str) -> bool:
    """Whether letters and digits are mixed in one long word, as in keys and hashes."""
    for word in re.findall(_MIXED, text):
        changes = sum(one.isdigit() != other.isdigit() for one, other in pairwise(re.sub(r"[^a-z0-9]", "", word)))
        if changes >= _CHANGES:
            return True
    return False
