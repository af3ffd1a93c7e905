"""A person who is forgotten is in no byte that was reported as removed, and counts are as if there had been nobody."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.tasks.next.baselines.counting import Cooccurrence
from ensue.tasks.next.baselines.session_knn import VSKNN
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor
from tests.tasks.next.test_min_users import SHOPS, walks

SMALL: dict[str, object] = {"dim": 8, "table_dim": 8, "epochs": 1, "batch_size": 32, "replay": 200}
MINE = [
    History(("a0", "b0", "diary", "a1", "b0"), tuple(1e9 + 20_500.5 + step for step in range(5)), "x#1"),
    History(("b3", "a0", "a0"), tuple(1e9 + 30_500.5 + step for step in range(3)), "x#2"),
]
OTHERS = [History(record.values, record.times, f"u{number}") for number, record in enumerate(walks(repeats=True))]


def fitted(name: str, log: list[History], **more: object) -> NextPredictor:
    rows = [part for part in MODELS[name][1:] if part is not None]
    known = {key for part in rows for key in part.__dataclass_fields__} | {"min_users"}
    settings = {key: value for key, value in {**SMALL, **more}.items() if key in known}
    made = NextPredictor(name, settings=settings, device="cpu")
    made.keeps_examples = True
    for _ in made.fit(Histories.of(log)):
        pass
    return made


@pytest.mark.parametrize(
    "name", ["popularity", "markov", "rules", "cooccurrence", "interpolated", "own-items", "vsknn"]
)
def test_counts_are_as_if_the_person_had_never_been(name: str) -> None:
    made, other = fitted(name, [*OTHERS[:20], *MINE, *OTHERS[20:]]), fitted(name, OTHERS)
    found = made.forget(Histories.of([*MINE, *OTHERS[:1]]).select(slice(2)))
    assert ("baselines.safetensors", "histories subtracted from counts", 2) in found.removed
    assert ("baselines.safetensors", "values", 1) in found.removed
    assert not any(b"diary" in bytes(part) for part in made.files().values())
    mine, theirs = (_counts(model) for model in (made, other))
    assert mine.keys() == theirs.keys() and any(len(counts) for counts in mine.values())
    for key, counts in theirs.items():
        assert mine[key] == pytest.approx(counts, rel=1e-5), key
    answers = [choice.value for choice in made.predict([History(("a0",))], k=50)[0].choices]
    assert sorted(answers) == sorted([*SHOPS["a"], *SHOPS["b"]])
    assert not made.forget(Histories.of(MINE)).removed  # nothing more is known


def _counts(model: NextPredictor) -> dict[str, dict[tuple[str, ...], float]]:
    """What was counted, by name and by value, for ids differ; sums that hold no value left out."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for name, module in model.counting.items():
        names = ["", "", *model.vocabulary.values]
        for part in ("totals", "holders"):
            if hasattr(module, part):
                counts = getattr(module, part).tolist()
                found[f"{name} {part}"] = {(names[at],): own for at, own in enumerate(counts) if own}
        if isinstance(module, Cooccurrence):
            earlier = np.repeat(np.arange(len(names)), np.diff(module.rows)).tolist()
            pairs = zip(earlier, module.columns.tolist(), module.counts.tolist(), strict=True)
            found[f"{name} pairs"] = {(names[one], names[two]): own for one, two, own in pairs}
        if isinstance(module, VSKNN):
            sessions = np.split(module.items, module.starts[1:-1])
            found[f"{name} sessions"] = {
                (*sorted(names[at] for at in own), str(n)): 1 for n, own in enumerate(sessions)
            }
    return found


@pytest.mark.parametrize("name", ["blend", "cascade-blend", "gru4rec"])
def test_a_network_loses_what_it_remembers_and_says_what_it_cannot(name: str, tmp_path: Path) -> None:
    made = fitted(name, [*OTHERS[:20], *MINE, *OTHERS[20:]])
    kept = len(made.reservoir)
    assert b"diary" in made.files()["baselines.safetensors"] and _remembers(made)
    found = made.forget(Histories.of(MINE))
    removed = {(file, what): count for file, what, count in found.removed}
    assert removed["baselines.safetensors", "remembered histories"] == 2 == kept - len(made.reservoir)
    assert removed["baselines.safetensors", "fingerprints of histories"] == 2
    assert removed["baselines.safetensors", "values"] == 1
    assert any(line.startswith("weights of the network") for line in found.remains)
    made.save(tmp_path / "m")
    again = NextPredictor.load(tmp_path / "m", device="cpu")
    assert not _remembers(again) and not any(b"diary" in file.read_bytes() for file in (tmp_path / "m").iterdir())
    for model in (made, again):
        answers = [choice.value for choice in model.predict([History(("a0",))], k=50)[0].choices]
        assert sorted(answers) == sorted([*SHOPS["a"], *SHOPS["b"]])
    assert np.isfinite(again.update(Histories.of(OTHERS[:5])).loss)


def _remembers(model: NextPredictor) -> bool:
    """Whether a time of the person stands in any file."""
    times = [np.float64(time).tobytes() for record in MINE for time in record.times]
    return any(time in part for part in model.files().values() for time in times)


def test_a_value_that_is_a_person_is_taken_out_of_everything(tmp_path: Path) -> None:
    for name in ("cascade-blend", "markov", "vsknn"):
        made = fitted(name, OTHERS)
        found = made.forget(Histories.of([]), ["a0", "nobody"])
        assert ("baselines.safetensors", "values", 1) in found.removed
        made.save(tmp_path / name)
        again = NextPredictor.load(tmp_path / name, device="cpu")
        assert "a0" not in again.vocabulary and "a1" in again.vocabulary
        place = made.metadata.forgotten
        assert place is not None and len(place) == 1
        assert float(again.counting["markov"].totals[place].sum()) == 0
        for answer in again.predict([History(("a1",)), History(("a0", "a1"))], k=50):
            assert sorted(choice.value for choice in answer.choices) == sorted([*SHOPS["a"][1:], *SHOPS["b"]])


def test_what_was_cut_into_shared_runs_is_recognised_by_its_times() -> None:
    made = fitted("gru4rec", OTHERS, min_users=3)
    before = len(made.reservoir)
    found = made.forget(Histories.of(OTHERS[4:5]))
    assert found.removed[0][:2] == ("baselines.safetensors", "remembered histories")
    assert len(made.reservoir) == before - found.removed[0][2]
    times = {time for record in made.reservoir.histories.records() for time in record.times}
    assert not times & {*OTHERS[4].times}
    assert any("share, this one among them" in line for line in found.remains)
