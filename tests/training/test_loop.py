"""The loop: early stopping, the same bytes from the same seed, and a run that was killed goes on as if it never was."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, distributed, nn

from ensue import EnsueError, ModelFolderError, SettingError
from ensue.data.histories import Histories, Index
from ensue.demo.cascades import CascadeWorld, make_cascades
from ensue.learning.state import module_of
from ensue.schedule import Schedule
from ensue.store.pack import tensor_bytes
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.settings import HiDANSettings
from ensue.tasks.next.train import learn_values, train_once
from ensue.training import distributed as group
from ensue.training import loop
from ensue.training.checkpoint import NO_CHECKPOINT, Checkpoint, save_state
from ensue.training.loop import mean_loss, one_pass, train
from ensue.training.optimizer import make_optimizer, optimizer_tensors
from ensue.training.report import Report, Trained
from tests.processes import PLAIN, Started

SMALL = HiDANSettings(dim=8, table_dim=4)
# 48 cascades in batches of 16: 3 steps and 4 reports an epoch.
SCHEDULE = Schedule(epochs=4, batch_size=16, learning_rate=0.02)
OTHER_RUN = "{}: the checkpoint belongs to other data or settings; start without --resume"


class Outcome(NamedTuple):
    """All that a run leaves behind."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    reports: list[Report]
    epochs: int


class InterruptionError(Exception):
    """What stops a run in these tests."""


class Failing:
    """A source that fails when a batch is asked for once too often."""

    def __init__(self, source: Windows, batches: int) -> None:
        self.source, self.left = source, batches

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        return self.source.plan(size, seed)

    def groups(self, targets: int) -> Iterator[Index]:
        return self.source.groups(targets)

    def batch(self, index: Index) -> Any:
        if not self.left:
            raise InterruptionError
        self.left -= 1
        return self.source.batch(index)


@pytest.fixture(scope="module")
def world() -> CascadeWorld:
    return make_cascades(num_users=16, num_cascades=60, seed=1)


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every step, for the predictor too, which keeps to the default."""
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "every_seconds", -1.0)


def collect(reports: Generator[Report, None, Trained], seen: list[Report]) -> tuple[list[Report], int]:
    """All the reports, without the clock, and the epochs behind the best weights."""
    try:
        while True:
            seen.append(replace(next(reports), seconds=0.0))
    except StopIteration as end:
        trained: Trained = end.value
        assert trained.seconds_an_epoch >= 0
        return seen, trained.best_epoch


def run(
    world: CascadeWorld, schedule: Schedule = SCHEDULE, *, batches: int = -1, seed: int = 5, **options: Any
) -> Outcome:
    """Train a small HiDAN; with ``batches``, fail at the batch after so many."""
    torch.manual_seed(seed)
    model = HiDAN(SMALL, len(world.train.vocabulary))
    optimizer = make_optimizer(model, schedule)
    data, valid = (Windows(part, model.reach) for part in (world.train, world.valid))
    seen: list[Report] = options.pop("seen", [])
    figures: list[float] = options.pop("figures", [])
    watched = partial(next, iter(figures)) if figures else partial(mean_loss, model, valid)
    checkpoint = Checkpoint(options.pop("checkpoint", None), options.pop("resume", False))
    reports = train(
        model,
        Failing(data, batches),
        watched,
        schedule,
        optimizer=optimizer,
        seed=seed,
        checkpoint=checkpoint,
        every_seconds=-1.0,
        **options,
    )
    seen, epochs = collect(reports, seen)
    moments = {name: tensor.clone() for name, tensor in optimizer_tensors(model, optimizer).items()}
    return Outcome(dict(model.state_dict()), moments, seen, epochs)


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Bit for bit."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


# --- the same bytes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(world: CascadeWorld) -> Outcome:
    """The run that nobody interrupts."""
    return run(world)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(world: CascadeWorld, whole: Outcome) -> None:
    again = run(world)
    assert tensor_bytes(again.weights) == tensor_bytes(whole.weights)
    assert tensor_bytes(again.moments) == tensor_bytes(whole.moments)
    assert again.reports == whole.reports
    assert not torch.equal(run(world, seed=6).weights["users.weight"], whole.weights["users.weight"])


def test_what_happened_before_does_not_change_the_bytes(world: CascadeWorld, whole: Outcome) -> None:
    model = HiDAN(SMALL, len(world.train.vocabulary))
    torch.manual_seed(5)
    model = HiDAN(SMALL, len(world.train.vocabulary))
    torch.rand(17)  # a draw between making the model and training it
    optimizer = make_optimizer(model, SCHEDULE)
    data, valid = (Windows(part, model.reach) for part in (world.train, world.valid))
    for _ in train(model, data, partial(mean_loss, model, valid), SCHEDULE, optimizer=optimizer, seed=5):
        torch.rand(3)  # and what the caller draws between two reports
    assert_same(dict(model.state_dict()), whole.weights)


def test_a_report_a_step_and_one_at_the_end_of_an_epoch(whole: Outcome) -> None:
    places = [(report.epoch, report.step, report.valid is not None, report.stopped) for report in whole.reports]
    expected = [(epoch, step, False, False) for epoch in range(1, 5) for step in (1, 2, 3)]
    for epoch in range(1, 5):
        expected.insert(4 * epoch - 1, (epoch, 3, True, epoch == 4))
    assert places == expected
    assert {(report.stage, report.epochs, report.steps) for report in whole.reports} == {("fit", 4, 3)}


# --- resume ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", range(13))
def test_a_run_that_failed_within_an_epoch_goes_on_bit_for_bit(
    world: CascadeWorld, whole: Outcome, tmp_path: Path, batches: int
) -> None:
    checkpoint, seen = tmp_path / "checkpoint", list[Report]()
    with pytest.raises(InterruptionError):  # after 12, all 4 epochs of 3 steps, the first batch is looked at again
        run(world, batches=batches, checkpoint=checkpoint, seen=seen)
    assert checkpoint.exists() == (batches > 0)
    resumed = run(world, checkpoint=checkpoint, resume=True)
    assert_same(resumed.weights, whole.weights)
    assert_same(resumed.moments, whole.moments)
    assert seen + resumed.reports == whole.reports
    assert resumed.epochs == whole.epochs


def test_a_run_killed_many_times_goes_on_bit_for_bit(world: CascadeWorld, whole: Outcome, tmp_path: Path) -> None:
    checkpoint, seen = tmp_path / "checkpoint", list[Report]()
    for batches in (2, 1, 3, 1, 4):
        with pytest.raises(InterruptionError):
            run(world, batches=batches, checkpoint=checkpoint, resume=True, seen=seen)
    resumed = run(world, checkpoint=checkpoint, resume=True, seen=seen)
    assert_same(resumed.weights, whole.weights)
    assert_same(resumed.moments, whole.moments)
    assert resumed.reports == whole.reports


@pytest.mark.parametrize("batches", [3 * 2, 3 * 2 + 1, 3 * 3 + 1])
def test_resume_remembers_which_epoch_was_best(world: CascadeWorld, tmp_path: Path, batches: int) -> None:
    # Best in epoch 2, three checks waited: epoch 5 is the last. The interruption lies before, in or after epoch 3.
    waiting, figures = replace(SCHEDULE, epochs=8, patience=3), [3.0, 2.0, 2.5, 2.6, 2.4]
    whole = run(world, waiting, figures=figures)
    assert (whole.epochs, whole.reports[-1].epoch) == (2, 5)
    with pytest.raises(InterruptionError):
        run(world, waiting, figures=figures, batches=batches, checkpoint=tmp_path / "c")
    resumed = run(world, waiting, figures=figures[batches // 3 :], checkpoint=tmp_path / "c", resume=True)
    assert resumed.epochs == 2
    assert_same(resumed.weights, whole.weights)
    assert_same(resumed.moments, whole.moments)


def test_without_a_checkpoint_resume_starts_anew(world: CascadeWorld, whole: Outcome, tmp_path: Path) -> None:
    found = run(world, checkpoint=tmp_path / "none", resume=True)
    assert found.reports == whole.reports
    assert_same(found.weights, whole.weights)


def test_without_resume_a_checkpoint_is_not_read(world: CascadeWorld, whole: Outcome, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"rubbish")
    assert run(world, checkpoint=tmp_path / "c").reports == whole.reports


def test_a_table_can_grow_in_place_after_a_checkpoint(tmp_path: Path) -> None:
    model = nn.Embedding(3, 2)
    save_state(tmp_path / "c", model, make_optimizer(model, SCHEDULE), {"of": "this"})
    model.weight.data.resize_(4, 2)
    assert torch.equal(load_file(tmp_path / "c")["model.weight"], model.weight[:3])


def test_a_checkpoint_of_another_run_is_refused(world: CascadeWorld, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(InterruptionError):
        run(world, batches=2, checkpoint=checkpoint, fingerprint="one")
    for changes in (
        {"fingerprint": "two"},
        {"fingerprint": "one", "seed": 6},
        {"fingerprint": "one", "schedule": replace(SCHEDULE, learning_rate=0.03)},
    ):
        with pytest.raises(SettingError) as caught:
            run(world, checkpoint=checkpoint, resume=True, **changes)
        assert str(caught.value) == OTHER_RUN.format(checkpoint)


def foreign(path: Path) -> None:
    path.write_bytes(tensor_bytes({"a": torch.zeros(3)}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize(
    "damage", [cut, Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"\xff" * 99)]
)
def test_a_damaged_checkpoint_is_refused(world: CascadeWorld, tmp_path: Path, damage: Any) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(InterruptionError):
        run(world, batches=2, checkpoint=checkpoint)
    damage(checkpoint)
    if damage is Path.unlink:
        checkpoint.mkdir()
    with pytest.raises(ModelFolderError) as caught:
        run(world, checkpoint=checkpoint, resume=True)
    start, end = f"{checkpoint}: the checkpoint is damaged (", "); start without --resume"
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith(end)
    assert "\n" not in str(caught.value)


def test_tensors_that_are_no_checkpoint_are_refused(world: CascadeWorld, tmp_path: Path) -> None:
    foreign(tmp_path / "c")
    with pytest.raises(EnsueError) as caught:
        run(world, checkpoint=tmp_path / "c", resume=True)
    assert str(caught.value) == OTHER_RUN.format(tmp_path / "c")


def test_a_checkpoint_that_cannot_be_written_says_so(world: CascadeWorld, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelFolderError, match="cannot be written"):
        run(world, checkpoint=tmp_path / "file" / "c")


# --- early stopping, worked out by hand ------------------------------------------------------------------------------


class One:
    """One target a batch; nothing to move."""

    num_targets = 1

    def to(self, _: torch.device) -> One:
        return self


class Single:
    """A source of one batch."""

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        return [np.zeros(1, np.int64)]

    def groups(self, targets: int) -> Iterator[Index]:
        yield np.zeros(1, np.int64)

    def batch(self, index: Index) -> Any:
        return One()


class Scripted(nn.Module):
    """A model whose losses are written down beforehand. Its gradient is 1, so that Adam steps by the learning rate."""

    def __init__(self, valid: list[float], start: float = 0.0, train_losses: list[float] | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([start], dtype=torch.float64))
        self.valid, self.train_losses = iter(valid), iter(train_losses or [])

    def loss(self, _: One) -> Tensor:
        if not self.training:
            return torch.tensor(next(self.valid))
        return self.weight.sum() - self.weight.detach().sum() + next(self.train_losses, 1.0)


def play(model: Scripted, schedule: Schedule, *, valid: bool = True) -> tuple[list[Report], int]:
    optimizer = make_optimizer(model, schedule)
    watched = partial(mean_loss, model, Single()) if valid else None
    return collect(train(model, Single(), watched, schedule, optimizer=optimizer, seed=0), [])


def plain(**changes: Any) -> Schedule:
    """Steps of exactly 1 (Adam divides the gradient by its own size), no decay."""
    return replace(Schedule(epochs=9, learning_rate=1.0, weight_decay=0.0, patience=2), **changes)


def test_patience_counts_checks_without_a_better_loss_and_the_best_weights_come_back() -> None:
    # Best: 3, 2 (epoch 2); then 2.5 and 2, which equals but does not beat it: two checks waited, so 4 is the last.
    model = Scripted([3.0, 2.0, 2.5, 2.0, 0.0])
    reports, epochs = play(model, plain())
    checks = [report for report in reports if report.valid is not None]
    assert [(c.epoch, c.valid, c.best, c.stopped) for c in checks] == [
        (1, 3.0, 3.0, False),
        (2, 2.0, 2.0, False),
        (3, 2.5, 2.0, False),
        (4, 2.0, 2.0, True),
    ]
    assert epochs == 2
    torch.testing.assert_close(model.weight.detach(), torch.tensor([-2.0], dtype=torch.float64))  # two steps of -1


def test_weights_that_nothing_moves_any_more_are_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = list[float]()
    monkeypatch.setattr(loop, "save_state", lambda path, model, optimizer, facts: saved.append(model.weight.item()))
    play(Scripted([3.0, 2.0, 1.0]), plain(epochs=3))
    assert saved == pytest.approx([-1.0, -2.0])  # after the third epoch they stay as they are


def test_a_better_loss_starts_the_waiting_anew() -> None:
    # Epoch 2 waits once, epoch 3 is better, 4 and 5 wait: the end, with the weights of epoch 3.
    model = Scripted([3.0, 4.0, 2.0, 4.0, 4.0, 0.0])
    reports, epochs = play(model, plain())
    assert (epochs, reports[-1].epoch) == (3, 5)
    assert model.weight.item() == pytest.approx(-3)


def test_watching_mrr_more_is_better() -> None:
    figures = iter([0.1, 0.3, 0.2, 0.3])  # best in epoch 2; 0.2 and an equal 0.3 wait
    model, schedule = Scripted([]), plain(monitor="mrr")
    reports = train(model, Single(), lambda: next(figures), schedule, optimizer=make_optimizer(model, schedule), seed=0)
    seen, epochs = collect(reports, [])
    assert (epochs, seen[-1].epoch, seen[-1].best) == (2, 4, 0.3)


@pytest.mark.parametrize(
    ("figures", "best", "last"),
    [
        ([0.1] * 20, 1, 9),  # never learned: 4 x 2 checks are waited, not 2
        ([0.1, 0.1, 0.1, 0.1, 0.15, 0.1, 0.3, 0.2, 0.2], 7, 9),  # .15 is still hardly; from .3 on it is 2 again
        ([0.1, 0.3, 0.2, 0.2], 2, 4),
    ],
)
def test_patience_is_longer_while_hardly_anything_is_learned(figures: list[float], best: int, last: int) -> None:
    model, schedule, left = Scripted([]), plain(monitor="mrr", epochs=15), iter(figures)
    optimizer = make_optimizer(model, schedule)
    reports = train(model, Single(), lambda: next(left), schedule, optimizer=optimizer, seed=0, min_useful_metric=0.15)
    seen, epochs = collect(reports, [])
    assert (epochs, seen[-1].epoch, [report.epoch for report in seen if report.stopped]) == (best, last, [last])


def test_a_loss_is_hardly_learned_while_it_is_not_below() -> None:
    model, schedule, left = Scripted([]), plain(), iter([3.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0])
    optimizer = make_optimizer(model, schedule)
    reports = train(model, Single(), lambda: next(left), schedule, optimizer=optimizer, seed=0, min_useful_metric=2.0)
    seen, epochs = collect(reports, [])
    assert (epochs, seen[-1].epoch) == (5, 7)


def test_check_every_looks_at_each_second_epoch_and_at_the_last() -> None:
    model = Scripted([3.0, 2.0, 1.0])  # epochs 2, 4 and 5
    reports, epochs = play(model, plain(epochs=5, check_every=2))
    assert [report.epoch for report in reports if report.valid is not None] == [2, 4, 5]
    assert epochs == 5


def test_without_validation_data_all_epochs_run_and_the_last_weights_stay() -> None:
    model = Scripted([])
    reports, epochs = play(model, plain(epochs=4), valid=False)
    assert (epochs, reports[-1].epoch, reports[-1].stopped) == (4, 4, True)
    assert model.weight.item() == pytest.approx(-4)


def test_the_optimiser_goes_back_with_the_weights() -> None:
    model, schedule = Scripted([1.0, 2.0, 2.0]), plain()
    optimizer = make_optimizer(model, schedule)
    watched = partial(mean_loss, model, Single())
    collect(train(model, Single(), watched, schedule, optimizer=optimizer, seed=0), [])
    # Best after one step: m = (1 - 0.9) * 1, v = (1 - 0.999) * 1.
    moments = {name: tensor.item() for name, tensor in optimizer_tensors(model, optimizer).items()}
    assert moments == pytest.approx({"weight.step": 1.0, "weight.exp_avg": 0.1, "weight.exp_avg_sq": 0.001})


def test_weight_decay_adds_decay_times_weight_to_the_gradient() -> None:
    # The loss's own gradient is 1, the weight 4: with decay 0.5 Adam sees g = 1 + 0.5 * 4 = 3, so m = 0.1 * 3 and
    # v = 0.001 * 9 after one step.
    model, schedule = Scripted([], start=4.0), plain(epochs=1, weight_decay=0.5)
    optimizer = make_optimizer(model, schedule)
    collect(train(model, Single(), None, schedule, optimizer=optimizer, seed=0), [])
    moments = {name: tensor.item() for name, tensor in optimizer_tensors(model, optimizer).items()}
    assert moments == pytest.approx({"weight.step": 1.0, "weight.exp_avg": 0.3, "weight.exp_avg_sq": 0.009})


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_and_says_what_to_do(bad: float) -> None:
    model = Scripted([1.0, 1.0], train_losses=[1.0, 1.0, bad])
    with pytest.raises(SettingError) as caught:
        play(model, plain())
    assert str(caught.value) == f"the loss became {bad} in epoch 3; try a smaller learning_rate"


def test_a_validation_loss_that_is_no_number_stops_too() -> None:
    with pytest.raises(SettingError, match=re.escape("the loss became nan in epoch 2; try a smaller learning_rate")):
        play(Scripted([1.0, float("nan"), 1.0]), plain())


def test_a_real_model_that_diverges_says_so(world: CascadeWorld) -> None:
    predictor = NextPredictor("hidan", settings={"learning_rate": 1e30, "epochs": 5, "batch_size": 16}, device="cpu")
    with pytest.raises(SettingError, match=r"^the loss became (nan|inf) in epoch \d; try a smaller learning_rate$"):
        list(predictor.fit(world.train))


class Parabola(nn.Module):
    """A model whose loss is the square of its weight, 1 at first: Adam's first steps are as long as the rate."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def loss(self, _: One) -> Tensor:
        return self.weight.square().sum()


@pytest.mark.parametrize(("rate", "loss"), [(2.0, 1.0), (2.4, 1.96), (2.42, None), (1e9, None)])
def test_a_model_that_training_made_worse_is_refused(rate: float, loss: float | None) -> None:
    # One step from 1 to 1 - rate. On the first batch the loss was 1; what is above 2 is refused: 1.4^2, not 1.42^2.
    model, schedule = Parabola(), plain(epochs=1, learning_rate=rate)
    reports = train(model, Single(), None, schedule, optimizer=make_optimizer(model, schedule), seed=0)
    if loss is not None:
        collect(reports, [])
        assert model.weight.item() ** 2 == pytest.approx(loss, rel=1e-6)
        return
    with pytest.raises(SettingError) as caught:
        collect(reports, [])
    assert re.fullmatch(
        r"training made the model worse: its loss rose from 1 to \S+ on its first training batches; learning_rate "
        rf"is {re.escape(f'{rate:g}')}, try a smaller one",
        str(caught.value),
    )


class Greedy(Parabola):
    """A model that asks for more memory than there is."""

    def loss(self, _: One) -> Tensor:
        return self.weight.expand(2**50).clone().sum()


def test_a_batch_that_memory_does_not_suffice_for_is_said() -> None:
    model, schedule = Greedy(), plain(epochs=1)
    reports = train(model, Single(), None, schedule, optimizer=make_optimizer(model, schedule), seed=0)
    with pytest.raises(
        SettingError, match=r"^a batch of 1 with these settings does not fit into memory; make it small"
    ):
        collect(reports, [])


def test_the_mean_loss_weighs_targets_not_batches(world: CascadeWorld) -> None:
    torch.manual_seed(0)
    model = HiDAN(SMALL, len(world.valid.vocabulary)).train()
    source = Windows(world.valid, model.reach)
    every = source.batch(np.arange(len(source))).to("cpu")
    model.eval()
    with torch.no_grad():
        expected = float(model.loss(every))
    model.train()
    assert mean_loss(model, source, targets=5) == pytest.approx(expected, rel=1e-6)
    assert model.training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"patience": 0}, "patience is 0; it must be at least 1"),
        ({"check_every": 0}, "check_every is 0; it must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; it must be above 0"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0; it must be 0 or more"),
        ({"warm_up": 0}, "warm_up is 0; it must be at least 1, and decay off"),
        ({"warm_up": 10, "decay": True}, "warm_up is 10; it must be at least 1, and decay off"),
        ({"beta2": 1.0}, "beta2 is 1.0; it must be at least 0 and below 1"),
    ],
)
def test_a_schedule_without_meaning_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        Schedule(**changes)
    assert str(caught.value) == message


def test_the_warm_up_is_the_transformers() -> None:
    """Vaswani et al. 2017: width^-0.5 x min(step^-0.5, step x warm_up^-1.5), from step 1; its top is at warm_up."""
    width, warm_up = 512, 4000
    schedule = Schedule(learning_rate=(width * warm_up) ** -0.5, warm_up=warm_up)
    for step in (1, 100, 3999, 4000, 4001, 16_000):
        expected = width**-0.5 * min(step**-0.5, step * warm_up**-1.5)
        assert schedule.rate(step - 1, 10**6) == pytest.approx(expected, rel=1e-12)


def test_the_optimiser_takes_the_second_beta() -> None:
    """After one step Adam's mean of squares holds (1 - beta2) times the squared gradient: 0.02 x 3^2 = 0.18."""
    model = nn.Linear(1, 1, bias=False)
    optimizer = make_optimizer(model, Schedule(beta2=0.98, weight_decay=0.0))
    (3 * model.weight).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert optimizer.state[model.weight]["exp_avg_sq"].item() == pytest.approx(0.18)


# --- both stages of a predictor --------------------------------------------------------------------------------------

SETTINGS = {**asdict(SMALL), "epochs": 5, "batch_size": 16, "learning_rate": 0.3, "patience": 2}


def predictor_run(
    data: Histories,
    *,
    stop_after: int | None = None,
    settings: dict[str, Any] = SETTINGS,
    seed: int = 0,
    **options: Any,
) -> tuple[NextPredictor, list[Report]]:
    predictor = NextPredictor("hidan", settings=settings, seed=seed, device="cpu")
    reports = islice(predictor.fit(data, **options), stop_after)
    return predictor, [replace(report, seconds=0.0) for report in reports]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a model folder, without the one figure that tells how long it took."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def state(predictor: NextPredictor, folder: Path) -> dict[str, bytes]:
    predictor.save(folder)
    return contents(folder)


@pytest.fixture(scope="module")
def two_stages(world: CascadeWorld, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], list[Report]]:
    predictor, reports = predictor_run(world.train)
    return state(predictor, tmp_path_factory.mktemp("whole") / "m"), reports


def test_refit_learns_everything_for_as_many_epochs_as_were_best(
    world: CascadeWorld, two_stages: tuple[dict[str, bytes], list[Report]]
) -> None:
    files, reports = two_stages
    first = [report for report in reports if report.stage == "fit"]
    second = [report for report in reports if report.stage == "refit"]
    best = -max((report.valid, -report.epoch) for report in first if report.valid is not None)[1]
    assert 1 <= best < first[-1].epoch, "the case must tell the best epoch from the last"
    assert {report.epochs for report in second} == {best}
    assert second[-1].epoch == best
    assert second[-1].steps == 3  # 48 cascades; the first stage had 43 of them, which is 3 batches of 16 as well
    assert f'"epochs": {best}'.encode() in files["settings.json"]
    assert b'"held_out": "the last 5 of 48 in file order"' in files["settings.json"]
    # The second training is the same as one without any validation: from the same start, on all of the data.
    alone = NextPredictor("hidan", settings={**SETTINGS, "epochs": best}, device="cpu")
    assert alone.schedule is not None
    learn_values(alone, world.train)
    for _ in train_once(alone, world.train, None, "refit", NO_CHECKPOINT):
        pass
    assert tensor_bytes(module_of(alone.network).state_dict()) == files["model.safetensors"]


def test_without_refit_there_is_one_stage(world: CascadeWorld) -> None:
    _, reports = predictor_run(world.train, settings={**SETTINGS, "refit": False})
    assert {report.stage for report in reports} == {"fit"}
    _, reports = predictor_run(world.train, valid=world.valid, settings={**SETTINGS, "refit": False})
    assert {report.stage for report in reports} == {"fit"}


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.85, 0.95, "seam"])
def test_resume_is_exact_in_either_stage(
    world: CascadeWorld, tmp_path: Path, two_stages: tuple[dict[str, bytes], list[Report]], place: float | str
) -> None:
    files, reports = two_stages
    seam = sum(report.stage == "fit" for report in reports)
    number = seam if isinstance(place, str) else int(place * len(reports))
    checkpoint = tmp_path / "checkpoint"
    _, before = predictor_run(world.train, stop_after=number, checkpoint=checkpoint)
    predictor, after = predictor_run(world.train, checkpoint=checkpoint, resume=True)
    assert before + after == reports
    assert state(predictor, tmp_path / "m") == files


@pytest.mark.usefixtures("every_step")
def test_a_predictor_refuses_the_checkpoint_of_another_run(world: CascadeWorld, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    predictor_run(world.train, stop_after=4, checkpoint=checkpoint)
    others: list[tuple[Histories, dict[str, Any]]] = [
        (world.train.select(slice(1, None)), {}),
        (world.train.select(slice(None, None, -1)), {}),
        (world.train, {"settings": {**SETTINGS, "dropout": 0.3}}),
        (world.train, {"settings": {**SETTINGS, "patience": 3}}),
        (world.train, {"seed": 1}),
        (world.train, {"valid": world.valid}),
        (replace(world.train, times=world.train.times * 2), {}),
    ]
    for data, options in others:
        with pytest.raises(SettingError) as caught:
            predictor_run(data, checkpoint=checkpoint, resume=True, **options)
        assert str(caught.value) == OTHER_RUN.format(checkpoint)


# --- real processes --------------------------------------------------------------------------------------------------

FIT = [
    "--model=hidan",
    "--set=dim=8",
    "--set=table_dim=4",
    "--set=batch_size=8",
    "--set=learning_rate=0.01",
    "--device=cpu",
]
EAGER = (
    "from ensue import cli\n"
    "from ensue.training import loop\n"
    "loop.train.__kwdefaults__['every_seconds'] = -1.0\n"  # every step
    "cli.main()\n"
)
SIGNALLED = (  # the first rank sends itself a signal after the seventh step
    "import os, signal\n"
    "from ensue import cli\n"
    "from ensue.training import loop\n"
    "signal.signal(int(os.environ['SIGNAL']), signal.SIG_DFL)\n"  # whoever started the tests may ignore it (nohup)
    "own = loop._Run.keep\n"
    "def keep(run, seconds):\n"
    "    own(run, seconds)\n"
    "    if run.taken == 7 and seconds and os.environ.get('RANK', '0') == '0':\n"
    "        os.kill(os.getpid(), int(os.environ['SIGNAL']))\n"
    "loop._Run.keep = keep\n"
    "cli.main()\n"
)
KILLED_WRITING = (
    "import os\n"
    "from ensue import cli\n"
    "from ensue.training import checkpoint, loop\n"
    "own = checkpoint.TensorFile\n"
    "def chunks(tensors, metadata):\n"
    "    for number, chunk in enumerate(own(tensors, metadata)):\n"
    "        if number == 5 and metadata: os.kill(os.getpid(), 9)\n"
    "        yield chunk\n"
    "checkpoint.TensorFile = chunks\n"
    "loop.train.__kwdefaults__['every_seconds'] = -1.0\n"
    "cli.main()\n"
)
SLOW_START = (
    "import contextlib, time\n"
    "from ensue import cli\n"
    "from ensue.training import distributed\n"
    "distributed.ranks = contextlib.contextmanager(lambda: (yield print('begun', flush=True) or time.sleep(60)))\n"
    "cli.main()\n"
)
LONG, SHORT = ["--set=epochs=60", "--set=patience=60"], ["--set=epochs=4"]


@pytest.fixture(scope="module")
def log(world: CascadeWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training cascades as a file."""
    path = tmp_path_factory.mktemp("log") / "train.jsonl"
    path.write_text("".join(f"{record.to_json()}\n" for record in world.train.records()))
    return path


def fit(*arguments: object, code: str = PLAIN, more: Mapping[str, str] = MappingProxyType({})) -> Started:
    return Started("fit", "next", *arguments, *FIT, code=code, environment={"PYTHONWARNINGS": "error", **more})


def finish(process: Started) -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out + errors


@pytest.fixture(scope="module")
def whole_folder(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a short run that nobody interrupts."""
    output = tmp_path_factory.mktemp("whole") / "m"
    finish(fit(log, f"-o{output}", *SHORT))
    return contents(output)


def test_a_killed_process_goes_on_byte_for_byte(log: Path, tmp_path: Path) -> None:
    finish(fit(log, f"-o{tmp_path / 'whole'}", *LONG))
    output, checkpoint = tmp_path / "m", tmp_path / ".m.checkpoint"
    killed = fit(log, f"-o{output}", *LONG, code=EAGER)
    while not checkpoint.exists() and killed.poll() is None:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.4))
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, "the run was over before it could be killed"
    assert not output.exists()
    finish(fit(log, f"-o{output}", "--resume", *LONG))
    assert contents(output) == contents(tmp_path / "whole")
    assert [path.name for path in tmp_path.iterdir() if "checkpoint" in path.name] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_step_writes_a_checkpoint_and_says_so(
    log: Path, whole_folder: dict[str, bytes], tmp_path: Path, number: signal.Signals
) -> None:
    output, checkpoint = tmp_path / "m", tmp_path / ".m.checkpoint"
    stopped = fit(log, f"-o{output}", *SHORT, code=SIGNALLED, more={"SIGNAL": str(int(number))})
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 128 + number, errors
    assert "stopped; the same command with --resume continues from the last checkpoint" in errors
    assert "Traceback" not in errors and not output.exists()
    with safe_open(checkpoint, "pt") as file:
        assert json.loads(file.metadata()["counts"])["taken"] == 8  # the signal waited for the end of a step
    finish(fit(log, f"-o{output}", "--resume", *SHORT))
    assert contents(output) == whole_folder
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_process_killed_while_it_writes_a_checkpoint_leaves_nothing_for_good(
    log: Path, whole_folder: dict[str, bytes], tmp_path: Path
) -> None:
    output = tmp_path / "m"
    killed = fit(log, f"-o{output}", *SHORT, code=KILLED_WRITING)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob(".m.checkpoint.*.tmp")
    os.utime(left, (time.time() - 60,) * 2)
    finish(fit(log, f"-o{output}", "--resume", *SHORT))
    assert contents(output) == whole_folder
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_signal_before_the_first_step_says_that_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("sequence,item\na,x\na,y\n")
    stopped = fit(tmp_path / "log.csv", f"-o{tmp_path / 'm'}", code=SLOW_START)
    assert stopped.stdout.readline() == "begun\n"
    stopped.send_signal(signal.SIGTERM)
    _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 128 + signal.SIGTERM, errors
    assert "stopped before the first checkpoint; nothing is stored" in errors and "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


@pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)
def test_two_processes_learn_what_one_does(log: Path, tmp_path: Path) -> None:
    options = ["--set=epochs=3", "--set=dropout=0", "--seed=3"]
    alone = fit(log, f"-o{tmp_path / 'one'}", *options)
    launcher = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, "-m", "ensue", "fit", "next", str(log), f"-o{tmp_path / 'two'}", *options, *FIT]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error", "CUDA_VISIBLE_DEVICES": ""}
    together = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=120)
    assert together.returncode == 0, together.stderr
    finish(alone)
    one, two = (
        module_of(NextPredictor.load(tmp_path / name, device="cpu").network).state_dict() for name in ("one", "two")
    )
    # A bias of the keys moves all scores of a softmax alike: its gradient is rounding noise, which Adam blows up.
    del one["context.bias"], two["context.bias"]
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def start_nodes(node: Path, port: int, *arguments: object, code: str = PLAIN) -> list[Started]:
    """Two ranks as `torchrun` starts them on two nodes: each with a folder of its own."""
    given = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "SIGNAL": "15"}
    return [
        fit(*arguments, f"-o{node / str(rank) / 'm'}", *SHORT, code=code, more={**given, "RANK": str(rank)})
        for rank in (0, 1)
    ]


def ends(ranks: list[Started]) -> list[tuple[int | None, str]]:
    """Exit code and errors of each."""
    return [(process.returncode, errors) for process in ranks for _, errors in (process.communicate(timeout=120),)]


@pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)
def test_two_nodes_without_a_shared_disk_go_on_from_the_first_ones_checkpoint(
    log: Path, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    whole, node = tmp_path / "whole", tmp_path / "node"
    assert [code for code, _ in ends(start_nodes(whole, free_port(), log))] == [0, 0]
    stopped = ends(start_nodes(node, free_port(), log, code=SIGNALLED))
    assert [code for code, _ in stopped] == [128 + signal.SIGTERM] * 2, stopped
    assert "continues from the last checkpoint" in stopped[0][1]
    assert not any("Traceback" in errors for _, errors in stopped)
    assert [path.name for path in (node / "1").iterdir()] == []  # one rank writes, the other needs no disk

    checkpoint = node / "0" / ".m.checkpoint"
    kept = checkpoint.read_bytes()
    checkpoint.write_bytes(kept[:-5])
    for code, errors in ends(start_nodes(node, free_port(), log, "--resume")):
        (line,) = (line for line in errors.splitlines() if line.startswith("ensue: "))
        assert code == 2 and "the checkpoint is damaged" in line and "Traceback" not in errors
    checkpoint.write_bytes(kept)

    assert [code for code, _ in ends(start_nodes(node, free_port(), log, "--resume"))] == [0, 0]
    assert contents(node / "0" / "m") == contents(whole / "0" / "m")
    assert not (node / "1" / "m").exists()


def test_here_is_alone_outside_a_group() -> None:
    assert group.rank_and_size() == (0, 1)


class Picked(NamedTuple):
    """A batch of rows that are looked up again and again."""

    ids: Tensor
    num_targets: int

    def to(self, device: torch.device) -> Picked:
        return self


class Lookup(nn.Module):
    """A table whose rows are picked by plain indexing, as most people would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(7, 16, generator=torch.Generator().manual_seed(0)))
        self.plan: Any = None

    def loss(self, batch: Picked) -> Tensor:
        places = torch.arange(len(batch.ids))[:, None]
        return (self.table[batch.ids] * (places / 7).sin()).square().mean()


class Rows:
    """Batches of :class:`Picked`."""

    def batch(self, index: Index) -> Picked:
        return Picked(torch.from_numpy(np.random.default_rng(int(index[0])).integers(7, size=60_001)), 60_001)


def test_the_same_seed_gives_the_same_bytes_on_several_threads() -> None:
    before, found = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    try:
        for _ in range(6):
            model = Lookup()
            plan = [np.array([step]) for step in range(4)]
            optimizer = make_optimizer(model, SCHEDULE)
            one_pass(model, Rows(), plan, optimizer=optimizer, rate=0.1, seed=0)  # type: ignore[arg-type]
            found.add(model.table.detach().numpy().tobytes())
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1
    assert not torch.are_deterministic_algorithms_enabled()  # what others do with torch is their own affair


def test_a_checkpoint_holds_no_second_copy_of_the_model(tmp_path: Path) -> None:
    """Peaks of two processes over a table of 117 MB, with its moments 352: checkpoints may add a tensor, not a model.

    What writes files takes about 150 MB, however small the model is.
    """
    script = Path(__file__).parents[2] / "benchmarks" / "checkpoints.py"
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    found = [
        json.loads(finish(Started("--rows=240000", "--child", *more, code=code))) for more in ([], [tmp_path / "c"])
    ]
    assert found[1]["peak_mb"] - found[0]["peak_mb"] < 150 + 352
