"""A layout is a row: its name, its shape and its reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensue.data.layouts import Layout, has
from ensue.data.posts import platforms
from ensue.data.posts.dataset import read_posts
from ensue.data.texts import formats, read_texts
from ensue.errors import SettingError


def test_a_layout_of_texts_is_a_row_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of fields need the shape of the first line and the names of the fields."""
    row = formats.in_fields("tickets", r"T-\d+ / ", "id queue text", " / ", label="queue")
    monkeypatch.setattr(formats, "LAYOUTS", (row, *formats.LAYOUTS))
    path = tmp_path / "tickets.txt"
    path.write_text("T-1 / billing / paid twice\nT-2 / login / no mail came\n")
    texts, report = read_texts(path)
    assert report.layout == "tickets"
    assert report.columns == {"text": "text", "label": "queue", "id": "id"}
    assert [(record.id, record.label, record.texts) for record in texts.records()] == [
        ("T-1", "billing", ("paid twice",)),
        ("T-2", "login", ("no mail came",)),
    ]


def test_a_layout_of_posts_is_a_row_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects need the fields that tell them from others, and the paths to their text and id."""
    row = Layout("forum", has("thread. posted"), platforms.at_paths("posted.body thread.title", "posted.number"))
    monkeypatch.setattr(platforms, "PLATFORMS", (row, *platforms.PLATFORMS))
    path = tmp_path / "forum.jsonl"
    posts: list[dict[str, object]] = [
        {"thread": {"title": "no ferry"}, "posted": {"body": "it is closed", "number": 7}},
        {"thread": {"title": "no ferry"}, "posted": {"number": 8}},
    ]
    path.write_text("".join(json.dumps(post) + "\n" for post in posts))
    read, report = read_posts(path)
    assert report.layout == "forum"
    assert read.texts.to_list() == ["it is closed", "no ferry"]
    assert read.ids.to_list() == ["7", "8"]


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ("id text", True),
        ("id title", False),
        ("title|text", True),
        ("user.name", True),
        ("user.age", False),
        ("user.", True),
        ("text.", False),
        ("kind=post", True),
        ("kind=page", False),
    ],
)
def test_shapes_of_objects(shape: str, *, fits: bool) -> None:
    """Every word of a shape holds: a name, one of two, a path, an object, or the beginning of a text."""
    fields = {"id": 1, "text": None, "user": {"name": "ann"}, "kind": "post#comment"}
    assert has(shape)(fields) is fits
    assert has("nothing", shape)(fields) is fits


def test_layouts_without_columns_refuse_them(tmp_path: Path) -> None:
    path = tmp_path / "labelled.txt"
    path.write_text("__label__good a fine film\n")
    with pytest.raises(SettingError, match="the layout fasttext has no named columns; remove --columns"):
        read_texts(path, columns={"text": "a"})
