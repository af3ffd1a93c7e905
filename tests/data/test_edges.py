"""True edges: lists as people keep them, and what is said where a file is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensue import DataError
from ensue.data.edges import read_edges

PAIRS = {("ann", "bob"), ("bob", "cy d")}


@pytest.mark.parametrize(
    "text",
    [
        "ann\tbob\nbob\tcy d\n",
        "from,to\nann,bob\nbob,cy d\n",
        "\ufeffWeight;Source;Target\r\n0.5;ann;bob\r\n\r\n1;bob;cy d\r\n",
        'follower,followed\nbob,ann\n"cy d",bob\n',  # who follows is who hears
        "ann\tbob\t0.5\nbob\tcy d\t1\nann\tbob\t2\n",
    ],
)
def test_edges_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "edges").write_text(text, encoding="utf-8", newline="")
    assert read_edges(tmp_path / "edges") == PAIRS


def test_spaces_part_where_nothing_else_does(tmp_path: Path) -> None:
    for edges in ("1 2 0.5\n2  3 0.25\n", "1.0 2.0 0.5\n2.0 3.0 0.25\n"):
        (tmp_path / "edges").write_text(edges)
        assert read_edges(tmp_path / "edges") == {("1", "2"), ("2", "3")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from\tto\n", "holds no edge; expected 'from to' on each line"),
        ("ann\tbob\nbob\n", ", line 2: 1 field; expected 'from to'"),
        ("ann\t\n", ", line 1: 2 fields; expected"),
        ('{"from": "ann"}\n', "is not a list of edges; expected"),
    ],
)
def test_what_is_no_list_of_edges(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "edges").write_text(text)
    with pytest.raises(DataError) as error:
        read_edges(tmp_path / "edges")
    assert said in str(error.value) and str(error.value).startswith(str(tmp_path / "edges"))
