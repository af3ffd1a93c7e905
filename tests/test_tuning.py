"""``ensue.tune`` and the command ``tune``: what a search reads, keeps, resumes and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import optuna
import pytest

import ensue
from ensue.data.histories import Histories
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.comparison import compare, score_alone
from ensue.predictor import make
from ensue.registry import settings_of
from ensue.training.report import Report, StopRequest
from ensue.tuning import CHANGES, MIN_TRIALS, Tuning, _spaces, tune

SESSIONS = [[f"a{(start + step) % 9}" for step in range(2 + start % 4)] for start in range(120)]
"""Walks around a circle of nine items, so that most settings rank alike."""


def test_the_defaults_come_first_and_are_kept_where_nothing_is_better() -> None:
    tuning = ensue.tune("next", SESSIONS, "vsknn", search={"popularity": "100:1000"}, trials=2)
    first, second = tuning.trials
    assert (first["settings"], second["settings"].keys()) == ({}, {"popularity"})  # type: ignore[attr-defined]
    assert tuning.settings == {} and tuning.gain is None and tuning.metric == "mrr"
    assert tuning.sentence == "no trial was better than the defaults by MRR on the validation data"


GAIN = ("defaults", "tuned", "difference", "low", "high", "ratio", "p_value")
FEW_STEPS = {"dim": 16, "epochs": 2, "batch_size": 8, "min_steps": 0}


def test_a_better_setting_is_found_and_its_gain_measured() -> None:
    """In so few steps the default learning rate learns next to nothing."""
    tuning = ensue.tune("next", SESSIONS, "sansr", search={"learning_rate": "0.03:0.04"}, settings=FEW_STEPS, trials=2)
    assert tuning.settings.keys() == {"learning_rate"} and tuning.gain is not None and tuning.gain["difference"] > 0
    assert tuning.sentence.startswith("MRR on held-out data: +")
    assert tuning.gain["tuned"] - tuning.gain["defaults"] == pytest.approx(tuning.gain["difference"])
    assert (tuning.fraction, tuning.final_fraction) == (1, 1)


def test_a_trial_changes_two_settings_of_the_best_which_was_scored_twice() -> None:
    search = {"idf": "0:4", "popularity": "0.001:1", "window": "5,10,20", "neighbours": "50,100,200", "sample": "9,99"}
    tuning = ensue.tune("next", SESSIONS, "vsknn", search=search, trials=7, settings={"decay": "linear"})
    best: dict[str, object] = {}
    best_scores = [-1.0, -1.0]
    changed: set[str] = set()
    for trial in tuning.trials:
        settings: dict[str, object] = trial["settings"]  # type: ignore[assignment]
        names = {name for name in settings if settings[name] != best.get(name)}
        names |= {name for name in best if name not in settings}
        assert len(names) <= CHANGES
        changed |= names
        scores: list[float] = trial["scores"]  # type: ignore[assignment]
        assert trial["value"] == mean(scores) and (len(scores) == 2) is (scores[0] > best_scores[0])
        assert trial.get("best", False) is (scores > best_scores and scores[-1] > best_scores[1])
        if trial.get("best"):
            best, best_scores = settings, scores
    assert changed == search.keys()


def test_the_second_trial_has_the_settings_with_which_best_trains_the_model() -> None:
    queries = [[f"word {start} {step}" for step in range(3)] for start in range(60)]
    settings = {"dim": 8, "heads": 1, "wide": 8, "embedding": 8, "epochs": 1, "min_users": 1, "copy": False}
    tuning = ensue.tune("suggest", queries, "mtn", settings=settings, trials=3)
    first, second, third = (trial["settings"] for trial in tuning.trials)
    assert first == {} and second == {"reads": "all", "smoothing": 0.0, "retrieved": 50, "first": "consensus"}
    assert {"learning_rate", "dropout"} <= third.keys()  # type: ignore[attr-defined]


def test_slow_trials_are_trained_on_a_part_of_the_data() -> None:
    """No part is small enough for a twelfth of a second, so the smallest one is taken."""
    tuning = ensue.tune(
        "next", SESSIONS * 8, "sansr", settings={"dim": 256, "epochs": 20}, minutes=MIN_TRIALS / 60 / 12
    )
    assert tuning.fraction == 1 / 16 and len(tuning.trials) == 1
    tuning = Tuning("next", "sansr", "mrr", {"dim": 8}, (), dict.fromkeys(GAIN, 0.25), 1 / 16, 0.25)
    assert tuning.sentence.endswith("p = 0.250), both trained on 25 % of the data")


def test_no_default_is_searched() -> None:
    """Half of one layer is one, and the value of the first trial."""
    study = optuna.create_study()
    defaults = {"num_layers": 1, "dim": 128, "loss": "ce", "decay": True}
    spaces = _spaces("next", "sansr", None, {}, defaults)
    drawn = [
        {name: spaces[name](trial) for name in ("num_layers", "loss")} for trial in (study.ask() for _ in range(9))
    ]
    assert drawn == 9 * [{"num_layers": 2, "loss": "sampled"}]


def test_predictors_are_scored_alone_as_next_to_all_others() -> None:
    data = Histories.of([ensue.History(tuple(session)) for session in SESSIONS])
    pair = [make("next", "vsknn", settings={"idf": idf}) for idf in (0, 2)]
    for predictor in pair:
        for _ in predictor.fit(data):
            pass
    metric, alone = score_alone(pair, data)
    together = compare([[predictor] for predictor in pair], data)
    assert metric == together.paired_tests[0].measure
    assert alone[1].against(alone[0], metric) == together.bootstrap[1].against(together.bootstrap[0], metric)


def test_a_search_is_resumed_from_its_file_and_refuses_another(tmp_path: Path) -> None:
    file = tmp_path / "search.db"
    search = {"idf": "0:2"}
    ensue.tune("next", SESSIONS, "vsknn", search=search, trials=2, storage=file)
    tuning = ensue.tune("next", SESSIONS, "vsknn", search=search, trials=1, storage=file)
    assert [trial["number"] for trial in tuning.trials] == [0, 1, 2]
    with pytest.raises(ensue.SettingError, match="holds a search of another model, other data"):
        ensue.tune("next", SESSIONS[:-9], "vsknn", search=search, trials=1, storage=file)


@pytest.mark.parametrize(
    ("model", "search", "message"),
    [
        ("best", None, "best is several models; search the settings of one, such as --model core"),
        ("core", {"dimm": "1:2"}, "setting 'dimm' is not known; did you mean 'dim'?"),
        ("core", {"dim": "3"}, "search dim='3' is not understood; give low:high, or values such as 64,128"),
        ("core", {"dropout": "2:1"}, "search dropout: 2:1 is no range; give low:high"),
        ("core", {"dim": "a,b"}, "search dim='a,b': dim is a number"),
        ("recent", {}, "recent: no setting to search; name some"),
    ],
)
def test_a_mistake_is_one_line(model: str, search: dict[str, str] | None, message: str) -> None:
    with pytest.raises(ensue.SettingError) as error:
        ensue.tune("next", SESSIONS, model, search=search, trials=1)
    assert str(error.value).startswith(message)


def test_an_impossible_combination_is_a_pruned_trial() -> None:
    tuning = ensue.tune("next", SESSIONS, "core", search={"heads": "3,5"}, settings={"epochs": 1, "dim": 8}, trials=2)
    assert [trial["state"] for trial in tuning.trials] == ["complete", "pruned"]
    assert "is not a multiple of heads" in str(tuning.trials[1]["refused"])


def test_a_resumed_search_may_begin_with_an_impossible_combination(tmp_path: Path) -> None:
    for _ in range(2):
        tuning = ensue.tune(
            "next", SESSIONS, "core", search={"heads": "3,5"}, settings={"epochs": 1, "dim": 8}, trials=1,
            storage=tmp_path / "search.db",
        )  # fmt: skip
    assert [trial["state"] for trial in tuning.trials] == ["complete", "pruned"]
    assert tuning.metric == "mrr" and tuning.settings == {}


def test_a_storage_that_is_no_database_is_refused_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text("session,item\n")
    for storage, message in ((file, "is no SQLite file"), (tmp_path / "none" / "search.db", "there is no folder")):
        with pytest.raises(ensue.SettingError, match=message):
            ensue.tune("next", SESSIONS, "vsknn", search={"idf": "0:2"}, trials=1, storage=storage)
    assert file.read_text() == "session,item\n"


class FakeClock:
    """A clock that only trainings and scorings move."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    process_time = monotonic


class FakePredictor:
    """Ten epochs of ten steps, which take as long as the data is large; a fifth of the time is for the scoring."""

    schedule = None

    def __init__(self, clock: FakeClock, seconds: float, final_factor: float, settings: dict[str, object]) -> None:
        self.clock = clock
        self.seconds = seconds
        self.final_factor = final_factor
        self.changes = settings
        self.all_settings = {setting.name: setting.default for setting in settings_of("next", "sansr")} | settings

    def fit(self, train: Histories, valid: Histories | None = None) -> Iterator[Report]:
        duration = self.seconds * len(train) / len(SESSIONS)
        start = self.clock.now
        stop = StopRequest()
        for epoch in range(1, 11):
            for step in range(1, 11):
                self.clock.now += duration / 125 * (self.final_factor if valid is None else 1)
                metric = 0.5 if step == 10 else None
                yield Report("fit", epoch, 10, step, 10, 0.0, self.clock.now - start, valid=metric, stop=stop)
            if stop.is_made:
                break
        self.clock.now += duration / 5


@pytest.mark.parametrize(
    ("seconds", "slowness", "final_factor"), [(150, 1, 1), (150, 2.9, 1), (150, 2.9, 2), (1500, 1, 1), (1500, 1.6, 1.5)]
)
def test_the_time_is_kept_where_the_best_settings_are_slow(
    seconds: float, slowness: float, final_factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every trial with another ``dim`` is better than the one before, and the last trainings may take longer."""
    clock = FakeClock()
    finished: list[float] = []

    def make_fake(task: str, model: str, *, settings: dict[str, object], seed: int) -> FakePredictor:
        return FakePredictor(clock, seconds * (slowness if "dim" in settings else 1), final_factor, settings)

    def score_fake(predictors: Sequence[FakePredictor], data: Histories) -> tuple[str, list[BootstrapResult]]:
        finished.append(clock.now)
        values = [[len(finished) * ("dim" in predictor.changes)] for predictor in predictors]
        return "mrr", [BootstrapResult(("mrr",), np.array([value]), np.array([value, value])) for value in values]

    monkeypatch.setattr("ensue.tuning.time", clock)
    monkeypatch.setattr("ensue.tuning.make", make_fake)
    monkeypatch.setattr("ensue.tuning.score_alone", score_fake)
    tuning = tune("next", Histories.of([ensue.History(tuple(session)) for session in SESSIONS]), "sansr",
                  search={"dim": "8,16"}, minutes=30)  # fmt: skip
    assert clock.now < 1.1 * 1800
    assert tuning.settings and tuning.gain is not None
    assert tuning.fraction == (1 if seconds == 150 else 0.125) and tuning.final_fraction >= tuning.fraction
