"""The choice between rivals: on held-out data, and only among those that fit the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ensue import DataError, History, SettingError
from ensue.cli.tasks.next_event import training_summary
from ensue.data.histories import Histories, hold_out
from ensue.demo.cascades import CascadeWorld, make_cascades
from ensue.learning.state import module_of
from ensue.store.pack import pack, tensor_bytes
from ensue.tasks.next import train
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.train import mean_reciprocal_rank
from ensue.training.report import LEFT_OUT, Report

SMALL = {"dim": 8, "epochs": 2, "batch_size": 16}


@pytest.fixture(scope="module")
def world() -> CascadeWorld:
    return make_cascades(num_cascades=120, seed=3)


def fitted(model: str, data: Histories, **settings: object) -> tuple[NextPredictor, list[Report]]:
    made = NextPredictor(model, settings={**SMALL, **settings}, seed=2, device="cpu")
    return made, list(made.fit(data))


def known(made: NextPredictor, data: Histories) -> Histories:
    return data.encode(made.vocabulary, drop_unknown=True)


def test_the_rival_that_ranks_the_held_out_part_best_stays(
    world: CascadeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "_is_ahead", lambda *_: False)
    monkeypatch.setattr(train, "_leads", lambda apart, _: bool(apart.mean() > 0))  # any lead is a sure one
    best, reports = fitted("best", world.train)
    stages = list(dict.fromkeys(report.stage for report in reports))
    assert stages == ["fit cascade-blend", "fit blend", "refit"]
    part, held, _ = hold_out(world.train, by_time=False)
    alone = {}
    for name in ("blend", "cascade-blend"):
        made = NextPredictor(name, settings=SMALL | {"refit": False}, seed=2, device="cpu")
        assert list(made.fit(part, held))
        alone[name] = mean_reciprocal_rank(made, known(made, held))
        beside = made.baselines
        alone |= {row: mean_reciprocal_rank(made, known(made, held), row) for row in beside}
    assert best.metadata.validation_mrr == {name: round(mrr, 4) for name, mrr in alone.items()}
    assert best.model_name == max(alone, key=lambda name: alone[name])
    winner, _ = fitted(best.model_name, world.train)
    assert tensor_bytes(module_of(best.network).state_dict()) == tensor_bytes(module_of(winner.network).state_dict())
    assert best.summary()["model"] == best.model_name


def test_of_many_held_out_histories_those_that_come_first_are_looked_at(
    world: CascadeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    begins = np.repeat(random.permutation(len(world.train)) * 3600.0 + 1.6e9, world.train.lengths)
    data = replace(world.train, times=begins + world.train.times % 60)
    untrained = NextPredictor("blend", settings=SMALL, device="cpu")
    split = train.split(untrained, data, None)
    held = split.valid
    assert held is not None
    assert split.full is data and split.rule == f"the last {len(held)} of {len(data)} by start time"
    monkeypatch.setattr(train, "EVALUATION_SAMPLE", len(held.ids) // 3)
    sampled = train.split(untrained, data, None)
    first = sampled.valid
    assert first is not None
    assert sampled.rule.endswith(f"by start time, of which the first {len(first)} are scored")
    assert np.array_equal(sampled.train.ids, split.train.ids) and 0 < len(first) < len(held)
    starts, chosen = (part.times[part.offsets[:-1]] for part in (held, first))
    assert set(chosen) == set(np.sort(starts)[: len(first)]) and np.array_equal(chosen, starts[np.isin(starts, chosen)])
    assert len(first.ids) - first.lengths[chosen.argmax()] < len(held.ids) // 3 <= len(first.ids)
    timeless = train.split(untrained, replace(data, times=np.empty(0)), None)
    assert timeless.valid is not None
    assert len(timeless.train) + len(timeless.valid) == len(data)  # without a clock nobody knows what comes first


def test_the_cascade_blend_is_for_cascades(world: CascadeWorld) -> None:
    timeless = replace(world.train, times=np.empty(0))
    best, reports = fitted("best", timeless)
    assert {report.stage for report in reports} <= {"fit", "refit"}
    assert best.metadata.validation_mrr is not None
    assert "blend" in best.metadata.validation_mrr and "cascade-blend" not in best.metadata.validation_mrr


def test_where_the_cascade_blend_leads_no_other_is_tried() -> None:
    """Whom ``a`` is followed by changes with the hour: counts without a clock rank six alike."""
    random, data = np.random.default_rng(0), []
    for day in range(400):
        hour = int(random.integers(0, 6))
        start = 1e9 + 86_400.0 * day + 4 * 3600.0 * hour
        data.append(History(("a", f"b{hour}"), (start, start + 60.0)))
    best, reports = fitted("best", Histories.of(data))
    assert {report.stage for report in reports} == {"fit cascade-blend", "refit"}
    assert best.model_name == "cascade-blend" and best.metadata.validation_mrr is not None
    assert "blend" not in best.metadata.validation_mrr and "markov" in best.metadata.validation_mrr


def test_data_of_one_value_are_refused() -> None:
    with pytest.raises(DataError, match="every event has the same item, so there is nothing to rank"):
        list(NextPredictor("markov").fit(Histories.of([History(("a", "a", "a"))] * 9)))


def circle(num: int, length: int = 5) -> Histories:
    """Walks around a circle of ten values: what follows what is sure."""
    starts = np.random.default_rng(0).integers(0, 10, num).tolist()
    return Histories.of(History(tuple(f"v{(start + step) % 10}" for step in range(length))) for start in starts)


def test_where_no_network_is_ahead_of_counting_the_model_is_a_counting_row(tmp_path: Path) -> None:
    data = circle(200)
    best, reports = fitted("best", data)
    assert {report.stage for report in reports} == {"fit"}  # nothing is trained anew
    assert best.model_name == "markov" and best.schedule is None
    assert best.metadata.validation_mrr is not None
    assert best.metadata.validation_mrr["markov"] == 1.0 >= best.metadata.validation_mrr["blend"]
    assert best.metadata.chosen == "markov, a baseline: no trained model ranked the held-out data better"
    assert f"- chosen: {best.metadata.chosen}" in best.card()
    scores = ", ".join(f"{name} {100 * value:.2f} %" for name, value in best.metadata.validation_mrr.items())
    first, exclusion, last = training_summary(best)
    assert [first, last] == [f"chose {best.metadata.chosen}; validation MRR: {scores}", LEFT_OUT]
    assert "predict leaves out items already in the session" in exclusion
    assert best.metadata.held_out == "the last 20 of 200 in file order"
    counted = NextPredictor("markov")
    assert not list(counted.fit(data))
    for name, array in pack(counted.network)[1].items():
        assert np.array_equal(pack(best.network)[1][name], array)
    best.save(tmp_path / "m")
    loaded = NextPredictor.load(tmp_path / "m", device="cpu")
    assert loaded.metadata.chosen == best.metadata.chosen
    loaded.update(Histories.of([History(("v1", "new"))] * 200))
    assert loaded.predict([History(("v3", "v1"))], 1)[0].choices[0].value == "new"


def test_a_lead_counts_from_its_standard_error_on() -> None:
    sample = Histories.of([History(tuple("abc")), History(()), History(tuple("ab")), History(tuple("abcd"))])
    # Two targets, one and three; by history the sums of differences from their mean 0.1 are 0.4, -0.2 and -0.2.
    apart = np.array([0.3, 0.3, -0.1, 0.2, -0.2, 0.1])
    error = np.sqrt(0.4**2 + 0.2**2 + 0.2**2) / 6  # 0.082
    assert apart.mean() > error and train._leads(apart, sample)
    assert not train._leads(apart - 0.02, sample)  # as far spread, and a lead of 0.08
    assert not train._leads(-apart, sample)
    assert train._leads(np.zeros(6), sample)  # nothing tells them apart: the simpler one


@pytest.mark.parametrize(("lead", "chosen"), [(0.09, "cascade-blend"), (0.03, "blend"), (-0.02, "blend")])
def test_the_cascade_blend_has_to_lead_the_blend_by_a_standard_error(lead: float, chosen: str) -> None:
    sample = Histories.of([History(tuple("ab"))] * 4)
    other = np.array([0.5, 0.4, 0.3, 0.5])
    gains = {"cascade-blend": other + lead + np.array([0.1, -0.1, -0.1, 0.1]), "blend": other}  # its error is 0.05
    made = NextPredictor("best", settings=SMALL, device="cpu")
    trained = {
        name: train._Candidate(None, None, NextPredictor("markov").metadata, None, own) for name, own in gains.items()
    }
    train._select_best(made, trained, {"markov": other - 0.1}, sample)
    assert made.model_name == chosen


def test_a_counting_row_keeps_no_history_where_none_may_stay() -> None:
    best, _ = fitted("best", circle(200), replay=0)
    assert best.schedule is None and not best.keeps_histories
    assert "vsknn" not in best.counting
    assert not len(best.training_hashes)


def test_each_rival_takes_the_settings_it_knows() -> None:
    made = NextPredictor("best", settings={"neighbours": 7, "max_hours": 3.0, "dim": 6})
    assert made.candidates["blend"][0].neighbours == 7
    assert made.candidates["cascade-blend"][0].max_hours == 3.0
    assert {settings.dim for settings, _ in made.candidates.values()} == {6}
    with pytest.raises(SettingError, match="setting 'wings' is not known"):
        NextPredictor("best", settings={"wings": 2})


def test_a_check_ranks_a_part_of_many_held_out_histories(world: CascadeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "EVALUATION_SAMPLE", 50)
    ranked: list[Histories] = []

    def watch(predictor: NextPredictor, valid: Histories) -> float:
        ranked.append(valid)
        return mean_reciprocal_rank(predictor, valid)

    monkeypatch.setattr(train, "_monitored", watch)
    fitted("sansr", world.train)
    first, second = ranked
    whole = hold_out(world.train, by_time=False)[1]
    assert len(whole.ids) > 100
    assert 50 <= len(first.ids) < 50 + int(whole.lengths.max())
    assert first.ids.tolist() == second.ids.tolist()


def test_a_network_that_ranks_hardly_better_than_popularity_has_four_times_the_patience(world: CascadeWorld) -> None:
    still = {"epochs": 12, "patience": 1, "learning_rate": 1e-12, "refit": False}
    made, reports = fitted("hidan", world.train, **still)
    assert (reports[-1].epoch, made.metadata.epochs) == (5, 1)
    part, held, _ = hold_out(world.train, by_time=False)
    counted = NextPredictor("popularity")
    assert not list(counted.fit(part))
    popular = mean_reciprocal_rank(counted, held.encode(counted.vocabulary, drop_unknown=True))
    assert (reports[-1].best or 1.0) < 1.5 * popular
    _, reports = fitted("hidan", world.train, **still | {"monitor": "loss"})
    assert reports[-1].epoch < 5


@pytest.mark.parametrize("model", ["bpr-mf", "fpmc", "gru4rec", "narm", "stamp"])
def test_rivals_learn_what_was_held_out_too(world: CascadeWorld, model: str) -> None:
    made, reports = fitted(model, world.train, epochs=1)
    assert list(dict.fromkeys(report.stage for report in reports)) == ["fit", "refit"]
    assert made.metadata.sequences == len(world.train)
    assert float(made.counting["popularity"].totals.sum()) == len(world.train.ids)


def of(*sessions: str, first: float | None = None) -> Histories:
    """Sessions of one-letter values, a day apart from ``first`` on where there is a clock."""
    times = [() if first is None else tuple(first + 86_400 * day + at for at in range(9)) for day in range(9)]
    return Histories.of(History(tuple(text), own[: len(text)]) for text, own in zip(sessions * 3, times, strict=False))


@pytest.mark.parametrize(
    ("learned", "valid", "rule"),
    [
        (
            of("abc", "bcd"),
            of("abcde"),
            "3 given, in order of the files, used for the final training unless --no-refit",
        ),
        (
            of("abcd", first=1e9),
            of("abcde", first=2e9),
            "3 given, later, used for the final training unless --no-refit",
        ),
        (
            of("abcd", first=2e9),
            of("abcde", first=1e9),
            "3 given, not used for the final training: not later than the training data",
        ),
        (
            of("abcd", first=1e9),
            of("abcde", first=1e9 + 1),
            "3 given, not used for the final training: not later than the training data",
        ),
        (
            of("abcd", first=0.0),
            of("abcde"),
            "3 given, not used for the final training: not later than the training data",
        ),
    ],
)
def test_given_validation_data_is_learned_in_the_end_where_it_is_later(
    learned: Histories, valid: Histories, rule: str
) -> None:
    made = NextPredictor("sansr", settings={"dim": 4, "epochs": 1}, device="cpu")
    stages = {report.stage for report in made.fit(learned, valid)}
    whole = "not used" not in rule
    assert made.metadata.held_out == rule
    assert stages == ({"fit", "refit"} if whole else {"fit"})
    assert ("e" in made.vocabulary) == whole
    assert made.metadata.sequences == len(learned) + (len(valid) if whole else 0)
    counted = dict(zip(made.vocabulary.values, made.counting["markov"].totals[2:].tolist(), strict=True))
    assert counted.get("e", 0.0) == (3.0 if whole else 0.0)


def test_without_refit_given_validation_data_is_only_looked_at() -> None:
    made = NextPredictor("sansr", settings={"dim": 4, "epochs": 1, "refit": False}, device="cpu")
    assert {report.stage for report in made.fit(of("abc", "bcd"), of("abcde"))} == {"fit"}
    assert "e" not in made.vocabulary
    assert made.metadata.held_out == ""


def test_a_training_that_was_cut_while_it_got_better_says_so(world: CascadeWorld) -> None:
    made, reports = fitted("sansr", world.train, epochs=2, learning_rate=3e-3, monitor="loss", batch_size=64)
    assert [report.improving for report in reports if report.stopped] == [True, False]  # the second had no check
    assert made.summary()["facts"]["ended"] == "best epoch was the last one; consider more epochs (--set epochs=N)"
    still, reports = fitted("sansr", world.train, epochs=6, learning_rate=1e-12, patience=2, refit=False)
    assert not any(report.improving for report in reports)
    assert "ended" not in still.summary()["facts"]


def test_the_card_says_how_the_schedule_fitted_the_log(world: CascadeWorld) -> None:
    made = NextPredictor("sansr", settings={"dim": 4, "epochs": 1, "refit": False}, device="cpu")
    assert list(made.fit(world.train))
    # 400 steps an epoch are not to be had: of some ten targets each, four are the fewest with 32 targets.
    steps = -(-round(0.9 * len(world.train)) // 4)
    assert made.summary()["facts"]["training"] == {"batch_size": 4, "epochs": 1, "steps": steps, "warm_up": 2}
    assert f"- training: batch_size 4, epochs 1, steps {steps}, warm_up 2" in made.card()


def test_accuracy_is_no_figure_of_a_ranking() -> None:
    with pytest.raises(SettingError, match="monitor is 'accuracy'; task next allows loss and mrr"):
        NextPredictor("sansr", settings={"monitor": "accuracy"})
