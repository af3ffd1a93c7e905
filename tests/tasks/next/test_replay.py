"""With ``replay=0`` nothing of a single history stays in a folder, and answers are the same before and after a save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.evaluation.comparison import evaluate
from ensue.refresh import refresh
from ensue.store import versions
from ensue.store.pack import read_tensors
from ensue.tasks.next.catalogue import COUNTING, MODELS
from ensue.tasks.next.predictor import NextPredictor

SMALL: dict[str, object] = {"dim": 8, "table_dim": 8, "epochs": 1, "batch_size": 32, "replay": 0}
NAMES = [name for name in MODELS if name != "vsknn"]


def walks(num: int, seed: int = 0) -> list[History]:
    """All pairs of five values at every distance up to eleven occur many times."""
    draw = np.random.default_rng(seed)
    return [
        History(tuple(f"a{value}" for value in draw.integers(0, 5, 12)), tuple(1e9 + 100.0 * n + t for t in range(12)))
        for n in range(num)
    ]


def fitted(name: str, num: int, **more: object) -> NextPredictor:
    _, settings, schedule = MODELS[name]
    known = {key for part in (settings, schedule) if part is not None for key in part.__dataclass_fields__}
    made = NextPredictor(
        name, settings={key: own for key, own in {**SMALL, **more}.items() if key in known}, device="cpu"
    )
    for _ in made.fit(Histories.of(walks(num)), Histories.of(walks(8, seed=1))):
        pass
    return made


def sizes(folder: Path) -> dict[str, Any]:
    """The shape of every tensor in every file."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in read_tensors(folder, path.name).items():
            found[f"{path.name} {name}"] = tuple(tensor.shape)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_file_grows_with_the_number_of_histories(name: str, tmp_path: Path) -> None:
    """Four times as many different histories of the same values: sums are as large as before, and so is all else."""
    few, many = fitted(name, 60), fitted(name, 240)
    few.save(tmp_path / "few")
    many.save(tmp_path / "many")
    assert {path.name for path in (tmp_path / "few").iterdir()} == {path.name for path in (tmp_path / "many").iterdir()}
    assert sizes(tmp_path / "few") == sizes(tmp_path / "many")
    assert not len(many.reservoir)


@pytest.mark.parametrize("name", ["blend", "cascade-blend", "sansr", "markov"])
def test_answers_are_the_same_after_a_save_and_an_update_keeps_nothing_either(name: str, tmp_path: Path) -> None:
    made, asked = fitted(name, 60), walks(5, seed=2)
    made.save(tmp_path / "m", made.card())
    loaded = NextPredictor.load(tmp_path / "m", device="cpu")
    assert loaded.predict(asked) == made.predict(asked)
    before = sizes(tmp_path / "m")
    refresh(tmp_path / "m", Histories.of(walks(100, seed=3)), max_drop=0.99)
    assert (versions.current(tmp_path / "m"), versions.kept(tmp_path / "m")) == (2, [1])
    assert sizes(tmp_path / "m") == before == sizes(tmp_path / "m.versions" / "1")
    assert "- no single sessions: weights, and sums over all sessions" in (tmp_path / "m" / "CARD.md").read_text()


def test_the_table_has_no_row_of_past_sessions_and_tells_no_twins() -> None:
    found = evaluate(fitted("sansr", 60), Histories.of(walks(20)))
    assert [row.model for row in found.rows] == ["sansr", *(name for name in COUNTING if name != "vsknn")]
    assert "not known: with replay=0 the model keeps no fingerprints" in str(found.to_dict())


@pytest.mark.parametrize(
    ("name", "held"),
    [("blend", "such sessions in `baselines.safetensors`"), ("cascade-blend", "past cascades in full")],
)
def test_what_stays_otherwise_is_on_the_card(name: str, held: str) -> None:
    card = fitted(name, 60, replay=100).card()
    assert "60 past sessions (the latest 50 events of each: ids and times, no names)" in card
    assert "as sets of ids, for VS-kNN, and a 64-bit fingerprint" in card and held in card
    assert "`ensue fit --set replay=0` stores only weights and sums" in card
