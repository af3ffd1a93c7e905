"""Terms of a few plain texts beside the same texts in a column of many."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

from ensue.text import terms
from ensue.text.terms import character_terms, word_terms

MARKS = "‘’“”…–—•😀🚢"
BESIDE = "éŻ渡ก한ß\u00a0\u200d\ufe0f\x1c\x85"
"""What is not plain."""


def every(texts: pl.Series) -> list[np.ndarray]:
    return [*word_terms(texts), *word_terms(texts, cut=5), *character_terms(texts)]


@pytest.mark.parametrize("letters", [f"ab AB09_-'.,!@#\t\n\v\f\r {MARKS}", f"ab {BESIDE}{MARKS}"])
def test_few_texts_have_the_terms_of_many(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    texts = pl.Series(["".join(draw.choices(letters, k=draw.randrange(40))) for _ in range(300)] + ["", "the", None])
    few = [every(texts[low : low + 1]) for low in range(len(texts))]
    monkeypatch.setattr(terms, "_FEW_TEXTS", 0)
    for low, found in enumerate(few):
        for own, expected in zip(found, every(texts[low : low + 1]), strict=True):
            assert own.dtype == expected.dtype and own.tolist() == expected.tolist(), repr(texts[low])


def test_what_is_plain_is_read_by_patterns_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terms._plain(pl.Series([f"Ferry {MARKS}"])) == [f"ferry {MARKS}"]
    assert terms._plain(pl.Series([None], dtype=pl.String)) == [""]
    for letter in BESIDE:
        assert terms._plain(pl.Series([f"Ferry {letter}"])) is None, repr(letter)
    monkeypatch.setattr(terms, "_FEW", 3)
    assert terms._plain(pl.Series(["Ferry"])) is None
