"""Warnings about files whose ids a model hardly knows, because the two write them in different ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ensue.data.histories import Histories
from ensue.lines import plural, quoted
from ensue.vocabulary import FIRST, Vocabulary

MIN_KNOWN = 0.1
"""Fraction of the events whose item must be known; below it a file is likely to write its ids in another way."""
_MAX_COMPARED = 1000
_SPELLING = re.compile(r"[\s_-]|^0+(?=.)|\.0+$")
"""What two spellings of one id may differ by, case aside."""


def hardly_known(histories: Histories, vocabulary: Vocabulary, owner: str) -> str:
    """Return a warning with an id of each side where hardly any event is known; empty otherwise.

    Args:
        histories: of a file; not empty.
        vocabulary: the items that are known.
        owner: who knows them, such as ``the model``.
    """
    values = histories.vocabulary.values
    is_known = np.concatenate([np.zeros(FIRST, np.bool_), vocabulary.ids(values) >= FIRST])
    count = int(is_known[histories.ids].sum())
    if not len(vocabulary.values) or count >= MIN_KNOWN * len(histories.ids):
        return ""
    unknown = [value for value, known in zip(values, is_known[FIRST:], strict=True) if not known]
    known_example, unknown_example = examples(vocabulary.values, unknown)
    events = plural(len(histories.ids), "event")
    return (
        f"{owner} knows the item of {count:,} of {events} only: it knows items such as {quoted(known_example)}, and "
        f"this file has items such as {quoted(unknown_example)}; are the ids of both written in the same way?"
    )


def examples(known: Sequence[str], unknown: Iterable[str]) -> tuple[str, str]:
    """Return a known and an unknown id, two spellings of one id where there are such.

    Args:
        known: ids, at least one.
        unknown: ids, at least one.
    """
    spellings = {_SPELLING.sub("", value.lower()): value for value in [*unknown][:_MAX_COMPARED]}
    for value in known:
        if (other := spellings.get(_SPELLING.sub("", value.lower()))) is not None:
            return value, other
    return known[0], next(iter(spellings.values()))
