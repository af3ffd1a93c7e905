"""HTML that was left in texts, stripped to words; and texts that hold nothing but links."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from html.parser import HTMLParser

import polars as pl

from ensue.forks import require_polars

# Elements that begin a new line, and those that stand within one.
_BLOCKS = """address article aside blockquote br dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr li
main nav ol p pre section table td th tr ul"""
_INLINE = """a abbr audio b big body button cite code del em embed font form head html i iframe img input ins kbd
label link mark meta noscript object picture q s samp script small source span strike strong style sub sup svg tbody
thead time title tt u var video"""
BREAKING = frozenset(_BLOCKS.split())
"""Elements that begin a new line."""
_KNOWN_TAGS = BREAKING | frozenset(_INLINE.split())
_SILENT = frozenset(("script", "style", "noscript", "head", "svg"))
_UNCLOSED = frozenset(("br", "dd", "dt", "hr", "img", "input", "li", "link", "meta", "p", "source", "td", "th", "tr"))
"""Elements that need no closing tag."""


def _names(elements: Iterable[str]) -> str:
    return "|".join(sorted(elements, key=len, reverse=True))  # the first that matches wins: h1 before h


_TAG = (
    rf"(?i)</(?:{_names(_KNOWN_TAGS)})\s*>|<(?:{_names(_UNCLOSED)})(?:\s[^<>]*)?/?>"
    rf"|<(?:{_names(_KNOWN_TAGS)})\s+[a-z-]+\s*=[^<>]*>|<!--"
)
"""A sign of HTML: ``</b>``, ``<br>``, ``<a href=``, but not ``<b>`` alone, which may be code (``List<b>``)."""
_ENTITY = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});"
_AMPERSAND = re.compile(rf"&(?!{_ENTITY[1:]})")
_CLOSED = re.compile(r"</([a-zA-Z][a-zA-Z0-9]*)\s*>")
_SMALL = 64
LINKS = r"(?i)\bhttps?://\S+|\bwww\.\S+"
MENTIONS = r"(?:^|[^\w@])@[\w.-]+"


def strip_markup(texts: pl.Series) -> tuple[pl.Series, int]:
    """Return texts without tags, comments, scripts and styles, their entities decoded, and how many that changed.

    Only tags that HTML knows are taken for tags, and those of inline elements only where they are closed: ``<3``,
    ``a < b``, ``<user>`` and ``List<i>`` stay. Tags whose brackets are entities themselves go too.
    """
    if len(texts) <= _SMALL and not any("<" in text or "&" in text for text in texts.to_list() if text is not None):
        return texts, 0
    require_polars()
    # Most texts have neither a tag nor an entity, and stay as they are; the others are parsed one by one.
    tagged = texts.str.contains(_TAG).fill_null(False)
    coded = texts.str.contains(_ENTITY).fill_null(False)
    rows = (tagged | coded).arg_true()
    if not len(rows):
        return texts, 0
    marked = texts.gather(rows)
    plain = pl.Series(
        [_words(text) if tag else _decoded(text) for text, tag in zip(marked, tagged.gather(rows), strict=True)]
    )
    # &lt;br&gt; is a tag once its entities are decoded.
    escaped = (~tagged.gather(rows) & plain.str.contains(_TAG)).arg_true()
    if len(escaped):
        plain = plain.scatter(escaped, pl.Series([_words(text) for text in plain.gather(escaped)]))
    return texts.clone().scatter(rows, plain), int((plain != marked).sum())


def _decoded(text: str) -> str:
    """Return a text with its entities decoded; ``&copy=2`` of an address is none."""
    return re.sub(_ENTITY, lambda entity: unescape(entity[0]), text)


def only_links(texts: pl.Series) -> pl.Series:
    """(texts,) whether a text holds links, and beside them nothing but mentions, spaces and marks."""
    linked = texts.str.contains(LINKS)
    remaining = texts.str.replace_all(LINKS, " ").str.replace_all(MENTIONS, " ")
    return linked & ~remaining.str.contains(r"[\p{L}\p{N}]")


class _Stripper(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.silent = 0
        # Only what is closed somewhere is a tag: <i> in List<i> is not.
        self.closed = {name.lower() for name in _CLOSED.findall(text)} | _UNCLOSED
        self.feed(_AMPERSAND.sub("&amp;", text))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_code = tag not in self.closed and not any(value is not None for _, value in attrs)
        if tag not in _KNOWN_TAGS or is_code:
            self.pieces.append(unescape(self.get_starttag_text() or ""))
            return
        self.silent += tag in _SILENT
        if tag in BREAKING:
            self.pieces.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.silent -= tag in _SILENT

    def handle_endtag(self, tag: str) -> None:
        self.silent = max(0, self.silent - (tag in _SILENT))
        if tag in BREAKING:
            self.pieces.append("\n")
        if tag not in _KNOWN_TAGS:
            self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.pieces.append(data)


def _words(text: str) -> str:
    return join_lines(_Stripper(text).pieces)


def join_lines(pieces: Iterable[str]) -> str:
    """Return pieces of text as one, with single spaces and without empty lines."""
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
