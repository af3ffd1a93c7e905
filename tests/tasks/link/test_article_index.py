"""The index of articles: what of an article most posts repeat."""

from __future__ import annotations

from ensue.data.posts import Articles
from ensue.records import Article
from ensue.tasks.link.article_index import heads


def test_heads_by_hand() -> None:
    found = heads(
        Articles.of([Article("One.\nTwo.\nThree.\nFour.", "a", "T"), Article("One.\nTwo.\nThree.\nFour.", "b"),
                     Article("", "c", "Only a title")])
    )  # fmt: skip
    assert found.to_list() == ["T\nOne.", "One.\nTwo.\nThree.", "Only a title"]
