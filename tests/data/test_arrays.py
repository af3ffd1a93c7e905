"""A JSON array is read wherever JSON Lines are, with the same outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError
from ensue.data.kinds import kind_of
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import read_texts
from tests.data.files import write

FILES: dict[str, tuple[str, Callable[[Path], Any], list[dict[str, Any]]]] = {
    "histories": ("sequences", lambda path: [*read(path)[0].records()], [{"values": ["a", "b"]}, {"values": ["c"]}]),
    "events": (
        *("sequences", lambda path: [*read(path)[0].records()]),
        [{"session": 1, "item": "x ]", "time": 5}, {"session": 1, "item": "{y", "time": 6}],
    ),
    "texts": (
        *("texts", lambda path: [*read_texts(path)[0].records()]),
        [{"text": 'a "fine"\nfilm', "label": "pos"}, {"text": "\\", "label": "neg"}],
    ),
    "queries": (
        *("queries", lambda path: [*read_queries(path)[0].histories.records()]),
        [{"user": 1, "session": 1, "query": "films"}, {"user": 1, "session": 1, "query": "fine films"}],
    ),
    "posts": ("texts", lambda path: [*read_posts(path)[0].records()], [{"id": "1", "text": "a post", "about": ["7"]}]),
    "articles": ("texts", lambda path: [*read_articles(path)[0].records()], [{"id": "7", "body": "an article"}]),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("kind", "reader", "rows"), FILES.values(), ids=FILES.keys())
def test_as_json_lines(
    tmp_path: Path, kind: str, reader: Callable[[Path], Any], rows: list[dict[str, Any]], indent: int | None
) -> None:
    lines = write(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "lines.jsonl")
    listed = write(tmp_path, json.dumps(rows, indent=indent), "array.json")
    assert reader(listed) == reader(lines)
    assert kind_of(listed) == kind_of(lines) == kind


def test_the_report_says_so_and_messages_count_records(tmp_path: Path) -> None:
    path = write(tmp_path, '[\n {"values": ["a"]},\n\n {"values": ["b",\n "c"]}\n]\n')
    _, understood = read(path)
    assert understood.notes == ("a JSON array of 2 records: line numbers in messages are record numbers",)
    path = write(tmp_path, '[\n {"values": ["a"]},\n\n {"values": [""]}\n]\n')
    with pytest.raises(DataError, match=", line 2: a value is empty"):
        read(path)


@pytest.mark.parametrize("text", ['[{"values": ["a"]}', '[{"values": ["a"}]', '[{"values": ["a"]} {}]', '[{"a": 1},]'])
def test_a_broken_array_is_no_json(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=r"is not JSON .*; give JSON Lines, or one document"):
        read(path)


def frames(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What pandas writes of the rows by each orientation but ``records``."""
    numbers = [str(number) for number in range(len(rows))]
    cells = [[row[name] for name in rows[0]] for row in rows]
    return {
        "split": {"columns": [*rows[0]], "index": [*range(len(rows))], "data": cells},
        "index": dict(zip(numbers, rows, strict=True)),
        "columns": {name: dict(zip(numbers, [row[name] for row in rows], strict=True)) for name in rows[0]},
        "table": {
            "schema": {"fields": [{"name": name} for name in ("index", *rows[0])], "pandas_version": "1.4.0"},
            "data": [{"index": number, **row} for number, row in enumerate(rows)],
        },
    }


@pytest.mark.parametrize("orient", ["split", "index", "columns", "table"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(("kind", "reader", "rows"), FILES.values(), ids=FILES.keys())
def test_a_frame_of_pandas(
    tmp_path: Path,
    kind: str,
    reader: Callable[[Path], Any],
    rows: list[dict[str, Any]],
    indent: int | None,
    orient: str,
) -> None:
    lines = write(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "lines.jsonl")
    frame = write(tmp_path, json.dumps(frames(rows)[orient], indent=indent), "frame.json")
    assert reader(frame) == reader(lines)
    assert kind_of(frame) == kind_of(lines) == kind


def test_a_frame_keeps_labels_of_its_rows_and_is_longer_than_a_line_may_be(tmp_path: Path) -> None:
    rows = [["x" * 100, number] for number in range(90_000)]
    frame = {"columns": ["item", "time"], "index": ["s"] * len(rows), "data": rows}
    histories, report = read(write(tmp_path, json.dumps(frame)), columns={"session": "index"})
    assert len(histories.ids) == len(rows)
    assert report.notes[0] == "a JSON frame of 90,000 rows: line numbers in messages are record numbers"


@pytest.mark.parametrize("text", ['[["s", "a", 5], ["s", "b", 6]]', '[\n ["a", "b"],\n ["c"]\n]'])
def test_an_array_of_lists_names_no_columns(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="is a JSON array of lists, which names no columns; of pandas give orient="):
        kind_of(write(tmp_path, text))


def test_json_lines_that_begin_as_a_frame_does(tmp_path: Path) -> None:
    lines = '{"data": ["a"], "session": 1, "item": "x"}\n{"data": [], "session": 1, "item": "y"}\n'
    assert [record.values for record in read(write(tmp_path, lines))[0].records()] == [("x", "y")]
