"""Terms of a few plain texts beside the same texts in a column of many."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import polars as pl
import pytest

from ensue.data.scripts import COMMON
from ensue.text import terms, tokens
from ensue.text.terms import MAX_DISTANCE, STOP_WORDS, character_terms, pair_terms, word_terms
from ensue.text.tokens import split_words

MARKS = "‘’“”…–—•😀🚢🇸éŻßςж\u200d\ufe0f"
BESIDE = "渡ก한Σİ½\u0301\u00a0\x1c\x85🈀"
"""What is not plain."""


def every(texts: pl.Series) -> list[np.ndarray]:
    return [*word_terms(texts), *word_terms(texts, cut=5), *pair_terms(texts, cut=5), *character_terms(texts)]


@pytest.mark.parametrize("letters", [f"ab AB09_-'.,!@#\t\n\v\f\r {MARKS}", f"ab {BESIDE}{MARKS}"])
def test_few_texts_have_the_terms_of_many(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    texts = pl.Series(["".join(draw.choices(letters, k=draw.randrange(40))) for _ in range(300)] + ["", "the", None])
    few = [every(texts[low : low + 1]) for low in range(len(texts))]
    monkeypatch.setattr(terms, "_SMALL_TEXTS", 0)
    for low, found in enumerate(few):
        for own, expected in zip(found, every(texts[low : low + 1]), strict=True):
            assert own.dtype == expected.dtype and own.tolist() == expected.tolist(), repr(texts[low])


def test_what_is_plain_is_read_by_patterns_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terms._plain(pl.Series([f"Ferry {MARKS}"])) == [f"ferry {MARKS}".lower()]
    assert terms._plain(pl.Series([None], dtype=pl.String)) == [""]
    for letter in BESIDE:
        assert terms._plain(pl.Series([f"Ferry {letter}"])) is None, repr(letter)
    monkeypatch.setattr(terms, "_SMALL_BYTES", 3)
    assert terms._plain(pl.Series(["Ferry"])) is None


def test_every_common_character_is_read_alike_by_python_and_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    common = [chr(code) for code in range(0x20000) if re.fullmatch(f"[{COMMON}]", chr(code))]
    assert len(common) > 6000
    texts = pl.Series("text", [f"a{letter}b {letter}x, n't {letter} O{letter}" for letter in common])

    def blocks() -> list[list[object]]:
        columns = [texts[low : low + 500] for low in range(0, len(texts), 500)]
        words = [split_words(column, lower=lower).words.to_list() for column in columns for lower in (True, False)]
        return words + [list(map(np.ndarray.tolist, every(column))) for column in columns]

    few = blocks()
    for module in (terms, tokens):
        monkeypatch.setattr(module, "_SMALL_BYTES", -1)
    assert few == blocks()


def test_pairs_are_those_of_a_literal_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which words make the same pair, and how often, whatever the block."""
    draw, words = random.Random(1), ["ferry", "ferries", "night", "the", "of", "harbour", "map", "fares"]
    texts = [" ".join(draw.choices(words, k=draw.randrange(12))) for _ in range(60)] + ["", "the of the"]
    wanted = []
    for text in texts:
        own = text.split()
        pairs: Counter[frozenset[str]] = Counter()
        for place, word in enumerate(own):
            for other in own[place + 1 : place + 1 + MAX_DISTANCE]:
                if word[:5] != other[:5] and not {word, other} <= STOP_WORDS:
                    pairs[frozenset((word[:5], other[:5]))] += 1
        wanted.append(pairs)
    assert wanted[0] and not wanted[-1]

    def found(block: int) -> tuple[list[int], list[int], list[int]]:
        monkeypatch.setattr(terms, "_BLOCK", block)
        owners, keys, counts = pair_terms(pl.Series(texts), cut=5)
        return owners.tolist(), keys.tolist(), counts.tolist()

    owners, keys, counts = found(1 << 20)
    assert (owners, keys, counts) == found(7)
    assert owners == sorted(owners)
    for number, those in enumerate(wanted):
        cells = {key: count for whose, key, count in zip(owners, keys, counts, strict=True) if whose == number}
        assert sorted(cells.values()) == sorted(those.values())
    both = pair_terms(pl.Series(["ferry night", "nights ferry", "night the map", "map night"]), cut=5)
    assert both[0].tolist() == [0, 1, 2, 2, 2, 3]
    assert both[1][0] == both[1][1] and both[1][5] in both[1][2:5].tolist()
