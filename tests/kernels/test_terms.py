"""Compiled runs of characters and pairs of words against those in NumPy."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ensue.text.terms import Terms, character_terms, pair_terms
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels

TEXTS = pl.Series([
    "Ferry fares rise as the ferry is late", "", "a", "  two  spaces,\ttab\nand line ", "ferry ferry ferry ferry",
    "港口 渡轮", "naïve café — naïve café", "the of and", "x" * 300,
])  # fmt: skip


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], TEXTS[:0], TEXTS[1:2]], ids=len)
@pytest.mark.parametrize("kind", ["runs", "pairs", "stems"])
def test_says_what_the_reference_says(texts: pl.Series, kind: str) -> None:
    def counted() -> Terms:
        return character_terms(texts) if kind == "runs" else pair_terms(texts, cut=5 if kind == "stems" else None)

    with using("off"):
        expected = counted()
    with using(HERE[-1]):
        found = counted()
    for column, other in zip(found, expected, strict=True):
        assert column.dtype == other.dtype
        np.testing.assert_array_equal(column, other)


def test_numbers_of_texts_go_on_where_a_block_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    with using(HERE[-1]):
        expected = [character_terms(TEXTS), pair_terms(TEXTS)]
        monkeypatch.setattr("ensue.text.terms._BLOCK", 8)
        found = [character_terms(TEXTS), pair_terms(TEXTS)]
    np.testing.assert_equal(found, expected)
