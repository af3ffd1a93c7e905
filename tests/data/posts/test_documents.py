"""A story that is a file of text or a web page: one article, and what else such a file may hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ensue import SettingError
from ensue.data.posts.dataset import Articles, read_articles

PAGE = """<!DOCTYPE html><html><head>{head}<title>Ferry | The Paper</title>
<script>var x = "<article>not this</article>";</script></head><body><nav><ul><li>Home</ul></nav>
<article><header><h1>Night ferry</h1><p>By Ann</p></header><p>The ferry sails at night,
the caf&eacute; owners said.<p>Crews<br>agree. 2 &lt; 3<aside>Read more</aside><svg><title>icon</title></svg></article>
<article><h2>A teaser</h2></article><footer>imprint</footer></body></html>"""


def read(path: Path, text: str | bytes) -> Articles:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_articles(path)[0]


def test_a_text_is_one_article_with_the_title_it_has(tmp_path: Path) -> None:
    found = read(tmp_path / "story.txt", "Ferry adds nights\r\n\r\nIt sails, at nine.\r\nCrews agree.\r\n")
    assert (found.ids[0], found.titles[0], found.bodies[0]) == (
        "story",
        "Ferry adds nights",
        "It sails, at nine.\nCrews agree.",
    )
    untitled = read(tmp_path / "other.md", "It sails, at nine.\nCrews; agree.\n")
    assert (untitled.titles[0], len(untitled), untitled.bodies[0].count("\n")) == ("", 1, 1)
    packed = read(tmp_path / "story.txt.gz", gzip.compress(b"It sails at nine.\n"))
    assert packed.bodies.to_list() == ["It sails at nine."]


@pytest.mark.parametrize(
    "text", ["id,body\n1,one\n2,two\n", "a1\tthe ferry sails\na2\tbread is baked\n", '{"body": "x"}\n{"body": "y"}\n']
)
def test_tables_under_the_name_of_a_text_stay_tables(tmp_path: Path, text: str) -> None:
    assert len(read(tmp_path / "articles.txt", text)) == 2


def test_of_a_page_the_article_is_read(tmp_path: Path) -> None:
    found = read(tmp_path / "page.html", PAGE.format(head=""))
    assert (found.ids[0], found.titles[0]) == ("page", "Night ferry")
    assert found.bodies[0] == "By Ann\nThe ferry sails at night, the café owners said.\nCrews\nagree. 2 < 3"
    stated = read(tmp_path / "page", PAGE.format(head='<meta property="og:title" content="Ferry &amp; night">'))
    assert stated.titles[0] == "Ferry & night" and stated.bodies[0].startswith("Night ferry\nBy Ann")


def test_a_page_without_an_article_is_read_whole(tmp_path: Path) -> None:
    found = read(tmp_path / "page.htm", "<html><body><nav>Home<p>The ferry sails.</nav><p>At nine.</body></html>")
    assert (found.titles[0], found.bodies[0]) == ("", "At nine.")
    inside = read(tmp_path / "page.htm", "<html><body><p>Menu<main><p>The ferry sails.</main></body></html>")
    assert inside.bodies[0] == "The ferry sails."


def test_a_page_says_its_encoding(tmp_path: Path) -> None:
    page = PAGE.format(head='<meta charset="iso-8859-1">').replace("&eacute;", "é")
    found = read(tmp_path / "page.html", page.encode("latin-1"))
    assert "café" in found.bodies[0]
    with pytest.raises(SettingError, match="encoding 'klingon' is not known"):
        read(tmp_path / "page.html", PAGE.format(head='<meta charset="klingon">'))
