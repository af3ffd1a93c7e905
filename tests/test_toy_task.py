"""A fifth task, of an installed package, is checked, learned, scored, asked and served without a line of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensue.errors import ModelFolderError
from ensue.predictor import load, make
from ensue.tasks import TASKS
from tests.cli.conftest import Ensue, ensue
from tests.serve.conftest import running
from tests.toy_task import StarsPredictor

__all__ = ["ensue"]
REVIEWS = ["text,stars", *["a fine film,5", "a dull film,1", "fine music,4", "dull and long,2"] * 5, ""]


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that offers the task stands on the path."""
    info = tmp_path / "installed" / "toy-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ensue.tasks]\nstars = tests.toy_task:TASK\n")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    vars(TASKS).pop("others", None)
    yield
    vars(TASKS).pop("others", None)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    (tmp_path / "reviews.csv").write_text("\n".join(REVIEWS))
    return tmp_path / "reviews.csv"


def test_it_is_listed_after_ours(ensue: Ensue) -> None:
    assert [*TASKS] == ["next", "classify", "suggest", "link", "stars"] and len(TASKS) == 5
    assert ensue("models", "stars").out.split("\n")[0] == "ensue fit stars"
    assert "the mean stars of its words" in ensue("models", "stars").out


def test_from_a_file_to_an_answer(ensue: Ensue, reviews: Path, tmp_path: Path) -> None:
    ran = ensue("check", reviews, "--task=stars", "--json")
    assert ran.code == 0 and json.loads(ran.out)["records"] == 20
    folder = tmp_path / "m"
    ran = ensue("fit", "stars", reviews, "-o", folder)
    assert ran.code == 0, ran.err
    ran = ensue("evaluate", folder, reviews, "--json")
    found = json.loads(ran.out)
    assert [row["model"] for row in found["rows"]] == ["words", "mean"] and found["beats_counting"]
    assert "is significantly better than mean (baseline): " in ensue("evaluate", folder, reviews).out
    card = (folder / "CARD.md").read_text()
    assert "- every word of the reviews, in `words.json`." in card and "| words |" in card
    ran = ensue("predict", folder, "-", "--json", stdin='{"text": "fine music"}')
    assert json.loads(ran.out)["stars"] == pytest.approx((4.5 + 4) / 2)
    assert ensue("explain", folder, reviews, "--json").out.count("\n") == 20
    ran = ensue("compare", "stars", reviews, "--test", reviews, "--models=words,mean", "--json")
    assert [row["model"] for row in json.loads(ran.out)["rows"]] == ["words", "mean"]


def test_it_is_updated_with_versions(ensue: Ensue, reviews: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    ensue("fit", "stars", reviews, "-o", folder)
    ran = ensue("update", folder, reviews, "--json")
    assert ran.code == 0 and json.loads(ran.out)["version"] == 2
    assert load(folder).metadata.reviews == 40  # type: ignore[attr-defined]
    assert ensue("update", folder, "--rollback").code == 0
    assert load(folder).metadata.reviews == 20  # type: ignore[attr-defined]


def test_it_is_served(ensue: Ensue, reviews: Path, tmp_path: Path) -> None:
    ensue("fit", "stars", reviews, "-o", tmp_path / "m")
    with running({"stars": tmp_path / "m"}) as service:
        found = service.post("/v1/models/stars/predict", {"records": [{"text": "fine music"}]})
        assert found.json() == {"answers": [{"stars": 4.25, "known": 2, "id": ""}]}
        found = service.post("/v1/models/stars/predict", {"records": [{"texts": ["fine"]}]})
        assert found.status_code == 422 and 'field "text" is missing' in found.json()["error"]
        (listed,) = service.client.get("/v1/models").json()
        assert (listed["task"], listed["model"]) == ("stars", "words")
        assert "stars" in json.dumps(service.client.get("/openapi.json").json())


def test_mistakes_have_a_line(ensue: Ensue, reviews: Path, tmp_path: Path) -> None:
    assert "choose from best, words, mean" in ensue("fit", "stars", reviews, "-o", tmp_path / "m", "--model=gpt").err
    ensue("fit", "stars", reviews, "-o", tmp_path / "m")
    ran = ensue("predict", tmp_path / "m", "-", stdin='{"words": 1}')
    assert ran.code == 2 and ran.lines == ['ensue: stdin, line 1: must be an object such as {"text": "a fine film"}']
    (tmp_path / "empty.csv").write_text("text,stars\n")
    ran = ensue("fit", "stars", tmp_path / "empty.csv", "-o", tmp_path / "n")
    assert ran.code == 2 and "holds nothing that could be learned" in ran.err
    ran = ensue("explain", tmp_path / "m", reviews, "--html", tmp_path / "page.html")
    assert ran.code == 2 and "draw nothing" in ran.err
    with pytest.raises(ModelFolderError):
        StarsPredictor.load(tmp_path)
    assert make("stars").task == "stars"
