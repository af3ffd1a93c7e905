"""What a large catalogue changes, and that it is said: with bounds that small data passes."""

from __future__ import annotations

import pytest

from ensue import SettingError
from ensue.data.histories import Histories
from ensue.demo.cascades import make_cascades
from ensue.tasks.next import sizing
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.report import Report

SMALL = {"dim": 8, "epochs": 1, "batch_size": 16, "negatives": 5}
MODELS = ("hidan", "rnn", "att-lstm", "rmtpp", "cyan-rnn", "cascade-blend")


@pytest.fixture(scope="module")
def data() -> Histories:
    return make_cascades(num_cascades=60, seed=3).train


def fitted(model: str, data: Histories, **settings: object) -> tuple[NextPredictor, list[Report]]:
    made = NextPredictor(model, settings={**SMALL, **settings}, seed=2, device="cpu")
    return made, list(made.fit(data))


def notes(reports: list[Report]) -> list[str]:
    return [report.note for report in reports if report.note]


@pytest.mark.parametrize("model", MODELS)
def test_a_large_catalogue_is_learned_by_drawn_values_and_the_folder_knows(
    model: str, data: Histories, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(sizing, "LARGE", 10)
    made, reports = fitted(model, data, refit=False)
    values = len(made.vocabulary.values)
    assert notes(reports) == [
        f"{values} values: {model} learns a softmax over 5 drawn ones a batch (--set loss=ce: over all)"
    ]
    assert made.settings.loss == "sampled"
    made.save(f"{tmp_path}/m")
    again = NextPredictor.load(f"{tmp_path}/m", device="cpu")
    record = next(iter(data.records()))
    assert again.predict([record], 3, evidence=False) == made.predict([record], 3, evidence=False)
    again.update(data)
    assert again.settings.loss == "sampled"


def test_what_was_set_by_hand_stays(data: Histories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "LARGE", 10)
    made, reports = fitted("hidan", data, loss="ce")
    assert (made.settings.loss, notes(reports)) == ("ce", [])
    monkeypatch.setattr(sizing, "LARGE", 10**6)
    made, reports = fitted("hidan", data, loss="sampled", refit=False)
    assert (made.settings.loss, notes(reports)) == ("sampled", [])
    made, reports = fitted("hidan", data, refit=False)
    assert (made.settings.loss, notes(reports)) == ("auto", [])


def test_memory_is_told_where_it_matters_and_refused_where_it_does_not_suffice(
    data: Histories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "LARGE", 10)
    monkeypatch.setattr(sizing, "free_bytes", lambda _: 10**12)
    made, reports = fitted("sansr", data, refit=False)
    assert notes(reports) == []
    needed = sizing.memory_needed(made)
    monkeypatch.setattr(sizing, "free_bytes", lambda _: 2 * needed)
    values = len(made.vocabulary.values)
    line = (
        f"memory: sansr with {values} values needs {needed / 1e9:.1f} GB, there are {2 * needed / 1e9:.1f} GB; what "
        "lowers it is the width of its tables (--set dim=8)"
    )
    assert notes(fitted("sansr", data, refit=False)[1]) == [line]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(SettingError, match=r"in 3 ranks, there are .* GB; lower the width of its tables"):
        fitted("sansr", data)


def test_what_is_needed_grows_by_the_row(data: Histories) -> None:
    made, _ = fitted("sansr", data, refit=False)
    before, values = sizing.memory_needed(made), len(made.vocabulary)
    made.vocabulary.add([f"new {number}" for number in range(1000)])
    # SANSR: 8 numbers a row as weight and two moments and once more to rank by, and a count; 4 bytes each
    assert sizing.memory_needed(made) - before == 1000 * 4 * (4 * 8 + 1)
    assert len(made.vocabulary) == values + 1000
