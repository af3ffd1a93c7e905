"""Answers stand beside their rows: one a row, with its id or number, at the terminal and in files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ensue import TextClassifier
from tests.cli.conftest import Ensue, Logs

MARK = b"\xef\xbb\xbf"


@pytest.fixture(scope="session")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 labelled texts."""
    path = tmp_path_factory.mktemp("coded") / "coded.csv"
    path.write_text("text,label\n" + "".join(f"good w{n},yes\nbad w{n},no\n" for n in range(20)))
    return path


@pytest.fixture(scope="session")
def labels(coded: Path) -> Path:
    """A folder that knows good from bad."""
    folder = coded.parent / "labels"
    TextClassifier("tfidf").fit(coded).save(folder)
    return folder


SHEET = 'name,note,text,label\nann,"=1+1",good w1,\n\nbob,-3.5,bad w2,yes\n,,,\ncy,@me,,no\ndi,"two\nlines",good,\n'
"""Six rows: a blank line, one of commas alone, one without a text."""
EXPECTED = ["yes", None, "no", None, None, "yes"]


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def test_every_row_of_a_sheet_has_one_answer(ensue: Ensue, labels: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(SHEET)
    ran = ensue("predict", labels, sheet, "--json")
    assert ran.code == 0, ran.err
    answers = list(map(json.loads, ran.out.splitlines()))
    assert [answer["id"] for answer in answers] == ["1", "2", "3", "4", "5", "6"]
    assert [answer["choices"][0]["value"] if answer["choices"] else None for answer in answers] == EXPECTED
    shown = ensue("predict", labels, sheet)
    assert shown.out.count("no words, no answer") == 3


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.jsonl", "out.parquet"])
def test_a_file_keeps_all_columns_and_adds_its_own(ensue: Ensue, labels: Path, tmp_path: Path, name: str) -> None:
    sheet, out = tmp_path / "sheet.csv", tmp_path / name
    sheet.write_bytes(MARK + SHEET.encode())
    ran = ensue("predict", labels, sheet, "-o", out, "-k", "2")
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert ran.lines[-1] == f"wrote {out}: 6 answers"
    if name.endswith("v"):
        found = pl.read_csv(out, separator="\t" if name == "out.tsv" else ",")
    else:
        found = pl.read_parquet(out) if name == "out.parquet" else pl.read_ndjson(out)
    assert found.columns == [
        *("name", "note", "text", "label"),
        *("prediction", "probability", "prediction_2", "probability_2", "in_vocabulary", "events"),
    ]
    assert found["name"].to_list() == ["ann", None, "bob", None, "cy", "di"]
    assert found["prediction"].to_list() == EXPECTED
    assert found["label"].to_list() == [None, None, "yes", None, "no", None]
    assert found["events"].to_list() == [2, 0, 2, 0, 0, 1]
    texts = name.endswith(("csv", "tsv"))
    notes = ["=1+1", None, "-3.5", None, "@me", "two\nlines"]
    if texts:
        notes[0], notes[4] = "'=1+1", "'@me"
    assert found["note"].to_list() == notes
    assert out.read_bytes().startswith(MARK) == texts


def test_json_lines_become_columns_or_keep_their_objects(ensue: Ensue, labels: Path, tmp_path: Path) -> None:
    given: list[dict[str, Any]] = [
        {"text": "good w1", "n": 1, "more": {"a": [1]}},
        {"text": None, "n": 2},
        {"text": "bad", "prediction": "x"},
    ]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in given))
    assert ensue("predict", labels, source, "-o", tmp_path / "out.jsonl", "-k1").code == 0
    kept = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [{name: row[name] for name in was} for row, was in zip(kept, given, strict=True)] == given
    assert [row["ensue_prediction"] for row in kept] == ["yes", None, "no"]
    assert ensue("predict", labels, source, "-o", tmp_path / "out.csv", "-k1").code == 0
    assert [(row["text"], row["n"], row["more"], row["ensue_prediction"]) for row in table(tmp_path / "out.csv")] == [
        ("good w1", "1", '{"a": [1]}', "yes"), ("", "2", "", ""), ("bad", "", "", "no"),
    ]  # fmt: skip


def test_a_text_a_line_becomes_a_table(ensue: Ensue, labels: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("good w1\n\nbad\n")
    assert ensue("predict", labels, tmp_path / "plain", "-o", tmp_path / "out.csv", "-k1").code == 0
    found = [(row["text"], row["prediction"]) for row in table(tmp_path / "out.csv")]
    assert found == [("good w1", "yes"), ("", ""), ("bad", "no")]
    ran = ensue("predict", labels, "-o", tmp_path / "stdin.csv", "-k1", stdin="good w1\n\n")
    assert ran.code == 0 and [row["prediction"] for row in table(tmp_path / "stdin.csv")] == ["yes", ""]


def test_a_sequence_has_a_row_with_its_id(ensue: Ensue, model: Path, logs: Logs, tmp_path: Path) -> None:
    ran = ensue("predict", model, logs.test, "-o", tmp_path / "out.csv", "-k", "3")
    assert (ran.code, ran.out) == (0, ""), ran.err
    answers = [json.loads(line) for line in ensue("predict", model, logs.test, "-k3", "--json").out.splitlines()]
    rows = table(tmp_path / "out.csv")
    assert list(rows[0]) == [
        "id",
        *(f"{n}{e}" for e in ("", "_2", "_3") for n in ("prediction", "score")),
        "in_vocabulary",
        "events",
    ]
    assert [row["id"] for row in rows] == [answer["id"] for answer in answers]
    for row, answer in zip(rows, answers, strict=True):
        assert [row["prediction"], row["prediction_2"], row["prediction_3"]] == [c["value"] for c in answer["choices"]]
        assert float(row["score"]) == pytest.approx(answer["choices"][0]["score"])


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("sheet.csv", "-o {}: is read too, and would be lost; give another name"),
        ("linked.csv", "-o {}: is read too, and would be lost; give another name"),
        ("out.xlsx", "-o {}: the name must end in .csv, .tsv, .jsonl, .ndjson, .parquet"),
        ("none/out.csv", "-o {}: there is no folder {parent}; make it, or give another name"),
    ],
)
def test_nothing_is_lost(ensue: Ensue, labels: Path, tmp_path: Path, output: str, error: str) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(SHEET)
    (tmp_path / "linked.csv").hardlink_to(sheet)
    ran = ensue("predict", labels, sheet, "-o", tmp_path / output)
    place = tmp_path / output
    assert (ran.code, ran.lines) == (2, [f"ensue: {error.format(place, parent=place.parent)}"])
    assert sheet.read_text() == SHEET


def test_a_file_that_fails_half_way_leaves_none(ensue: Ensue, labels: Path, tmp_path: Path) -> None:
    ran = ensue("predict", labels, "-o", tmp_path / "out.csv", stdin='{"texts": ["good"]}\n{"texts": 5}\n')
    assert ran.code == 2 and "stdin, line 2" in ran.err and list(tmp_path.iterdir()) == []


def test_link_writes_who_when_and_how_many(ensue: Ensue, tmp_path: Path) -> None:
    (tmp_path / "story.jsonl").write_text(
        json.dumps({"id": "f", "title": "Ferry", "body": "A ferry left the harbour."})
    )
    post = {"author": {"uniqueId": "ann"}, "createTime": 1539202764, "stats": {"diggCount": 5}}
    lines = [
        {"nav_index": "1", "item_id": name, "source_platform": "tiktok.com", "data": {**post, "id": name, "desc": text}}
        for name, text in (("7", "a ferry leaves the harbour"), ("8", "=1+1 rain"))
    ]
    (tmp_path / "posts.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = ensue("link", tmp_path / "story.jsonl", tmp_path / "posts.ndjson", "-o", tmp_path / "out.csv")
    assert ran.code == 0 and ran.lines[-1] == f"wrote {tmp_path / 'out.csv'}: 2 posts", ran.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert list(rows[0])[-4:] == ["score", "article", "sentence", "copy_of"]
    assert (rows[0]["author"], rows[0]["likes"], rows[0]["sentence"]) == ("ann", "5", "A ferry left the harbour.")
    assert rows[1]["text"] == "'=1+1 rain"
