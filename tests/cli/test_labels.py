"""Labels that files spell differently: joined in one file, matched between a file and a model, and said so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import DataError, Text
from ensue.data.texts import Texts, read_texts
from ensue.data.texts.labels import label_key
from ensue.evaluation.comparison import evaluate
from ensue.predictor import make
from ensue.tasks.classify.predictor import ClassifyPredictor
from tests.cli.conftest import Ensue

WORDS = {0: ("dull", "boring", "bad"), 1: ("fine", "lovely", "great")}
NUMBERS = [0, 1] * 20


def texts_of(numbers: list[int]) -> list[str]:
    return [
        f"{WORDS[number][place % 3]} film {place} {WORDS[number][place % 2]}" for place, number in enumerate(numbers)
    ]


def write(path: Path, labels: list[Any], numbers: list[int] = NUMBERS) -> Path:
    """Write texts under labels of any type, in the format of the file's name."""
    frame = pl.DataFrame({"text": texts_of(numbers), "label": labels})
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".xlsx":
        frame.write_excel(path)
    elif path.suffix == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ClassifyPredictor:
    path = write(tmp_path_factory.mktemp("labels") / "train.csv", NUMBERS)
    predictor = make("classify", "tfidf")
    assert isinstance(predictor, ClassifyPredictor)
    for _ in predictor.fit(read_texts(path)[0]):
        pass
    return predictor


@pytest.fixture(scope="module")
def folder(model: ClassifyPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "numbers"
    model.save(folder)
    return folder


def test_keys_of_labels() -> None:
    keys = {"1": ["1", "1.0", "+1", " 1.00 ", "1.", "1.000000e+00"], "0": ["0", "-0.0", "0.0"], "-1": ["-1", "-1.0"]}
    keys |= {"yes": ["yes", "YES", " Yes "], "not sure": ["Not  sure"], "01": ["01"], "4.5": ["4.5"], "1e3": ["1e3"]}
    assert {key: {label_key(label) for label in labels} for key, labels in keys.items()} == {key: {key} for key in keys}


def test_spellings_in_one_file_are_joined(ensue: Ensue, tmp_path: Path) -> None:
    path = write(tmp_path / "coded.csv", [["No", "NO", "no", "no "][n % 4] if n % 2 else "Yes" for n in range(40)])
    warning = (
        "spellings of the same label are merged: 'NO' and 'no ' as 'NO'; rename labels that differ only in case or "
        "zeros but mean different things"
    )
    checked = json.loads(ensue("check", path, "--json").out)
    assert checked["labels"] == {"NO": 20, "Yes": 20}
    assert checked["warnings"][0] == checked["understood"]["warnings"][0] == warning
    assert f"warning: {warning}" in ensue("check", path).out
    fitted = ensue("fit", "classify", path, "-o", tmp_path / "model", "--model=tfidf")
    assert fitted.code == 0 and f"warning: {warning}" in fitted.lines


def test_the_most_frequent_spelling_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "coded.csv", ["Yes", "no"] * 12 + ["YES", "No"] * 2 + ["yes", "no"] * 6)
    texts, report = read_texts(path)
    assert texts.labels is not None
    assert set(texts.labels) == {"Yes", "no"}
    assert report.warnings == (
        "spellings of the same label are merged: 'no' and 'No' as 'no'; 'Yes', 'yes' and 'YES' as 'Yes'; rename "
        "labels that differ only in case or zeros but mean different things",
    )


@pytest.mark.parametrize(
    ("labels", "expected", "joined"),
    [
        ([0, 1] * 20, {"0", "1"}, 0),
        ([0.0, 1.0] * 20, {"0", "1"}, 0),
        ([4.5, 4.0] * 20, {"4.5", "4"}, 0),
        ([False, True] * 20, {"false", "true"}, 0),
        (["False", "True"] * 10 + ["0", "1.0"] * 10, {"0", "1"}, 1),
        (["False", "True", "2", "1"] * 10, {"False", "True", "2", "1"}, 0),
        (["01", "1"] * 20, {"01", "1"}, 0),
        (["NaN", "1", "null", "0"] * 10, {"0", "1"}, 0),
    ],
)
def test_numbers_and_booleans(tmp_path: Path, labels: list[Any], expected: set[str], joined: int) -> None:
    texts, report = read_texts(write(tmp_path / "coded.parquet", labels))
    assert texts.labels is not None
    assert set(texts.labels) == expected
    assert len(report.warnings) == joined


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx", "jsonl"])
@pytest.mark.parametrize("kind", [int, float, bool, str])
def test_types_and_formats_score_the_same(ensue: Ensue, folder: Path, tmp_path: Path, suffix: str, kind: type) -> None:
    path = write(tmp_path / f"test.{suffix}", [kind(number) for number in NUMBERS])
    evaluated = ensue("evaluate", folder, path, "--json")
    assert json.loads(evaluated.out)["rows"][0]["accuracy"] == 1.0, evaluated.err
    spelled = "labels spelled differently from the training data are matched" in evaluated.err + evaluated.out
    assert spelled == (kind is bool)


def test_a_model_of_booleans_scores_numbers(ensue: Ensue, tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", ["False", "True"] * 20)
    assert ensue("fit", "classify", train, "-o", tmp_path / "model", "--model=tfidf").code == 0
    found = ensue("evaluate", tmp_path / "model", write(tmp_path / "test.csv", [0.0, 1.0] * 20))
    matched = "labels spelled differently from the training data are matched: '0' as 'False', '1' as 'True'"
    assert f"warning: {tmp_path / 'test.csv'}: {matched}" in found.lines
    assert (
        f"  labels: False 20, True 20; 0 (0.0 %) have a label unseen in training and count as wrong; {matched}"
        in found.out
    )
    assert "100.00" in found.out


def test_labels_none_of_which_is_known_are_refused(
    ensue: Ensue, folder: Path, model: ClassifyPredictor, tmp_path: Path
) -> None:
    path = write(tmp_path / "test.csv", ["neg", "pos"] * 20)
    refused = (
        "no label is known to the model: it was trained on labels such as '0', but this file has labels such as "
        "'neg'; use labels of the training data, or name their column with --columns label=…"
    )
    found = ensue("evaluate", folder, path)
    assert (found.code, found.lines[-1]) == (2, f"ensue: {path}: {refused}")
    with pytest.raises(DataError) as error:
        evaluate(model, read_texts(path)[0])
    assert str(error.value) == f"the texts to score: {refused}"
    valid = ensue(
        "fit", "classify", write(tmp_path / "train.csv", NUMBERS), "--validation", path, "-o", tmp_path / "new"
    )
    assert (valid.code, valid.lines[-1]) == (2, f"ensue: validation data: {refused}")


def test_check_and_compare_match_the_other_file(ensue: Ensue, tmp_path: Path) -> None:
    train, test = write(tmp_path / "train.csv", NUMBERS), write(tmp_path / "test.csv", ["False", "True"] * 20)
    checked = json.loads(ensue("check", train, "--compare-to", test, "--json").out)
    assert (
        f"{test}: labels spelled differently from the training data are matched: 'False' as '0', 'True' as '1'"
        in checked["warnings"]
    )
    assert checked["splits"][str(test)]["shared_disagree"] == 0
    compared = json.loads(ensue("compare", "classify", train, "--test", test, "--models=tfidf", "--json").out)
    assert compared["rows"][0]["accuracy"] == 1.0


def test_python_texts_are_joined_too(model: ClassifyPredictor) -> None:
    texts = [
        Text((text,), label) for text, label in zip(texts_of(NUMBERS), ["Yes", "no", "YES", "No"] * 10, strict=True)
    ]
    predictor = ClassifyPredictor("tfidf")
    for _ in predictor.fit(Texts.of(texts)):
        pass
    assert [label.lower() for label in predictor.labels] == ["no", "yes"]
    assert predictor.metadata.notes[0].startswith("spellings of the same label are merged: ")
    result = evaluate(predictor, Texts.of(texts[:9]))
    assert result.rows[0].figures["accuracy"] == 1.0
    fields = [{"texts": [text], "label": number} for text, number in zip(texts_of([0, 1]), (False, 1.0), strict=True)]
    served = Texts.of([Text.from_fields(own) for own in fields])
    assert model.targets(served).tolist() == [0, 1]
    assert [Text(("a",), label).label for label in (np.True_, np.float64(1), 4.5)] == ["True", "1", "4.5"]  # type: ignore[arg-type]
    assert model.update(served).epoch == 1
