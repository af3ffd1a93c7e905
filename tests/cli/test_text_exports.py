"""Labelled texts as tools and data sets export them: read as they are, or refused with the line and a way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ensue import Text, TextClassifier, read
from tests.cli.conftest import Ensue

Rows = list[tuple[str, str]]


def jsonl(*objects: object) -> str:
    return "".join(json.dumps(own) + "\n" for own in objects)


def task(text: str, *choices: str, control: str = "sentiment", field: str = "text", **more: Any) -> dict[str, Any]:
    """Return a task of Label Studio."""
    result = [{"from_name": control, "to_name": "text", "type": "choices", "value": {"choices": list(choices)}}]
    return {"id": 1, "data": {field: text}, "annotations": [{"result": result if choices else [], **more}]}


FILM: Rows = [("pos", "a fine film"), ("neg", "a dull film")]
READ: dict[str, tuple[str, str, Rows]] = {
    "doccano": (
        "x.jsonl",
        jsonl(
            {"id": 1, "text": "a fine film", "label": ["pos"], "Comments": []},
            {"id": 2, "text": "a dull film", "label": ["neg"]},
            {"id": 3, "text": "so so", "label": []},
        ),
        FILM,
    ),
    "doccano labels": (
        "x.jsonl",
        jsonl({"data": "a fine film", "labels": ["pos"]}, {"data": "a dull film", "labels": ["neg"]}),
        FILM,
    ),
    "label studio": (
        "x.json",
        json.dumps([task("a fine film", "pos"), task("a dull film", "neg"), task("so so")], indent=1),
        FILM,
    ),
    "label studio, other names": (
        "x.json",
        json.dumps([task("a fine film", "pos", control="x", field="body_of_review"),
                    task("a dull film", "neg", control="x", field="body_of_review")]),
        FILM,
    ),
    "label studio, cancelled": (
        "x.json",
        json.dumps([task("a fine film", "pos"), task("a dull film", "neg"), task("bad", "pos", was_cancelled=True)]),
        FILM,
    ),
    "label studio min": (
        "x.json",
        json.dumps([{"text": "a fine film", "sentiment": "pos"},
                    {"text": "a dull film", "sentiment": {"choices": ["neg"]}}]),
        FILM,
    ),
    "prodigy": (
        "x.jsonl",
        jsonl(
            {"text": "a fine film", "options": [{"id": "pos"}], "accept": ["pos"], "answer": "accept"},
            {"text": "a dull film", "options": [{"id": "pos"}], "accept": ["neg"], "answer": "accept"},
            {"text": "so so", "options": [{"id": "pos"}], "accept": ["neg"], "answer": "ignore"},
        ),
        FILM,
    ),
    "columns": ("x.json", json.dumps({"text": ["a fine film", "a dull film"], "label": ["pos", "neg"]}), FILM),
    "pandas": (
        "x.json",
        json.dumps({"text": {"0": FILM[0][1], "1": FILM[1][1]}, "label": {"0": "pos", "1": "neg"}}),
        FILM,
    ),
    "one list": (
        "x.json",
        json.dumps({"version": "1", "data": [{"text": text, "label": label} for label, text in FILM]}, indent=2),
        FILM,
    ),
    "SemEval stance": (
        "x.txt",
        "ID\tTarget\tTweet\tStance\n1\tAtheism\ta fine film\tpos\n2\tAtheism\ta dull film\tneg\n",
        FILM,
    ),
    "an empty text first": ("x.txt", "3\n3 \n4 a fine film\n3 a dull film\n4 fine\n3 dull\n", [
        ("3", ""), ("3", ""), ("4", "a fine film"), ("3", "a dull film"), ("4", "fine"), ("3", "dull")]),
    "an empty cell first": ("x.csv", "text,label\n,pos\na dull film,neg\n", [("pos", ""), ("neg", "a dull film")]),
    "an empty field first": ("x.tsv", "pos\t\nneg\ta dull film\n", [("pos", ""), ("neg", "a dull film")]),
    "an agreed label": (
        "x.csv",
        "text,coder1,coder2,label\na fine film,pos,neg,pos\na dull film,neg,neg,neg\n",
        FILM,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_read(ensue: Ensue, tmp_path: Path, name: str) -> None:
    file, text, rows = READ[name]
    path = tmp_path / file
    path.write_text(text)
    records = read(path, task="classify").records()
    assert [(record.label, record.texts[0]) for record in records if isinstance(record, Text)] == rows
    assert json.loads(ensue("check", path, "--json").out)["labels"].keys() == {label for label, _ in rows}


REFUSED: dict[str, tuple[str, str, str]] = {
    "spans": (
        "x.jsonl",
        jsonl({"text": "Ann met Bob", "label": [[0, 3, "PER"]]}),
        "{path}, line 1: field 'label' holds spans of the text, not a label; export labels of whole texts, or name "
        "another field with --columns label=…",
    ),
    "annotators disagree": (
        "x.json",
        json.dumps([{"data": {"text": "a"},
                     "annotations": task("a", "pos")["annotations"] + task("a", "neg")["annotations"]}]),
        "{path}, line 1: annotators give different labels in field 'sentiment': 'pos' and 'neg'; mark one annotation "
        "as the ground truth, or remove the text",
    ),
    "two controls": (
        "x.json",
        json.dumps([{"data": {"text": "a"}, "annotations": [
            {"result": [task("a", "pos")["annotations"][0]["result"][0],
                        task("a", "x", control="topic")["annotations"][0]["result"][0]]}]}]),
        "{path}, line 1: several controls give labels, 'sentiment', 'topic'; choose one with --columns label=sentiment",
    ),
    "rejected": (
        "x.jsonl",
        jsonl({"text": "a", "label": "pos", "answer": "reject"}),
        "{path}, line 1: the label 'pos' was rejected, so the correct label is unknown; remove the text, or use "
        "the answer as the label with --columns label=answer",
    ),
    "coders": (
        "x.csv",
        "id,text,coder_1,coder_2\n1,a,pos,neg\n",
        "{path}: the columns 'coder_1', 'coder_2' may all hold labels, one column per coder; choose one with "
        "--columns label=coder_1",
    ),
    "a second label": (
        "x.csv",
        "text,Label,Label2,Annotator A id\na,pos,neg,7\n",
        "{path}: the columns 'Label', 'Label2' may all hold labels, one column per coder; choose one with "
        "--columns label=Label",
    ),
    "parts": (
        "x.json",
        json.dumps({"train": [["a", "greet"], ["b", "leave"]], "val": [["c", "greet"]]}),
        "{path}: holds several parts; choose one with --split: train (2 texts), val (1 text)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(ensue: Ensue, tmp_path: Path, name: str) -> None:
    file, text, message = REFUSED[name]
    path = tmp_path / file
    path.write_text(text)
    refused = ensue("check", path)
    assert (refused.code, refused.lines[-1]) == (2, f"ensue: {message.format(path=path)}")


def test_a_stated_coder_is_the_label(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "coded.csv"
    path.write_text("id,text,coder_1,coder_2\n1,a,pos,neg\n2,b,neg,neg\n")
    found = json.loads(ensue("check", path, "--columns", "label=coder_1", "--json").out)
    assert found["labels"] == {"neg": 1, "pos": 1}


@pytest.mark.parametrize("indent", [None, 1])
def test_a_part_of_a_json_object_of_lists(ensue: Ensue, tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "clinc.json"
    path.write_text(json.dumps({"train": [["a", "greet"], ["b", "leave"]], "val": [["c", "greet"]]}, indent=indent))
    assert json.loads(ensue("check", path, "--split=train", "--json").out)["labels"] == {"greet": 1, "leave": 1}
    missing = ensue("check", path, "--split=test")
    assert missing.lines[-1] == (
        f"ensue: {path}: has no part 'test'; choose one with --split: train (2 texts), val (1 text)"
    )


def test_lists_in_parquet(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "listed.parquet"
    pl.DataFrame({"text": ["a", "b", "c"], "label": [["pos"], [], ["neg"]]}).write_parquet(path)
    assert json.loads(ensue("check", path, "--json").out)["labels"] == {"neg": 1, "pos": 1}
    pl.DataFrame({"text": ["a", "b"], "label": [["pos"], ["neg", "fun"]]}).write_parquet(path)
    checked = ensue("check", path, "--json")
    assert json.loads(checked.out)["labels"] == {"fun": 1, "neg": 1, "pos": 1}


def test_texts_to_predict_may_have_several_labels(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(jsonl({"text": "a", "label": ["pos"]}, {"text": "b", "label": ["neg", "fun"]}))
    TextClassifier("tfidf").fit(["a", "b"] * 9, ["pos", "neg"] * 9).save(tmp_path / "m")
    ran = ensue("predict", tmp_path / "m", path, "-o", tmp_path / "out.jsonl")
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    given = [json.loads(line) for line in path.read_text().splitlines()]
    assert [{name: row[name] for name in ("text", "label")} for row in rows] == given
    assert [row["prediction"] for row in rows] == ["pos", "neg"]


def test_chinese_is_read_character_by_character(ensue: Ensue, tmp_path: Path) -> None:
    """A phrase of known characters that was not seen as a whole was one unknown word."""

    def rows(offset: int) -> list[dict[str, str]]:
        return [{"text": f"第{offset + n}部电影{'好看' if n % 2 else '难看'}", "label": str(n % 2)} for n in range(40)]

    pl.DataFrame(rows(0)).write_csv(tmp_path / "train.csv")
    pl.DataFrame(rows(100)).write_csv(tmp_path / "test.csv")
    assert ensue("fit", "classify", tmp_path / "train.csv", "-o", tmp_path / "m", "--model=tfidf").code == 0
    found = json.loads(ensue("evaluate", tmp_path / "m", tmp_path / "test.csv", "--json").out)
    assert found["rows"][0]["accuracy"] == 1.0
    assert found["protocol"]["unknown"].startswith("0 (0.0 %) have no word in the vocabulary")
    (answer,) = ensue("predict", tmp_path / "m", "-", "--json", stdin="电影很难看").out.splitlines()
    assert (json.loads(answer)["in_vocabulary"], json.loads(answer)["events"]) == (4, 5)
