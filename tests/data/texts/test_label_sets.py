"""Several labels per text are detected, reported, and refused where they may be one label."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ensue.data.kinds import kind_of
from ensue.data.texts import Texts, hold_out_texts, leaks, read_texts
from ensue.errors import DataError

SETS = [["joy", "love"], ["joy"], ["anger"], ["anger", "fear"], ["fear", "joy"], ["love"]]


def written(tmp_path: Path, name: str, content: str) -> Path:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def csv(values: list[str], column: str = "label") -> str:
    return f"text\t{column}\n" + "".join(f"text number {row}\t{value}\n" for row, value in enumerate(values))


@pytest.mark.parametrize("delimiter", [";", "|", ",", " ; "])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = written(tmp_path, "a.tsv", csv([delimiter.join(labels) for labels in SETS]))
    texts, report = read_texts(path)
    assert texts.multilabel
    assert texts.labels is not None
    assert texts.labels.to_list() == SETS
    assert report.columns == {"text": "text", "labels": "label"}
    assert f"several labels per text, 1.50 on average: '{delimiter.strip()}' between them" in report.notes


def test_lists_of_json_parquet_and_fasttext(tmp_path: Path) -> None:
    lines = [{"text": f"text {row}", "label": labels} for row, labels in enumerate(SETS)]
    pl.DataFrame(lines).write_parquet(tmp_path / "a.parquet")
    paths = [
        written(tmp_path, "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines)),
        tmp_path / "a.parquet",
        written(
            tmp_path, "a.txt", "".join(" ".join(f"__label__{label}" for label in labels) + " text\n" for labels in SETS)
        ),
    ]
    for path in paths:
        texts, report = read_texts(path)
        assert texts.labels is not None
        assert texts.labels.to_list() == SETS
        assert "several labels per text, 1.50 on average: lists" in report.notes


@pytest.mark.parametrize("column", ["labels", "genres"])
def test_lists_in_columns_named_after_several_labels(tmp_path: Path, column: str) -> None:
    lines = [{"text": f"text {row}", column: labels} for row, labels in enumerate(SETS)]
    pl.DataFrame(lines).write_parquet(tmp_path / "a.parquet")
    # Some programs write a list of one label as that label.
    lines[1][column] = "joy"
    for path in (tmp_path / "a.parquet", written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))):
        texts, report = read_texts(path)
        assert texts.labels is not None
        assert texts.labels.to_list() == SETS
        assert report.columns == {"text": "text", "labels": column}


@pytest.mark.parametrize("write", [json.dumps, str, lambda labels: str(labels).replace(",", "")])
def test_lists_that_are_written_as_text(tmp_path: Path, write: Callable[[list[str]], str]) -> None:
    texts, report = read_texts(written(tmp_path, "a.tsv", csv([*map(write, SETS), "[]"])))
    assert texts.labels is not None
    assert texts.labels.to_list() == [*SETS, []]
    assert "1 text without any label" in report.notes
    texts, _ = read_texts(written(tmp_path, "b.tsv", csv(["['joy']", "['love']", "['joy']"])))
    assert not texts.multilabel
    assert texts.distinct_labels() == ["joy", "love"]
    texts, _ = read_texts(written(tmp_path, "c.tsv", csv(["[sic]", "[sic]", "[sic] of all"])))
    assert texts.distinct_labels() == ["[sic]", "[sic] of all"]


def test_records_may_have_lists_of_labels(tmp_path: Path) -> None:
    records = [{"texts": [f"text {row}"], "label": labels} for row, labels in enumerate([*SETS, []])]
    texts, _ = read_texts(written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, records))))
    assert texts.labels is not None
    assert texts.labels.to_list() == [*SETS, []]


def test_a_delimiter_at_the_end_is_no_part_of_a_label(tmp_path: Path) -> None:
    texts, _ = read_texts(
        written(tmp_path, "a.tsv", csv(["".join(f"{label};" for label in labels) for labels in SETS]))
    )
    assert texts.labels is not None
    assert texts.labels.to_list() == SETS


def test_two_delimiters_in_one_column_are_refused(tmp_path: Path) -> None:
    values = ["joy;love", "joy", "anger|fear", "fear|joy", "anger;joy", "love"] * 2
    path = written(tmp_path, "a.tsv", csv(values))
    with pytest.raises(DataError, match=r"has labels between ';' and others between '\|'; write the same delimiter"):
        read_texts(path, columns={"labels": "label"})


def test_a_column_named_after_several_labels_may_hold_one_each(tmp_path: Path) -> None:
    texts, report = read_texts(written(tmp_path, "a.tsv", csv(["joy", "love", "joy"], "labels")))
    assert not texts.multilabel
    assert report.columns == {"text": "text", "label": "labels"}  # later files are read alike
    path = written(tmp_path, "b.tsv", "text\tlabel\ttags\na\tjoy\tx;y\nb\tlove\tx\n")
    assert read_texts(path)[1].columns == {"text": "text", "label": "label"}


def test_one_column_per_label_may_say_that_none_applies(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "id,comment_text,toxic,insult\n1,a b,0,1\n2,c d,1,1\n3,e f,0,0\n")
    texts, report = read_texts(path, columns={"text": "comment_text"})
    assert texts.labels is not None
    assert texts.labels.to_list() == [["insult"], ["toxic", "insult"], []]
    assert "labels are the columns with 0 and 1: 'toxic', 'insult'" in report.notes
    path = written(tmp_path, "b.csv", "id,text,toxic,score\n1,a b,0,1\n2,c d,1,7\n")
    assert read_texts(path)[0].labels is None


ONE_HOT = {"full_text": ["a b", "c d", "e f"], "toxic": [0, 1, 0], "insult": [1, 1, 0], "rare": [0, 0, 0]}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_one_column_per_label_in_every_kind_of_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    frame = pl.DataFrame(ONE_HOT)
    if ending == "parquet":
        frame.write_parquet(path)
    else:
        path.write_text(frame.write_csv() if ending == "csv" else frame.write_ndjson(), encoding="utf-8")
    assert kind_of(path) == "texts"
    texts, report = read_texts(path)
    assert texts.labels is not None
    assert texts.labels.to_list() == [["insult"], ["toxic", "insult"], []]
    assert report.columns == {"text": "full_text"}


def test_a_header_between_two_parts_leaves_one_column_per_label(tmp_path: Path) -> None:
    part = "id,text,toxic,insult\n1,a b,0,1\n2,c d,1,0\n"
    texts, _ = read_texts(written(tmp_path, "a.csv", part + part.replace("a b", "e f").replace("c d", "g h")))
    assert texts.labels is not None
    assert texts.labels.to_list() == [["insult"], ["toxic"]] * 2


def test_columns_of_0_and_1_beside_others_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "id,title,text,toxic,insult\n1,x,a b,0,1\n2,y,c d,1,0\n")
    texts, report = read_texts(path)
    assert texts.labels is None
    note = "the columns 'toxic', 'insult' hold 0 and 1; if they are labels, leave 'title' out of the file"
    assert note in report.notes


def test_one_label_with_a_comma_stays_one(tmp_path: Path) -> None:
    values = ["Science, Technology", "Sports", "Science, Technology", "Music; Dance", "Sports"]
    texts, _ = read_texts(written(tmp_path, "a.tsv", csv(values)))
    assert not texts.multilabel
    assert texts.labels is not None
    assert texts.labels.to_list() == values


def test_values_that_may_be_either_are_refused(tmp_path: Path) -> None:
    values = ["Arts, Film", "Arts, Music", "Sports", "Arts, Dance"]
    path = written(tmp_path, "a.tsv", csv(values))
    message = "may be one label or several; state --columns labels=label if a text has several labels, or label=label"
    with pytest.raises(DataError, match=message):
        read_texts(path)
    assert not read_texts(path, columns={"label": "label"})[0].multilabel
    labels = read_texts(path, columns={"labels": "label"})[0].labels
    assert labels is not None
    assert labels.to_list() == [["Arts", "Film"], ["Arts", "Music"], ["Sports"], ["Arts", "Dance"]]


def test_spellings_are_joined_within_sets(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", csv(["joy;love", "Joy", "anger", "anger;joy", "love;JOY", "joy"]))
    texts, report = read_texts(path)
    assert texts.labels is not None
    assert texts.labels.to_list() == [["joy", "love"], ["joy"], ["anger"], ["anger", "joy"], ["love", "joy"], ["joy"]]
    assert any("spellings of the same label are merged: 'joy', 'JOY' and 'Joy' as 'joy'" in w for w in report.warnings)


def test_sets_are_held_out_by_their_rarest_label() -> None:
    labels = pl.Series([["a"], ["a", "b"]] * 20 + [[]] * 10, dtype=pl.List(pl.String))
    texts = Texts((pl.Series([f"text {row}" for row in range(50)]),), labels)
    train, held_out, rule = hold_out_texts(texts, 0.2)
    assert (len(train), len(held_out)) == (40, 10)
    assert held_out.labels is not None
    assert sorted(map(len, held_out.labels.to_list())) == [0] * 2 + [1] * 4 + [2] * 4
    assert "stratified by label" in rule


def test_leaks_compare_sets_in_any_order() -> None:
    train = Texts((pl.Series(["x y", "z"]),), pl.Series([["a", "b"], ["a"]]))
    other = Texts((pl.Series(["X y", "z"]),), pl.Series([["b", "a"], ["b"]]))
    result = leaks(train, other)
    assert (result.shared, result.shared_disagree) == (2, 1)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "tsv"])
def test_an_empty_list_is_a_text_without_any_label_where_others_have_several(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"

    def read(sets: list[list[str] | None], columns: dict[str, str] | None = None) -> tuple[object, tuple[str, ...]]:
        frame = pl.DataFrame({"text": [f"text {row}" for row in range(len(sets))], "label": sets})
        if suffix == "parquet":
            frame.write_parquet(path)
        elif suffix == "jsonl":
            frame.write_ndjson(path)
        else:
            path.write_text(csv(["" if labels is None else json.dumps(labels) for labels in sets]), encoding="utf-8")
        texts, report = read_texts(path, columns=columns)
        assert texts.labels is not None
        return texts.labels.to_list(), report.notes

    labels, notes = read([*SETS, [], None])
    assert labels == [*SETS, []]
    assert "1 text without any label" in notes and "1 of 8 rows has no label: left out" in notes
    # Lists of at most one label: an empty one is a text that nobody has labelled yet.
    labels, notes = read([["joy"], ["love"], [], ["joy"]])
    assert labels == ["joy", "love", "joy"] and "1 of 4 rows has no label: left out" in notes
    labels, notes = read([["joy"], ["love"], [], ["joy"]], {"labels": "label"})
    assert labels == [["joy"], ["love"], [], ["joy"]] and "1 text without any label" in notes
