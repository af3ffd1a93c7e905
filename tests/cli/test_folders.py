"""Folders and patterns wherever a path is taken, in every task: at the command line and in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensue import DataError, History, NextEvent, PostLinker, QuerySuggester, TextClassifier, compare, read, split
from tests.cli.conftest import Ensue

SESSIONS = ["session,item,time\n", *(f"s{row // 2},{'ab'[row % 2]},{1_709_300_000 + row}\n" for row in range(40))]
TEXTS = [
    "text,label\n",
    *(f"a {'good' if row % 2 else 'bad'} film {row},{'yes' if row % 2 else 'no'}\n" for row in range(20)),
]
QUERIES = [
    "user,query,time\n",
    *(f"u{row // 2},{'ferry' if row % 2 else 'ferry times'},{1_709_300_000 + row}\n" for row in range(40)),
]
POSTS = [
    "id,text,about\n",
    *(f"p{row},the {'ferry' if row % 2 else 'bus'} again {row},{'f' if row % 2 else 'b'}\n" for row in range(20)),
]
STORIES = {"f": "The ferry sails at ten.", "b": "The bus stop moved to the bridge."}
FILES = {"next": SESSIONS, "classify": TEXTS, "suggest": QUERIES, "link": POSTS}
MODELS = {"next": "markov", "classify": "tfidf", "suggest": "most-frequent-next", "link": "tfidf"}
FIT: dict[str, Callable[[Any, Path], Any]] = {
    "next": lambda data, _: NextEvent("markov").fit(data),
    "classify": lambda data, _: TextClassifier("tfidf").fit(data),
    "suggest": lambda data, _: QuerySuggester("most-frequent-next").fit(data),
    "link": lambda data, stories: PostLinker("tfidf").fit(data, stories),
}


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    folder = tmp_path / "stories"
    folder.mkdir()
    for name, text in STORIES.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def write(folder: Path, lines: list[str], half: int = 11) -> Path:
    """Write a table as one file, and in two halves into a folder; return the folder."""
    halves = folder / "halves"
    halves.mkdir()
    (folder / "whole.csv").write_text("".join(lines))
    (halves / "a.csv").write_text("".join(lines[:half]))
    (halves / "b.csv").write_text("".join([lines[0], *lines[half:]]))
    return halves


def weights(estimator: Any, folder: Path) -> dict[str, bytes]:
    """Return the files of a model that do not name the data's path."""
    estimator.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".safetensors"}


@pytest.mark.parametrize("task", FILES)
def test_a_folder_and_a_pattern_give_the_model_of_one_file(task: str, tmp_path: Path, stories: Path) -> None:
    halves, fit = write(tmp_path, FILES[task]), FIT[task]
    expected = weights(fit(tmp_path / "whole.csv", stories), tmp_path / "expected")
    assert expected
    for name, data in (("folder", halves), ("pattern", f"{halves}/*.csv")):
        assert weights(fit(data, stories), tmp_path / name) == expected


@pytest.mark.parametrize("task", FILES)
def test_commands_read_a_folder_and_a_pattern(task: str, tmp_path: Path, stories: Path, ensue: Ensue) -> None:
    halves = write(tmp_path, FILES[task])
    more = ["--articles", str(stories)] if task == "link" else []
    model = str(tmp_path / "model")
    fitted = ensue("fit", task, str(halves), "-o", model, "--model", MODELS[task], *more)
    assert fitted.code == 0, fitted.lines
    assert ensue("check", f"{halves}/*.csv", "--json", *more).code == 0  # the task is detected by the first table
    scored = ensue("evaluate", model, f"{halves}/*.csv", "--json", *more)
    assert scored.code == 0, scored.lines
    whole = ensue("evaluate", model, str(tmp_path / "whole.csv"), "--json", *more)
    rows = [json.loads(result.out)["rows"] for result in (scored, whole)]
    for row in [*rows[0], *rows[1]]:
        row.pop("seconds_per_1000")
    assert rows[0] == rows[1]
    answers = [ensue("predict", model, str(data), "--json").out for data in (halves, tmp_path / "whole.csv")]
    assert answers[0] == answers[1] != ""


def test_sub_folders_of_texts_are_labels_and_a_folder_of_pages_are_stories(tmp_path: Path, stories: Path) -> None:
    for number in range(6):
        for label, text in (("pos", "a good film"), ("neg", "a bad film")):
            (tmp_path / "reviews" / label).mkdir(parents=True, exist_ok=True)
            (tmp_path / "reviews" / label / f"{number}.txt").write_text(f"{text} {number}")
    model = TextClassifier("tfidf").fit(tmp_path / "reviews")
    assert model.classes_.tolist() == ["neg", "pos"]
    assert model.predict(tmp_path / "reviews" / "pos").tolist() == ["pos"] * 6
    (stories / "t.html").write_text("<html><body><p>The tram is back.</p></body></html>")
    linker = PostLinker("tfidf").fit([("ferry", ["f"]), ("bus", ["b"]), ("tram", ["t"])] * 4, stories)
    assert linker.predict(f"{stories}/*.html", k=1).values == [["t"]]


def test_split_read_and_compare_take_folders(tmp_path: Path) -> None:
    halves = write(tmp_path, SESSIONS)
    assert len(read(halves)) == 20
    assert [len(part) for part in split(f"{halves}/*.csv", test=0.25)] == [15, 5]
    assert compare(["markov", "popularity"], halves, progress=False).task == "next"


def test_lists_of_queries_of_several_files_stay_apart(tmp_path: Path) -> None:
    for name, line in (("a", "ferry\tferry times\n"), ("b", "bus\tbus stop\n")):
        (tmp_path / f"{name}.tsv").write_text(line * 5)
    data = read(tmp_path, task="suggest")
    sessions = [record.values for record in data.records() if isinstance(record, History)]
    assert sessions == [("ferry", "ferry times")] * 5 + [("bus", "bus stop")] * 5


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": TEXTS[:3], "b.csv": ["review,label\n", "so good,yes\n"]}, "b.csv: its columns are text=review"),
        ({"a.csv": TEXTS[:3], "b.csv": ["text,label\n", '"so good,yes\n']}, "b.csv, line 2"),
        ({"a.csv": TEXTS[:3], "readme.txt": ["Coded in May.\n\nBy two."]}, "a.csv is a table and readme.txt"),
        ({".hidden.csv": TEXTS[:3]}, "holds no file"),
    ],
)  # fmt: skip
def test_files_that_do_not_go_together_are_refused_by_name(
    files: dict[str, list[str]], message: str, tmp_path: Path, ensue: Ensue
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, lines in files.items():
        (folder / name).write_text("".join(lines))
    with pytest.raises(DataError, match=message):
        TextClassifier("tfidf").fit(folder)
    refused = ensue("fit", "classify", str(folder), "-o", str(tmp_path / "model"))
    assert refused.code == 2 and message in refused.lines[-1]


def test_a_pattern_without_files_is_refused_in_every_task(tmp_path: Path, stories: Path) -> None:
    for task, fit in FIT.items():
        with pytest.raises(DataError, match="no file matches; check the pattern"):
            fit(f"{tmp_path}/*.{task}", stories)
