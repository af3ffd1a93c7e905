"""Adam by rows: Adam where all rows are touched, the literal rule where they are not, and nothing elsewhere."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ensue import ModelFolderError
from ensue.learning.state import LateOptimizer
from ensue.schedule import Schedule
from ensue.store.pack import OPTIMIZER, tensor_bytes
from ensue.tasks.next.catalogue import MODELS
from ensue.training import optimizer
from ensue.training.optimizer import (
    by_row,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    saved_optimizer,
)
from tests.folders import resum
from tests.kernels.paths import on_both_paths
from tests.tasks.next.batches import pad

pytestmark = on_both_paths

ROWS, DIM, RATE = 9, 3, 0.05
PLAIN = Schedule(learning_rate=RATE, weight_decay=0.0)


class Lookup(nn.Module):
    """A table that is looked up, twice, and a matrix that every loss touches."""

    def __init__(self, rows: int = ROWS, *, sparse: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, DIM, padding_idx=0, sparse=sparse)
        self.matrix = nn.Linear(DIM, DIM)

    def loss(self, ids: Tensor) -> Tensor:
        """Squares, so that a row's gradient depends on how often it is asked for and on the row."""
        loss: Tensor = (self.matrix(self.table(ids)) - 1).square().mean() + self.table(ids[:2]).square().sum()
        return loss


def made(rows: int = ROWS, *, sparse: bool = True) -> Lookup:
    torch.manual_seed(3)
    return Lookup(rows, sparse=sparse)


def steps(model: Lookup, optimizer: torch.optim.Optimizer, batches: list[list[int]]) -> None:
    for batch in batches:
        optimizer.zero_grad()
        torch.autograd.backward(model.loss(torch.tensor(batch)))
        optimizer.step()


def random_batches(num: int, seed: int = 0) -> list[list[int]]:
    """Few of the rows each, with duplicates, padding among them, the last row never."""
    random = np.random.default_rng(seed)
    return [random.choice(random.choice(ROWS - 1, 3, replace=False), 7).tolist() for _ in range(num)]


def test_where_every_row_is_touched_it_is_adam() -> None:
    every = [[*range(1, ROWS), *extra] for extra in random_batches(20)]
    lazy, plain = made(), made(sparse=False)
    optimizer, adam = make_optimizer(lazy, PLAIN), torch.optim.Adam(plain.parameters(), lr=RATE)
    steps(lazy, optimizer, every)
    steps(plain, adam, every)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(lazy.state_dict()[name], tensor, rtol=0, atol=1e-6)
    found, expected = optimizer_tensors(lazy, optimizer), optimizer_tensors(plain, adam)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-6)


def test_each_row_follows_the_rule() -> None:
    """Against a loop over rows in double precision: a touched row's moments decay and move, with the global step."""
    model, batches = made(), random_batches(12)
    optimizer = make_optimizer(model, PLAIN)
    weights = model.table.weight.detach().double().clone()
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    for number, batch in enumerate(batches, 1):
        (grad,) = torch.autograd.grad(model.loss(torch.tensor(batch)), [model.table.weight])
        grad = grad.to_dense().double()
        for row in set(batch) - {0}:
            for at in range(DIM):
                slope = float(grad[row, at])
                mean[row, at] = 0.9 * mean[row, at] + 0.1 * slope
                square[row, at] = 0.999 * square[row, at] + 0.001 * slope**2
                first, second = mean[row, at] / (1 - 0.9**number), square[row, at] / (1 - 0.999**number)
                weights[row, at] -= RATE * float(first) / (math.sqrt(float(second)) + 1e-8)
        steps(model, optimizer, [batch])
        torch.testing.assert_close(model.table.weight.detach().double(), weights, rtol=0, atol=1e-5)
    state = optimizer.state[model.table.weight]
    torch.testing.assert_close(state["exp_avg"].double(), mean, rtol=0, atol=1e-6)
    torch.testing.assert_close(state["exp_avg_sq"].double(), square, rtol=0, atol=1e-6)
    assert int(state["step"]) == len(batches)


def test_rows_that_are_not_touched_stay_to_the_bit() -> None:
    model = made()
    optimizer = make_optimizer(model, PLAIN)
    steps(model, optimizer, [list(range(ROWS))] * 3)  # so that all moments stand away from 0, padding's apart
    before = {name: tensor.clone() for name, tensor in optimizer_tensors(model, optimizer).items()}
    table = model.table.weight.detach().clone()
    steps(model, optimizer, [[4, 2, 4, 0]] * 5)
    rest = [row for row in range(ROWS) if row not in (2, 4)]
    assert torch.equal(model.table.weight.detach()[rest], table[rest])
    assert (model.table.weight.detach()[[2, 4]] != table[[2, 4]]).all()
    for field in ("exp_avg", "exp_avg_sq"):
        name = f"table.weight.{field}"
        after = optimizer_tensors(model, optimizer)[name]
        assert torch.equal(after[rest], before[name][rest]) and before[name][1:].all()
        assert not torch.equal(after[[2, 4]], before[name][[2, 4]])


def test_padding_never_moves() -> None:
    model = made()
    steps(model, make_optimizer(model, PLAIN), [[0, 0, 1], [0, 0, 0]])
    assert not model.table.weight[0].any()


def test_it_goes_on_from_its_tensors_bit_for_bit() -> None:
    batches = random_batches(10)
    whole, part = made(), made()
    first, second = make_optimizer(whole, PLAIN), make_optimizer(part, PLAIN)
    steps(whole, first, batches)
    steps(part, second, batches[:4])
    loaded = made()
    loaded.load_state_dict(part.state_dict())
    third = make_optimizer(loaded, PLAIN)
    kept = {name: tensor.clone() for name, tensor in optimizer_tensors(part, second).items()}
    restore_optimizer(loaded, third, kept)
    steps(loaded, third, batches[4:])
    assert tensor_bytes(loaded.state_dict()) == tensor_bytes(whole.state_dict())
    assert tensor_bytes(optimizer_tensors(loaded, third)) == tensor_bytes(optimizer_tensors(whole, first))


class Learner:
    """Stands in for a predictor."""

    optimizer = LateOptimizer()


def saved(folder: Path, num: int) -> Lookup:
    """A model after some steps; its moments replace the folder's, as a rename does."""
    model = made()
    optimizer = make_optimizer(model, PLAIN)
    steps(model, optimizer, random_batches(num))
    (folder / "new").write_bytes(tensor_bytes(optimizer_tensors(model, optimizer)))
    (folder / "new").replace(folder / OPTIMIZER)
    resum(folder)
    return model


def test_an_optimiser_comes_into_being_when_it_is_asked_for_with_the_moments_that_stood(tmp_path: Path) -> None:
    model, learner, made_so_far = saved(tmp_path, 4), Learner(), []

    def make() -> torch.optim.Adam:
        made_so_far.append(1)
        return make_optimizer(model, PLAIN)

    learner.optimizer = saved_optimizer(tmp_path, model, make)
    assert not made_so_far
    saved(tmp_path, 9)  # another version takes the folder's place
    optimizer = learner.optimizer
    assert optimizer is not None and optimizer is learner.optimizer and len(made_so_far) == 1
    assert {float(own["step"]) for own in optimizer.state.values()} == {4.0}
    learner.optimizer = None
    assert learner.optimizer is None


def test_moments_of_another_model_and_half_a_file_are_refused_before_they_are_needed(tmp_path: Path) -> None:
    make = partial(make_optimizer, saved(tmp_path, 2), PLAIN)
    with pytest.raises(ValueError, match="belongs to another model"):
        saved_optimizer(tmp_path, nn.Linear(2, 2), make)
    (tmp_path / OPTIMIZER).write_bytes((tmp_path / OPTIMIZER).read_bytes()[:-3])
    resum(tmp_path)
    with pytest.raises(ModelFolderError, match=r"optimizer.safetensors: damaged \(.*\); fit the model again"):
        saved_optimizer(tmp_path, made(), make)
    (tmp_path / OPTIMIZER).unlink()
    with pytest.raises(ModelFolderError, match=r"optimizer\.safetensors is missing"):
        saved_optimizer(tmp_path, made(), make)


def test_moments_that_do_not_fit_are_refused_when_they_are_read(tmp_path: Path) -> None:
    saved(tmp_path, 2)
    fewer = made(ROWS - 1)
    make = saved_optimizer(tmp_path, fewer, partial(make_optimizer, fewer, PLAIN))
    with pytest.raises(ModelFolderError, match="damaged"):
        make()


def test_the_same_steps_give_the_same_bytes() -> None:
    found = set()
    for _ in range(2):
        model = made()
        optimizer = make_optimizer(model, PLAIN)
        steps(model, optimizer, random_batches(8))
        found.add(tensor_bytes(model.state_dict()) + tensor_bytes(optimizer_tensors(model, optimizer)))
    assert len(found) == 1


def test_moments_of_new_rows_start_at_nothing() -> None:
    model, longer = made(), made(ROWS + 2)
    optimizer, other = make_optimizer(model, PLAIN), make_optimizer(longer, PLAIN)
    steps(model, optimizer, random_batches(5))
    restore_optimizer(longer, other, optimizer_tensors(model, optimizer))
    for field in ("exp_avg", "exp_avg_sq"):
        moment = other.state[longer.table.weight][field]
        assert torch.equal(moment[:ROWS], optimizer.state[model.table.weight][field]) and not moment[ROWS:].any()


def test_the_rate_of_the_group_is_honoured() -> None:
    """Adam's first step is as long as the rate, in every place."""
    for rate in (0.5, 0.001, 0.0):
        model = made()
        optimizer = make_optimizer(model, PLAIN)
        optimizer.param_groups[0]["lr"] = rate
        before = model.table.weight.detach().clone()
        steps(model, optimizer, [[1, 5, 5, 7]])
        moved = (model.table.weight.detach() - before).abs()[[1, 5, 7]]
        torch.testing.assert_close(moved, torch.full_like(moved, rate), rtol=1e-3, atol=1e-6)


def test_with_l2_tables_are_dense_and_every_row_is_pulled() -> None:
    lazy, plain = made(), made(sparse=False)
    optimizer = make_optimizer(lazy, Schedule(learning_rate=RATE, weight_decay=0.1))
    assert not by_row(lazy)
    steps(lazy, optimizer, random_batches(5))
    steps(plain, torch.optim.Adam(plain.parameters(), lr=RATE, weight_decay=0.1, fused=True), random_batches(5))
    for name, tensor in plain.state_dict().items():
        assert torch.equal(lazy.state_dict()[name], tensor), name


def test_a_closure_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        make_optimizer(made(), PLAIN).step(lambda: 0.0)


@pytest.mark.parametrize(
    ("name", "options", "tables"),
    [
        ("sansr", {"loss": "sampled"}, 1),
        ("sansr", {"loss": "bpr"}, 1),
        ("sansr", {"loss": "ce"}, 0),
        ("sansr", {"loss": "bpr_softmax"}, 0),
        ("core", {"loss": "sampled"}, 1),
        ("core", {"loss": "ce"}, 0),
        ("stamp", {"loss": "sampled"}, 1),
        ("stamp", {"loss": "ce"}, 0),
        ("narm", {"loss": "sampled"}, 1),
        ("narm", {"loss": "ce"}, 0),
        ("gru4rec", {"loss": "bpr-max"}, 1),
        ("gru4rec", {"loss": "ce"}, 1),
        ("bpr-mf", {}, 1),
        ("fpmc", {}, 2),
        ("hidan", {}, 0),
    ],
)
def test_a_step_touches_the_rows_of_the_batch_and_of_the_draws(name: str, options: dict[str, str], tables: int) -> None:
    """Where a model says its table goes by rows, no dense gradient of it is made on the way."""
    _, defaults, schedule = MODELS[name]
    network = MODELS[name].make
    small = {"dim": 8, **({"negatives": 4} if hasattr(defaults, "negatives") else {}), **options}
    model = network(type(defaults)(**small), 500).train()
    assert schedule is not None
    optimizer = make_optimizer(model, schedule)
    assert len(by_row(model)) == tables
    before = {table: table.detach().clone() for table in by_row(model)}
    torch.autograd.backward(model.loss(pad([([2, 3, 5, 4, 2], [0.0] * 5), ([5, 2], [0.0] * 2)])))
    for table in before:
        assert table.grad is not None and table.grad.is_sparse
    optimizer.step()
    for table, old in before.items():
        moved = int((table.detach() != old).any(1).sum())
        assert 1 <= moved < 250, "few rows of 500"


def test_l2_pulls_at_the_touched_rows_of_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one step from the same rows the touched ones move as with a dense gradient, and no other row moves."""
    decaying = Schedule(learning_rate=RATE, weight_decay=0.1)
    dense, by_rows = made(), made()
    optimizers = [make_optimizer(dense, decaying)]
    monkeypatch.setattr(optimizer, "MAX_DECAYED_ROWS", ROWS - 1)
    optimizers.append(make_optimizer(by_rows, decaying))
    assert not dense.table.sparse and by_rows.table.sparse
    for model, one in zip((dense, by_rows), optimizers, strict=True):
        steps(model, one, [[2, 5, 2]])
    touched, others = [2, 5], [1, 3, 4, 6, 7, 8]
    torch.testing.assert_close(by_rows.table.weight[touched], dense.table.weight[touched])
    assert torch.equal(by_rows.table.weight[others], made().table.weight[others])
    assert not torch.equal(dense.table.weight[others], made().table.weight[others])
