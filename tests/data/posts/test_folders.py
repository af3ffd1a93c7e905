"""Folders and patterns of texts, web pages and JSON objects, read as one file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ensue import DataError
from ensue.data.kinds import is_articles, kind_of
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.texts import read_texts

STORY = "Bridge {0} closes\n\nThe council of Harrowmere closed bridge number {0}.\n"
PAGE = "<!doctype html><html><body><article><h1>Bridge {0} closes</h1><p>It is shut.</p></article></body></html>"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("files", "bodies"),
    [
        (
            {f"s{n}.txt": STORY.format(n) for n in (1, 2)},
            [f"The council of Harrowmere closed bridge number {n}." for n in (1, 2)],
        ),
        ({f"s{n}.html": PAGE.format(n) for n in (1, 2)}, ["It is shut.", "It is shut."]),
        (
            {f"s{n}.json": json.dumps({"title": f"Bridge {n} closes", "body": "Shut."}, indent=1) for n in (1, 2)},
            ["Shut.", "Shut."],
        ),
        ({"2025/s1.txt": STORY.format(1), "s2.md": STORY.format(2), ".hidden.txt": "no"}, None),
    ],
)
def test_stories_are_articles(tmp_path: Path, files: dict[str, str], bodies: list[str] | None) -> None:
    path = write(tmp_path, files)
    articles, report = read_articles(path)
    assert is_articles(path)
    assert ([*articles.ids], [*articles.titles]) == (["s1", "s2"], ["Bridge 1 closes", "Bridge 2 closes"])
    assert bodies is None or [*articles.bodies] == bodies
    assert "2 files read as one: line numbers in messages are text numbers" in report.notes


def test_a_pattern_names_some_of_the_files(tmp_path: Path) -> None:
    write(tmp_path, {"s1.txt": STORY.format(1), "s2.txt": STORY.format(2), "notes.csv": "a,b\n1,2\n"})
    assert [*read_posts(tmp_path / "s*.txt")[0].ids] == ["s1", "s2"]
    assert kind_of(tmp_path / "s*.txt") == "posts"
    expected = re.escape(
        "notes.csv is a table and s1.txt is none; the files of a folder or a pattern are read together where"
    )
    with pytest.raises(DataError, match=expected):
        read_posts(tmp_path)
    with pytest.raises(DataError, match="no file matches; check the pattern"):
        read_posts(tmp_path / "x*.txt")


def test_posts_in_a_file_each(tmp_path: Path) -> None:
    posts = {f"p{n}.json": json.dumps({"id": f"id{n}", "text": f"shut {n}", "author": "ann"}, indent=1) for n in (1, 2)}
    path = write(tmp_path, posts)
    assert kind_of(path) == "texts"
    assert [*read_posts(path)[0].ids] == ["id1", "id2"]
    assert [*read_texts(path, unlabelled=True)[0].texts[0]] == ["shut 1", "shut 2"]


def test_folders_are_labels(tmp_path: Path) -> None:
    path = write(tmp_path, {f"{label}/{n}.txt": f"a {label} film" for label in ("bad", "good") for n in (1, 2)})
    assert kind_of(path) == "texts"
    texts, report = read_texts(path)
    assert texts.labels is not None and texts.ids is not None
    assert [*texts.labels] == ["bad", "bad", "good", "good"]
    assert [*texts.ids] == ["bad/1.txt", "bad/2.txt", "good/1.txt", "good/2.txt"]
    assert "the label of a text is the name of its folder" in report.notes


def test_folders_of_logs_stay_logs(tmp_path: Path) -> None:
    assert kind_of(write(tmp_path / "a", {"1.txt": "1 2 3\n4 5 2\n"})) == "sequences"
    assert kind_of(write(tmp_path / "b", {"1.jsonl": '{"session": "s", "item": "a", "time": 1}\n'})) == "sequences"
    assert kind_of(write(tmp_path / "c", {"1.csv": "user,item,time\nu,i,1\n"})) == "sequences"
