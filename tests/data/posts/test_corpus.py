"""Articles with their posts: two files or a folder, roles of each, parts, and every refusal word for word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ensue import Article, DataError, EnsueError, Post, SettingError
from ensue.data.kinds import kind_of
from ensue.data.posts.corpus import Corpus, is_corpus, read_corpus
from ensue.data.posts.dataset import Articles, Posts

ARTICLES: list[dict[str, object]] = [{"id": "a", "title": "T", "body": "one two"}, {"id": "b", "body": "three"}]
POSTS: list[dict[str, object]] = [
    {"id": 1, "text": "uno", "about": ["a"], "split": "train"},
    {"id": 2, "text": "dos", "about": ["b", "z"], "split": "test"},
    {"id": 3, "text": "tres", "split": "train"},
]


def lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "story"
    place.mkdir()
    lines(place / "articles.jsonl", ARTICLES)
    lines(place / "posts.jsonl", POSTS)
    return place


def test_a_folder_is_two_files(folder: Path) -> None:
    corpus, (articles, posts) = read_corpus(folder)
    same, _ = read_corpus(folder / "posts.jsonl", folder / "articles.jsonl")
    for found in (corpus, same):
        assert [post.id for post in found.posts.records()] == ["1", "2", "3"]
        assert found.pairs.tolist() == [[0, 0], [1, 1]]  # z is nowhere
        assert found.related.tolist() == [[True, False], [False, True], [False, False]]
    assert (articles.rows, posts.rows) == (2, 3)
    assert is_corpus(folder) and kind_of(folder) == "posts"


def test_parts_and_links(folder: Path) -> None:
    corpus, _ = read_corpus(folder)
    assert corpus.parts == {"train", "test"} and len(corpus.part("train")) == 2
    assert corpus.linked().posts.ids.to_list() == ["1", "2"] and len(corpus.linked().articles) == 2


def test_the_files_own_parts_are_the_split() -> None:
    articles = Articles.of([Article("x", "a"), Article("y", "b")])
    posts = Posts.of([Post(f"post {n} word{n}", str(n), ("a" if n % 2 else "b",)) for n in range(8)])
    train, valid, rule = Corpus(articles, posts).split(seed=1)
    assert {*train.posts.about} & {*valid.posts.about} == set() and len(train) + len(valid) == 8
    assert rule.endswith("split by article; near copies stay together")


def test_columns_of_either_file(tmp_path: Path) -> None:
    posts = tmp_path / "p.csv"
    posts.write_text("nr,says,links\n7,uno,A1\n")
    articles = tmp_path / "s.csv"
    articles.write_text("key,words,head,claim\nA1,one two,Title,It is so\n")
    columns = {
        "text": "says",
        "id": "nr",
        "about": "links",
        "body": "words",
        "article_id": "key",
        "article_title": "head",
    }
    corpus, _ = read_corpus(posts, articles, columns=columns)
    assert list(corpus.posts.records()) == [Post("uno", "7", ("A1",))]
    assert list(corpus.articles.records()) == [Article("It is so\none two", "A1", "Title")]


def test_collected_posts_are_known_by_their_shape(tmp_path: Path) -> None:
    path = lines(tmp_path / "p.ndjson", [{"uri": "at://x", "record": {"text": "hello"}}])
    assert kind_of(path) == "posts"
    assert kind_of(lines(tmp_path / "t.jsonl", [{"text": "fine", "label": "pos"}])) == "texts"


@pytest.mark.parametrize(
    ("read", "kind", "message"),
    [
        (
            lambda place: read_corpus(place / "posts.jsonl"),
            SettingError,
            "{place}/posts.jsonl: holds posts; give the file of articles with --articles FILE",
        ),
        (
            lambda place: ((place / "articles.jsonl").unlink(), read_corpus(place)),
            DataError,
            "{place}: no file is named articles or stories or news or corpus or documents or collection; give one, "
            "such as articles.jsonl, or name both files",
        ),
        (
            lambda place: ((place / "tweets.csv").write_text("text\na\n"), read_corpus(place)),
            DataError,
            "{place}: 2 files are named posts or tweets or comments or queries; give one, such as posts.jsonl, or name "
            "both files",
        ),
        (
            lambda place: read_corpus(place, columns={"label": "x"}),
            SettingError,
            "columns: role 'label' is not known; the roles are text, id, title, about, part",
        ),
    ],
)
def test_what_is_refused(folder: Path, read: Callable[[Path], object], kind: type[EnsueError], message: str) -> None:
    with pytest.raises(kind) as error:
        read(folder)
    assert str(error.value) == message.format(place=folder)
