"""Several labels per text at the command line: updates, and labels that the model does not have."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue import Text
from ensue.tasks.classify.predictor import ClassifyPredictor
from tests.cli.conftest import Ensue
from tests.tasks.classify.test_label_sets import texts_of


def test_an_update_is_tested_and_refuses_new_labels(
    ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = texts_of(300)
    assert texts.labels is not None
    pl.DataFrame({"text": texts.texts[0], "labels": texts.labels.list.join(";")}).write_csv("posts.csv")
    new = {"text": ["a tram today", "tram and ferry", "the tram"] * 30, "labels": ["road", "road;sea", "road"] * 30}
    pl.DataFrame(new).write_csv("new.csv")
    pl.DataFrame({"text": ["a train", "a tram"], "labels": ["rail", "road;sea"]}).write_csv("other.csv")
    assert ensue("fit", "classify", "posts.csv", "-o", "m", "--model", "tfidf").code == 0
    before = ClassifyPredictor.load("m").scores(texts)
    refused = ensue("update", "m", "other.csv")
    assert refused.code == 2 and "the label 'rail' is not a label of the model (road, sea, sky)" in refused.err
    assert (ClassifyPredictor.load("m").scores(texts) == before).all()
    updated = ensue("update", "m", "new.csv")
    assert updated.code == 0 and "LRAP" in updated.out + updated.err
    model = ClassifyPredictor.load("m")
    tram, plane = model.predict([Text(("the tram",)), Text(("a plane",))])
    assert tram.labels == ("road",) and plane.choices[0].value == "sky"
    assert model.labels == ["road", "sea", "sky"]


def test_labels_that_hold_a_semicolon_are_written_with_another_delimiter(
    ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"sea": "sea; coast", "road": "road", "sky": "sky"}
    texts = texts_of(200)
    assert texts.labels is not None
    sets = [sorted(names[label] for label in labels) for labels in texts.labels]
    pl.DataFrame({"text": texts.texts[0], "topics": sets}).write_parquet("posts.parquet")
    assert ensue("fit", "classify", "posts.parquet", "-o", "m", "--model", "tfidf").code == 0
    assert ensue("predict", "m", "posts.parquet", "-o", "out.csv").code == 0
    cells = pl.read_csv("out.csv")["labels"].fill_null("").to_list()
    written = [sorted(filter(None, cell.split("|"))) for cell in cells]
    # What a model says of its training texts is nearly always their labels.
    assert sum(map(list.__eq__, written, sets)) > 190


def test_a_file_of_empty_sets_is_refused(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"texts": ["a ferry"], "label": []}\n' * 4)
    ran = ensue("fit", "classify", path, "-o", tmp_path / "m", "--model", "tfidf")
    assert ran.code == 2 and ran.err.endswith(
        f"ensue: {path}: no text has a label; give texts of at least two labels\n"
    )
