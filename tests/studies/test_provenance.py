"""Where a figure comes from, without the places of a machine."""

from __future__ import annotations

import sys

import pytest

from ensue_studies.results import provenance


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/home/me/data", "data"),
        ("/data", "data"),
        ("../shared/links", "links"),
        ("~/models/mini", "mini"),
        ("cnn,ast,sbert=/home/me/mini,best", "cnn,ast,sbert=mini,best"),
        ("--json=../found/ast.json", "--json=ast.json"),
        ("studies/results/ast.json", "studies/results/ast.json"),
        ("--seeds", "--seeds"),
    ],
)
def test_of_paths_outside_the_name_alone_is_told(word: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ensue", "reproduce", word])
    assert provenance()["command"] == f"ensue reproduce {shown}"
