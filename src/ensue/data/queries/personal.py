"""Detection of possible personal data in queries: such a query is never shown, and none of its words counts.

An e-mail address (spelled out too), a URL with a query or a token, an IP address, a bank account, a payment card, a
phone number, a long secret, and long numbers.

**Numbers.** Six digits or more in one run are refused, whatever marks or spaces stand between them: that is where phone
numbers begin in most countries, and card and account numbers are longer. Three kinds of run pass, for they name
nobody and people type them all day: up to three years (``2026``, ``2024-2025``), a year beside one number of at most
two digits (``may 15 2026``, ``iphone 15 2026``), and round numbers (``1,000,000``). A date with day, month and year in
digits may be a birthday and does not pass. ``1 800`` alone has four digits and passes; with a number behind it, it does
not. Letters end a run (``windows 11 24h2``), so a card's digits are also looked for across them.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import polars as pl

from ensue.data.histories import Mask
from ensue.data.queries.rules import normalised

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
_HARMLESS = re.compile(r"[a-z0-9 '\".,?&!$%*+;_-]*")
_CLOSER = re.compile(rf"\bdot\b|\b(?:{_MAIL})|\d\s?\.\s?\d|\?[a-z0-9]|[a-z0-9'_+-]{{16}}")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_ROUND = re.compile(r"[1-9]\d{0,2}(?:[ ,.'’]000)+|[1-9]0+")
# Joiners and marks that no one sees, or that only dress a digit up.
_DRESS = r"[\u200c\u200d\p{M}]"


def is_harmless(text: str) -> bool:
    """Return whether a normalised text is certainly not personal: small ASCII letters, digits, common marks.

    Every rule here asks for another mark, a point between digits, a question mark before a letter, six digits, a long
    word, or a word of an address that is spelled out. ``False`` says nothing: look closely then.
    """
    if not _HARMLESS.fullmatch(text) or _CLOSER.search(text):
        return False
    return sum(map(str.isdigit, text)) < LONG


def looks_personal(texts: pl.Series) -> Mask:
    """(texts,) whether a text holds what must never be shown, however many typed it; see the module for the rules."""
    text = pl.col("text")
    mails, nameless = (text.str.count_matches(rf"(?:^|\s){name}{_BARE_MAIL}") for name in (r"\S+", f"(?:{_NAMELESS})"))
    frame = texts.cast(pl.String).to_frame("text").select(normalised(text).str.replace_all(_DRESS, ""))
    frame = frame.with_columns(
        found=text.str.contains(_PERSONAL) | (mails > nameless),
        doubtful=(text.str.count_matches(r"\d") >= LONG) | text.str.contains(_MIXED),
    )
    # Numbers are looked at one by one, but only where a text has many digits or long words.
    personal: Mask = frame["found"].to_numpy().copy()
    for row in np.flatnonzero(frame["doubtful"].to_numpy() & ~personal).tolist():
        query = frame["text"][row]
        personal[row] = _holds_number(query) or _holds_card(query) or _holds_account(query) or _holds_secret(query)
    return personal


def _holds_number(text: str) -> bool:
    """Return whether a run of digits is long and none of the three kinds that pass."""
    for run in _RUN.findall(text):
        groups = re.findall(r"\d+", run)
        if sum(map(len, groups)) < LONG or _ROUND.fullmatch(run):
            continue
        other_groups = [group for group in groups if not _YEAR.fullmatch(group)]
        years = len(groups) - len(other_groups)
        # A day, a month or a model next to one year.
        short = years == 1 and len(other_groups) == 1 and len(other_groups[0]) <= 2
        if (other_groups or years > 3) and not short:
            return True
    return False


def _holds_card(text: str) -> bool:
    """Return whether all digits together have a card's length and pass its check (Luhn 1960)."""
    digits = [int(digit) for digit in re.findall(r"\d", text)]
    # From the right, every second digit is doubled, and the digits of the product are added.
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(digits) in _CARD and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _holds_account(text: str) -> bool:
    """Return whether an IBAN begins somewhere and ends with a word: its check is a remainder of 1 by 97 (ISO 13616)."""
    for match in _IBAN.finditer(text):
        ends = [end.start() for end in re.finditer(r"\b", match[0])]
        for end in ends:
            account = re.sub(r"[\W_]", "", match[0][:end])
            if len(account) >= 15 and sum(map(str.isdigit, account)) >= 8:
                # Country and check digits go to the end, letters become 10 to 35.
                moved = account[4:] + account[:4]
                if moved.isascii() and int("".join(str(int(letter, 36)) for letter in moved)) % 97 == 1:
                    return True
    return False


def _holds_secret(text: str) -> bool:
    """Return whether letters and digits are mixed in one long word, as in keys and hashes."""
    for word in re.findall(_MIXED, text):
        # Words of a language change from letters to digits once or twice, keys all the time.
        changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(re.sub(r"[^a-z0-9]", "", word)))
        if changes >= _CHANGES:
            return True
    return False
