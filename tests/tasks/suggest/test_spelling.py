"""Words that are kept spell as whole columns do."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from ensue.data.queries.tokens import QueryTokenizer
from ensue.tasks.suggest import state
from ensue.tasks.suggest.batch import UNKNOWN
from ensue.tasks.suggest.dataset import spell_out
from ensue.tasks.suggest.state import Spelling

TEXTS = pl.Series("query", ["find boat", "buy boat", "find a red kite", "naïve café", "东京 天气"])


@pytest.mark.parametrize("kind", ["words", "bpe"])
@pytest.mark.parametrize("most", [200_000, 3])
def test_equals_the_spelling_of_columns(kind: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the caches are cleared between two calls."""
    monkeypatch.setattr(state, "MAX_TEXTS", most)
    tokenizer = QueryTokenizer.fit(TEXTS, kind=kind, min_count=1, size=300)  # type: ignore[arg-type]
    spell, asked = Spelling(tokenizer), ["find boat", "", "boat boat unseen", "café 东京", "find boat"]
    tokens, offsets = spell_out(tokenizer, pl.Series("query", asked))
    expected = [tokens[low:high].tolist() for low, high in pairwise(offsets.tolist())]
    for _ in range(2):
        assert spell(asked) == expected
        assert [spell([text])[0] for text in asked] == expected
    assert spell([""]) == [[UNKNOWN]] and spell([]) == []
    assert len(spell.texts) <= max(most, 6)
