"""Counts of many texts, some at a time, beside counts of all at once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ensue.text import lexical as lexical_module
from ensue.text.lexical import KINDS, Frequencies, Kind, Lexical


def test_joined_by_hand() -> None:
    first = Frequencies(np.array([3, 7], np.uint64), np.array([1, 1]), 1)
    second = Frequencies(np.array([7, 9], np.uint64), np.array([2, 1]), 3)
    found = first.joined(second)
    assert (found.terms.tolist(), found.seen.tolist(), found.num) == ([3, 7, 9], [1, 3, 1], 4)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_any_size_count_the_same(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    texts = pl.Series([" ".join(f"word{n}" for n in random.zipf(1.5, random.integers(0, 9)) % 50) for _ in range(60)])
    texts = pl.concat([texts, pl.Series([None, "", "x" * 400], dtype=pl.String)])
    lexical = Lexical(kind)
    keys, counts = np.unique(lexical.terms_of(texts)[1], return_counts=True)
    for name, size in (("_TEXTS", 7), ("_CHARACTERS", 50), ("_MERGED", 3)):
        monkeypatch.setattr(lexical_module, name, size)
    found = lexical.frequencies(texts)
    assert found.num == len(texts)
    np.testing.assert_array_equal(found.terms, keys)
    np.testing.assert_array_equal(found.seen, counts)


def test_texts_observed_twice_count_twice_and_none_counts_nothing() -> None:
    lexical = Lexical("words")
    lexical.take(lexical.frequencies(pl.Series([], dtype=pl.String)))
    assert (lexical.num_seen, len(lexical.terms)) == (0, 0)
    for _ in range(2):
        lexical.take(lexical.frequencies(pl.Series(["ferry ferry night", "night"])))
    assert lexical.num_seen == 4
    assert sorted(lexical.seen.tolist()) == [2, 4]
