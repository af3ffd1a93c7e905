"""Poisoned data is refused by default whatever the task, and honest data is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import History, SettingError, Text
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.predictor import make
from ensue.refresh import refresh
from ensue.refresh.slices import Slice
from ensue.refresh.trial import classify_slices
from ensue.significance import standard_error
from ensue.store import versions
from ensue.tasks.classify.predictor import ClassifyPredictor
from tests.tasks.classify.contract import TRAINED
from tests.tasks.classify.contract import planted as labelled
from tests.tasks.link.checks import planted as linked
from tests.tasks.link.contract import NETWORK
from tests.tasks.suggest.contract import FLOOR, THINGS, queries
from tests.tasks.suggest.contract import TRAINED as WRITTEN
from tests.tasks.suggest.contract import planted as typed
from tests.test_refresh import SETTINGS, circles

ROTATED = {"yes": "no", "no": "yes"}
AFTER = dict(zip(THINGS, (*THINGS[1:], THINGS[0]), strict=True))


def poisoned_texts() -> Texts:
    return Texts.of([replace(text, label=ROTATED[str(text.label)]) for text in labelled(400, 9)])


def poisoned_sessions() -> Any:
    found = (record.values[0] for record in typed(400, 9))
    return queries([History((query, f"buy {AFTER[query.split()[1]]}")) for query in found])


Made = tuple[Callable[[], Any], Callable[[], Any], Callable[[int], Any], Callable[[], Any]]
CASES: dict[str, Made] = {
    "next": (
        lambda: make("next", "sansr", settings=SETTINGS, seed=5, device="cpu"),
        lambda: Histories.of(circles(100, 0)),
        lambda seed: Histories.of(circles(30, seed, day=1)),
        lambda: Histories.of(circles(400, 9, step=3, day=1)),
    ),
    "classify": (
        lambda: make("classify", "self-attention", settings=TRAINED, device="cpu"),
        lambda: Texts.of(labelled(300, 0)),
        lambda seed: Texts.of(labelled(20, seed)),
        poisoned_texts,
    ),
    "suggest": (
        lambda: make("suggest", "h-lstm", settings={**FLOOR, **WRITTEN, "refit": False}, device="cpu"),
        lambda: queries(typed(200, 0)),
        lambda seed: queries(typed(30, seed)),
        poisoned_sessions,
    ),
}


def fitted(task: str) -> Any:
    made, data, _, _ = CASES[task]
    predictor = made()
    for _ in predictor.fit(data()):
        pass
    return predictor


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("task", CASES)
def test_400_poisoned_records_are_refused_and_honest_ones_are_not(task: str, tmp_path: Path) -> None:
    predictor, (_, _, honest, poison) = fitted(task), CASES[task]
    predictor.save(tmp_path / "m")
    before = contents(tmp_path / "m")
    found = refresh(tmp_path / "m", poison())
    assert not found.accepted and found.verdict.startswith("refused: ")
    assert contents(tmp_path / "m") == before and versions.kept(tmp_path / "m") == []
    for seed in range(3):
        predictor.save(tmp_path / f"h{seed}")
        assert refresh(tmp_path / f"h{seed}", honest(100 + seed)).accepted
    assert refresh(tmp_path / "m", poison(), max_drop=None).accepted, "somebody wants it so"
    assert versions.kept(tmp_path / "m") == [1]


def test_a_single_record_is_learned_without_a_newest_part(tmp_path: Path) -> None:
    fitted("next").save(tmp_path / "m")
    found = refresh(tmp_path / "m", Histories.of([History(("a1", "a2"))]))
    assert found.accepted and [part.name for part in found.slices] == ["remembered"]


def test_of_texts_the_folder_keeps_ids_of_words_unless_told_not_to(tmp_path: Path) -> None:
    made = fitted("classify")
    made.save(tmp_path / "m")
    stored = ClassifyPredictor.load(tmp_path / "m", device="cpu").remembered
    assert stored is not None and len(stored.targets) == 30, "the tenth that was held out"
    none = ClassifyPredictor("mean", settings={"dim": 4, "epochs": 1, "remembered": 0}, device="cpu")
    for _ in none.fit(Texts.of(labelled(60, 0))):
        pass
    none.save(tmp_path / "n")
    again = ClassifyPredictor.load(tmp_path / "n", device="cpu")
    assert again.remembered is None and again.shared.remembered == 0 and classify_slices(again, again) == ()
    found = refresh(tmp_path / "n", poisoned_texts())
    assert found.accepted and found.slices == ()
    with pytest.raises(SettingError, match="remembered is -1; it must be 0 or more"):
        ClassifyPredictor("mean", settings={"remembered": -1})


def test_texts_in_pairs_are_remembered_too(tmp_path: Path) -> None:
    records = [Text((text.texts[0], "and"), text.label) for text in labelled(80, 0)]
    made = ClassifyPredictor("mean", settings={"dim": 4, "epochs": 1}, device="cpu")
    for _ in made.fit(Texts.of(records)):
        pass
    made.save(tmp_path / "m")
    (part,) = classify_slices(made, ClassifyPredictor.load(tmp_path / "m", device="cpu"))
    assert part.old == part.new and part.targets == 8


def test_titles_find_their_articles_until_posts_were_swapped(tmp_path: Path) -> None:
    settings = {**NETWORK, "batch_size": 4}
    made = make("link", "cnn", settings=settings, seed=5, device="cpu")
    for _ in made.fit(linked(), linked(num=2, first=20)):
        pass
    made.save(tmp_path / "m")
    found = refresh(tmp_path / "m", linked(num=1, first=50))
    assert found.accepted and found.slices[0].figure == "mrr"


def test_a_fall_that_may_be_chance_is_let_pass() -> None:
    old, new = np.array([1.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0])
    error = standard_error(new - old)
    # differences 0, -1, 1, -1: mean -.25, deviation .957, error .479
    assert error == pytest.approx(0.4787, abs=1e-4)
    assert not Slice("s", 4, {"mrr": 0.75}, {"mrr": 0.5}, {}, "", error=error).falls(0.05)
    assert Slice("s", 4, {"mrr": 0.75}, {"mrr": 0.5}, {}, "", error=0.1).falls(0.05)
    assert not Slice("s", 4, {"mrr": 0.75}, {"mrr": 0.5}, {}, "", error=0.1).falls(0.4)
    assert standard_error(new[:1] - old[:1]) == float("inf")
