"""Folders that were written before the rooms moved load, answer as they did, and learn on."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ensue.predictor import load
from ensue.tasks import TASKS

FOLDERS = Path(__file__).parent / "golden" / "folders.zip"
NAMES = ("next-hidan", "next-markov", "classify-blend", "suggest-best", "link-best")


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("former")
    with zipfile.ZipFile(FOLDERS) as archive:
        archive.extractall(place)
    return place


def near(one: Any, other: Any) -> bool:
    """Equal, figures to four digits."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(near(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-4, abs=1e-6)
    return bool(one == other)


@pytest.mark.parametrize("name", NAMES)
def test_a_former_folder_answers_as_it_did(former: Path, name: str) -> None:
    expected = json.loads((former / "answers.json").read_text())[name]
    record = TASKS[name.partition("-")[0]].record
    predictor = load(former / name, device="cpu")
    records = [record.from_fields(fields, name) for fields in expected["records"]]
    found = [json.loads(answer.to_json()) for answer in predictor.predict(records, 3)]
    assert len(found) == 3 and near(found, expected["answers"])


@pytest.mark.parametrize("name", NAMES)
def test_a_former_folder_is_saved_with_the_same_tensors(former: Path, name: str, tmp_path: Path) -> None:
    load(former / name, device="cpu").save(tmp_path / "m")
    for path in (former / name).glob("*.safetensors"):
        assert (tmp_path / "m" / path.name).read_bytes() == path.read_bytes()
