"""The index of articles: what of an article most posts repeat."""

from __future__ import annotations

import polars as pl

from ensue import Article
from ensue.data.posts.dataset import Articles
from ensue.tasks.link.article_index import KINDS, ArticleIndex, heads


def test_heads_by_hand() -> None:
    found = heads(
        Articles.of([Article("One.\nTwo.\nThree.\nFour.", "a", "T"), Article("One.\nTwo.\nThree.\nFour.", "b"),
                     Article("", "c", "Only a title")])
    )  # fmt: skip
    assert found.to_list() == ["T\nOne.", "One.\nTwo.\nThree.", "Only a title"]


def test_words_and_character_n_grams_of_observed_texts_are_counted() -> None:
    texts = pl.Series(["ferry night", "ferry port"])
    index = ArticleIndex.of(Articles(texts, pl.Series(["", ""]), pl.Series(["a", "b"])))
    index.observe(pl.Series(["a ferry at night"] * 3))
    assert {name: own.num_seen for name, own in index.lexical.items()} == {
        name: 0 if name in ("pairs", "stems") else 3 for name in KINDS
    }
