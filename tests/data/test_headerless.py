"""Published tables without a header that are no logs, for the tasks that they are for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ensue import DataError
from ensue.data.kinds import is_articles, kind_of
from ensue.data.posts.dataset import read_articles
from ensue.data.queries import read_queries
from ensue.data.texts import read_texts

NEWS = "N1\tsports\tsoccer\tA match\tIt was won.\thttps://a.example/1.html\t[]\t[]\n" + (
    "N2\tnews\tnewsus\tA bridge\t\thttps://a.example/2.html\t[]\t[{}]\n"
)
TWEETS = b'"0","1467810369","Mon Apr 06 22:19:45 PDT 2009","NO_QUERY","ann","no caf\xe9, no ferry"\n' + (
    b'"4","1467810370","Mon Apr 06 22:19:46 PDT 2009","NO_QUERY","bob","a ""fine"" film"\n'
)
ORCAS = "1\tferry times\tD1\thttps://a.example/1\n2\tbridge\tD2\thttps://a.example/2\n"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "data"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_news_of_mind_are_articles(tmp_path: Path) -> None:
    path = write(tmp_path, NEWS)
    assert kind_of(path) == "posts" and is_articles(path)
    articles, report = read_articles(path)
    assert report.layout == "mind news"
    assert [(article.id, article.title, article.body) for article in articles.records()] == [
        ("N1", "A match", "It was won."),
        ("N2", "A bridge", "A bridge"),
    ]


def test_news_of_mind_are_texts_where_columns_say_so(tmp_path: Path) -> None:
    path = write(tmp_path, NEWS)
    expected = (
        "no column is recognised as the text; the columns are 'id', 'category', 'subcategory', 'title', 'abstract'"
    )
    with pytest.raises(DataError, match=expected):
        read_texts(path)
    texts, _ = read_texts(path, columns={"text": "title", "label": "category"})
    assert texts.labels is not None
    assert ([*texts.texts[0]], [*texts.labels]) == (["A match", "A bridge"], ["sports", "news"])


def test_tweets_of_sentiment140(tmp_path: Path) -> None:
    path = write(tmp_path, TWEETS)
    assert kind_of(path) == "texts"
    texts, report = read_texts(path)
    assert texts.labels is not None
    assert [*zip(texts.texts[0], texts.labels, strict=True)] == [("no café, no ferry", "0"), ('a "fine" film', "4")]
    assert "read as cp1252" in report.notes


def test_queries_of_orcas_have_no_sessions(tmp_path: Path) -> None:
    path = write(tmp_path, ORCAS)
    assert kind_of(path) == "queries"
    expected = re.escape("so sessions cannot be separated; the columns are 'qid', 'query', 'did', 'url'")
    with pytest.raises(DataError, match=expected):
        read_queries(path)


def test_columns_of_texts_are_numbered(tmp_path: Path) -> None:
    path = write(tmp_path, "7,a fine film,good\n8,a bad one,bad\n")
    texts, _ = read_texts(path, columns={"text": "2", "label": "3", "id": "1"})
    assert texts.labels is not None and [*texts.labels] == ["good", "bad"]
    assert [*texts.texts[0]] == ["a fine film", "a bad one"]
