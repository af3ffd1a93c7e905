"""Trees of phrases, ``(3 (2 It) (4 works))``: every phrase of a sentence with its label."""

from __future__ import annotations

import re

from ensue.errors import DataError
from ensue.lines import quoted

_TREE = re.compile(r"\s*\([^\s()]+ +(\(|[^()]+\)\s*$)")
_PIECES = re.compile(r"[()]|[^\s()]+")


def is_tree(line: str) -> bool:
    """Whether a line begins as a tree does."""
    return bool(_TREE.match(line))


def phrases_of(line: str, where: str) -> list[tuple[str, str]]:
    """(text, label) of every phrase of a tree, the whole sentence first.

    Raises:
        DataError: parentheses that do not match, or a phrase without a label or without words.
    """
    pieces = _PIECES.findall(line)
    words: list[str] = []
    spans: list[tuple[str, int]] = []
    ends: dict[int, int] = {}
    unclosed: list[int] = []
    for before, piece in zip(["", *pieces], pieces, strict=False):
        if piece == "(":
            if before == "(" or (spans and not unclosed):
                raise DataError(
                    f"{where}: {'a phrase has no label' if unclosed else 'two trees'}; write one tree per line"
                )
            unclosed.append(len(spans))
            spans.append(("", len(words)))
        elif not unclosed:
            raise DataError(f"{where}: {quoted(piece)} is outside the tree; is there one parenthesis too many?")
        elif piece == ")":
            phrase = unclosed.pop()
            if spans[phrase][1] == len(words) or before == "(":
                raise DataError(f"{where}: a phrase has no words; write (label word) or (label (…) (…))")
            ends[phrase] = len(words)
        elif before == "(":
            spans[-1] = (piece, len(words))
        else:
            words.append(piece.replace("\\/", "/").replace("\\*", "*"))
    if unclosed or not spans:
        raise DataError(f"{where}: a parenthesis is not closed; write one complete tree per line")
    return [(" ".join(words[start : ends[phrase]]), label) for phrase, (label, start) in enumerate(spans)]
