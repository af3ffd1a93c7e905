"""Closest sentences: counted once an article, and beside an index of all sentences made anew."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ensue.tasks.link import quotes
from ensue.tasks.link.quotes import KINDS, Quotes, sentences
from ensue.text.lexical import Lexical

TEXTS = [
    "The ferry adds night crossings. Fares fall in May. The harbour stays open.",
    "",
    "Trains fill at night. The tram does not run. Fares rise.",
]
POSTS = ["ferry at night", "fares!!", "qqq", "", "the tram and the harbour"]


def test_cosines_are_those_of_an_index_made_of_all_sentences() -> None:
    flat = [part for text in TEXTS for part in sentences(text)]
    wanted = []
    for kind in KINDS:
        lexical = Lexical(kind)
        lexical.add(pl.Series(flat))
        wanted.append(lexical.scores(pl.Series(POSTS)))
    found = Quotes(TEXTS)
    assert found.sentences == flat
    np.testing.assert_array_equal(found.cosines(pl.Series(POSTS)), np.mean(wanted, axis=0, dtype=np.float64))


@pytest.mark.parametrize("cells", [1, 13, 1 << 21])
def test_the_closest_of_the_named_article(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotes, "_CELLS", cells)
    found = Quotes(TEXTS)
    assert found.closest(pl.Series(POSTS), np.array([0, 2, 0, 0, 2])) == [
        "The ferry adds night crossings.",
        "Fares rise.",
        "",
        "",
        "The tram does not run.",
    ]
    assert found.closest(pl.Series(POSTS[:2]), np.array([1, 1])) == ["", ""]
    assert Quotes([]).closest(pl.Series([], dtype=pl.String), np.empty(0, np.int64)) == []
