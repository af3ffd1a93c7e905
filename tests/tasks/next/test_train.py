"""The choice between rivals: on held-out data, and only among those that fit the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ensue.data.histories import Histories
from ensue.data.splits import hold_out
from ensue.data.world import World, make_world
from ensue.errors import SettingError
from ensue.store.tensors import tensor_bytes
from ensue.tasks.next import train
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.train import mean_reciprocal_rank
from ensue.training.report import Report

SMALL = {"dim": 8, "epochs": 2, "batch_size": 16}


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(num_cascades=120, seed=3)


def fitted(model: str, data: Histories, **settings: object) -> tuple[NextPredictor, list[Report]]:
    made = NextPredictor(model, settings={**SMALL, **settings}, seed=2, device="cpu")
    return made, list(made.fit(data))


def test_the_rival_that_ranks_the_held_out_part_best_stays(world: World) -> None:
    best, reports = fitted("best", world.train)
    stages = list(dict.fromkeys(report.stage for report in reports))
    assert stages == ["fit blend", "fit cascade-blend", "refit"]
    part, held, _ = hold_out(world.train, by_time=False)
    alone = {}
    for name in ("blend", "cascade-blend"):
        made = NextPredictor(name, settings=SMALL, seed=2, device="cpu")
        assert list(made.fit(part, held))
        alone[name] = mean_reciprocal_rank(made, held.encode(made.vocabulary, drop_unknown=True))
    assert best.metadata.validation_mrr == {name: round(mrr, 4) for name, mrr in alone.items()}
    assert best.model_name == max(alone, key=lambda name: alone[name])
    winner, _ = fitted(best.model_name, world.train)
    assert tensor_bytes(best.network.state_dict()) == tensor_bytes(winner.network.state_dict())
    assert best.summary()["model"] == best.model_name


def test_the_cascade_blend_is_for_cascades(world: World) -> None:
    timeless = replace(world.train, times=np.empty(0))
    best, reports = fitted("best", timeless)
    assert best.model_name == "blend"
    assert {report.stage for report in reports} == {"fit", "refit"}


def test_each_rival_takes_the_settings_it_knows() -> None:
    made = NextPredictor("best", settings={"neighbours": 7, "max_hours": 3.0, "dim": 6})
    assert made.candidates["blend"][0].neighbours == 7
    assert made.candidates["cascade-blend"][0].max_hours == 3.0
    assert {settings.dim for settings, _ in made.candidates.values()} == {6}
    with pytest.raises(SettingError, match="setting 'wings' is not known here"):
        NextPredictor("best", settings={"wings": 2})


def test_a_check_ranks_a_part_of_many_held_out_histories(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_network_that_ranks_hardly_better_than_popularity_has_four_times_the_patience(world: World) -> None:
    still = {"epochs": 12, "patience": 1, "learning_rate": 1e-12, "refit": False}
    made, reports = fitted("hidan", world.train, **still)
    assert (reports[-1].epoch, made.metadata.epochs) == (5, 1)
    part, held, _ = hold_out(world.train, by_time=False)
    counted = NextPredictor("popularity")
    assert not list(counted.fit(part))
    popular = mean_reciprocal_rank(counted, held.encode(counted.vocabulary, drop_unknown=True))
    assert (reports[-1].best or 1.0) < 1.5 * popular
    _, reports = fitted("hidan", world.train, **still | {"watch": "loss"})
    assert reports[-1].epoch < 5


def test_accuracy_is_no_figure_of_a_ranking() -> None:
    with pytest.raises(SettingError, match="watch is 'accuracy'; task next knows loss and mrr"):
        NextPredictor("sansr", settings={"watch": "accuracy"})
