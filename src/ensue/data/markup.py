"""HTML that was left in texts, stripped to words; and texts that hold nothing but links."""

from __future__ import annotations

from html import unescape
from html.parser import HTMLParser

import polars as pl

_BLOCKS = """address article aside blockquote br dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr li
main nav ol p pre section table td th tr ul"""
_INLINE = """a abbr audio b big body button cite code del em embed font form head html i iframe img input ins kbd
label link mark meta noscript object picture q s samp script small source span strike strong style sub sup svg tbody
thead time title tt u var video"""
_BREAKING = frozenset(_BLOCKS.split())
_KNOWN = _BREAKING | frozenset(_INLINE.split())
_SILENT = frozenset(("script", "style", "noscript", "head", "svg"))
_TAG = rf"(?i)</?(?:{'|'.join(sorted(_KNOWN, key=len, reverse=True))})(?:\s[^<>]*|/)?>|<!--"
_ENTITY = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});"
LINKS = r"(?i)\bhttps?://\S+|\bwww\.\S+"
MENTIONS = r"(?:^|[^\w@])@[\w.-]+"


def strip_markup(texts: pl.Series) -> tuple[pl.Series, int]:
    """Texts without tags, comments, scripts and styles, their entities decoded, and how many texts that changed.

    Only tags that HTML knows are taken for tags: ``<3``, ``a < b`` and ``<user>`` stay.
    """
    tagged = texts.str.contains(_TAG).fill_null(False)
    coded = texts.str.contains(_ENTITY).fill_null(False)
    places = (tagged | coded).arg_true()
    if not len(places):
        return texts, 0
    marked = texts.gather(places)
    plain = pl.Series(
        [_words(text) if tag else unescape(text) for text, tag in zip(marked, tagged.gather(places), strict=True)]
    )
    return texts.clone().scatter(places, plain), int((plain != marked).sum())


def only_links(texts: pl.Series) -> pl.Series:
    """(texts,) whether a text holds links, and beside them nothing but mentions, spaces and marks."""
    linked = texts.str.contains(LINKS)
    rest = texts.str.replace_all(LINKS, " ").str.replace_all(MENTIONS, " ")
    return linked & ~rest.str.contains(r"[\p{L}\p{N}]")


class _Stripper(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _KNOWN:
            self.pieces.append(self.get_starttag_text() or "")
        self.silent += tag in _SILENT
        if tag in _BREAKING:
            self.pieces.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.silent -= tag in _SILENT

    def handle_endtag(self, tag: str) -> None:
        self.silent = max(0, self.silent - (tag in _SILENT))
        if tag in _BREAKING:
            self.pieces.append("\n")
        if tag not in _KNOWN:
            self.pieces.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.pieces.append(data)


def _words(text: str) -> str:
    stripper = _Stripper()
    stripper.feed(text)
    stripper.close()
    lines = (" ".join(line.split()) for line in "".join(stripper.pieces).split("\n"))
    return "\n".join(line for line in lines if line)
