"""One set of rows gives one set of metrics, whatever file it comes in and however its ids are written."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from ensue import evaluate, make, read
from tests.data.forms import FORMS

IDS = {"texts": pl.String, "whole numbers": pl.Int64, "floats": pl.Float64, "floats as texts": None}
WORDS = ("bridge", "ferry", "tram", "council", "river", "flood", "market", "night", "school", "harbour")


class Task(NamedTuple):
    """How the rows of a task are made and read, and a model that learns them in no time."""

    model: str
    settings: dict[str, Any]
    ids: tuple[str, ...]
    """The columns of ids."""
    frame: Callable[[], pl.DataFrame]


def events() -> pl.DataFrame:
    random = np.random.default_rng(1)
    starts, steps = random.integers(0, 9, 30), random.integers(1, 3, (30, 4)).cumsum(axis=1)
    items = 100 + (starts[:, None] + steps) % 9
    session = np.repeat(np.arange(30), 4)
    return pl.DataFrame({"session": session, "item": items.ravel(), "time": 1_700_000_000 + 60 * np.arange(120)})


def texts() -> pl.DataFrame:
    random = np.random.default_rng(2)
    labels = np.arange(80) % 2
    words = [f"{' '.join(random.choice(WORDS, 4))} {('fine', 'awful')[label]}" for label in labels]
    return pl.DataFrame({"id": np.arange(80), "text": words, "label": ["good" if own else "bad" for own in labels]})


def queries() -> pl.DataFrame:
    random = np.random.default_rng(3)
    first = random.integers(0, 5, 60)
    typed = [f"{WORDS[word]} {ending}" for word in first for ending in ("closed", "timetable")]
    session = np.repeat(np.arange(60), 2)
    return pl.DataFrame({"user": session % 20, "session": session, "query": typed})


def posts() -> pl.DataFrame:
    random = np.random.default_rng(4)
    about = np.arange(40) % 8
    words = [f"{WORDS[own]} {WORDS[(own + 1) % 10]} {' '.join(random.choice(WORDS, 3))} {own}" for own in about]
    return pl.DataFrame({"id": 500 + np.arange(40), "text": words, "about": 30 + about})


def articles() -> pl.DataFrame:
    bodies = [f"The {WORDS[own]} and the {WORDS[(own + 1) % 10]}. News of the {WORDS[own]}." for own in range(8)]
    return pl.DataFrame({"id": 30 + np.arange(8), "title": [WORDS[own] for own in range(8)], "body": bodies})


TASKS = {
    "next": Task("markov", {}, ("session", "item"), events),
    "classify": Task("tfidf", {}, ("id",), texts),
    "suggest": Task("most-frequent-next", {"min_users": "1"}, ("user", "session"), queries),
    "link": Task("bm25", {}, ("id", "about"), posts),
}


def written(frame: pl.DataFrame, ids: tuple[str, ...], way: str, form: str, path: Path) -> Path:
    """A table in a file of some form, its ids written in some way."""
    kind = IDS[way]
    plain = pl.col(*ids).cast(kind) if kind is not None else pl.format("{}.0", pl.col(*ids))
    columns = [plain] if kind is not None else [pl.format("{}.0", pl.col(name)).alias(name) for name in ids]
    path = path.with_suffix(f".{form}")
    FORMS[form](frame.with_columns(columns), path)
    return path


def rows_read(name: str, way: str, form: str, folder: Path) -> object:
    """The data of a task as its reader gives it."""
    task = TASKS[name]
    path = written(task.frame(), task.ids, way, form, folder / name)
    if name != "link":
        return read(path, task=name)
    return read((path, written(articles(), ("id",), way, form, folder / "articles")), task=name)


@cache
def trained(name: str) -> tuple[object, list[object]]:
    """A model of whole numbers in CSV, and its metrics on the same rows."""
    with TemporaryDirectory() as folder:
        data = rows_read(name, "whole numbers", "csv", Path(folder))
        model = make(name, TASKS[name].model, **TASKS[name].settings).fit(data)
        return model, metrics(model, data)


def metrics(model: Any, data: Any) -> list[object]:
    """The rows of the table without what was measured by the clock."""
    rows = evaluate(model, data).to_dict()["rows"]
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", IDS)
@pytest.mark.parametrize("name", TASKS)
def test_metrics_do_not_depend_on_how_ids_are_written(name: str, way: str, form: str, tmp_path: Path) -> None:
    model, expected = trained(name)
    assert metrics(model, rows_read(name, way, form, tmp_path)) == expected
