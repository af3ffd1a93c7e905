"""`ensue spreaders` as a journalist runs it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Ensue

ROWS = [("s1", "ann", 0), ("s1", "bob", 60), ("s1", "eve", 90), ("s2", "ann", 5), ("s2", "eve", 9), ("s3", "bob", 7)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "posts.csv"
    path.write_text("sequence,value,time\n" + "".join(f"{s},{v},{t}\n" for s, v, t in ROWS))
    return path


def test_it_counts_who_begins_and_who_is_followed(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    ran = ensue("spreaders", log, "-o", tmp_path / "t.csv", "--html", tmp_path / "t.html")
    assert ran.code == 0
    assert "ann" in ran.out and "counts and weights, not causes" in ran.out
    table = pl.read_csv(tmp_path / "t.csv")
    assert table.columns == [
        "value",
        "cascades",
        *(f"{m}{e}" for m in ("first", "followed") for e in ("", "_low", "_high")),
    ]
    assert table.select("value", "cascades", "first", "followed").rows() == [
        ("ann", 2, 2.0, 3.0),
        ("bob", 2, 1.0, 1.0),
        ("eve", 2, 0.0, 0.0),
    ]
    page = (tmp_path / "t.html").read_text()
    assert page.count('class="plotly-graph-div"') == 1 and "number of later users" in page
    found = json.loads(ensue("spreaders", log, "--json", "--order-by", "first", "--top", "1").out)
    assert [one["value"] for one in found["spreaders"]] == ["ann"]
    assert found["spreaders"][0]["first"]["total"] == 2.0


def test_a_model_says_whom_it_leaned_on_and_who_is_new_to_it(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    words = ("--model", "hidan", "--set", "epochs=1", "--set", "dim=4", "--set", "table_dim=4")
    learned = tmp_path / "learned.csv"
    learned.write_text(
        "sequence,value,time\n" + "".join(f"{s}-{n},{v},{t}\n" for n in range(20) for s, v, t in ROWS[:5])
    )
    assert ensue("fit", "next", learned, "-o", tmp_path / "model", *words).code == 0
    log.write_text(log.read_text() + "s4,new,1\ns4,ann,2\ns4,bob,3\n")
    ran = ensue("spreaders", log, "--folder", tmp_path / "model", "--html", tmp_path / "t.html")
    assert ran.code == 0
    assert "ratio to uniform" in ran.out
    assert "1 of 9 events are of people the model never saw" in ran.err
    assert (tmp_path / "t.html").read_text().count('class="plotly-graph-div"') == 2  # and a cascade along time
    found = json.loads(ensue("spreaders", log, "--folder", tmp_path / "model", "--json").out)
    credits = [one["credit"]["total"] for one in found["spreaders"]]
    assert credits == sorted(credits, reverse=True)
    assert (found["in_vocabulary"], found["events"]) == (8, 9)


def test_what_it_cannot_do_is_one_line(ensue: Ensue, log: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.csv"
    alone.write_text("sequence,value,time\na,x,1\nb,y,2\n")
    for words, line in (
        ([log, "--order-by", "credit"], "credit needs the attention of a model: give one with --folder"),
        ([log, "--top", "0"], "k is 0"),
        ([log, "-o", tmp_path / "t.pdf"], "the name must end in .csv"),
        ([log, "--html", tmp_path / "t.csv"], "the name must end in .html"),
        ([log, "--folder", tmp_path / "none"], "none"),
        ([alone], "alone.csv"),
        ([], "no data is named"),
    ):
        ran = ensue("spreaders", *words)
        assert ran.code == 2
        assert line in ran.err and ran.err.count("\n") <= 2
    assert not list(tmp_path.glob("t.*"))
