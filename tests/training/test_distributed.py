"""Ranks of one training: gradients are summed to the same bytes on every rank, and no table travels whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed

from tests.processes import Started

WORLD = 3
CHILD = """
import sys
import torch
from safetensors.torch import save_file
from torch import distributed, nn
from ensue.training.distributed import GradientSums, ranks

message_sizes = []
for name in ("all_reduce", "all_gather"):
    collective = getattr(distributed, name)
    def counted(*arguments, collective=collective, **options):
        message_sizes.extend(part.numel() for part in arguments if isinstance(part, torch.Tensor))
        return collective(*arguments, **options)
    setattr(distributed, name, counted)
with ranks() as (rank, world):
    table, unused, dense = (nn.Parameter(torch.zeros(*shape)) for shape in ((50_000, 4), (7, 4), (3, 2)))
    summed = GradientSums([table, unused, dense], {table, unused})
    found = {}
    for step in range(3):  # the last two as the first, after a step that touches 1,000 rows
        table.grad = dense.grad = None
        if rank < 2:  # the third rank has no part of this batch
            ids = torch.tensor([[5, 2, 5, 49_999], [7, 5, 2, 2]][rank])
            values = torch.full((4, 4), 0.1) * torch.arange(1, 5)[:, None] * (rank + 1)
            if step == 1:
                ids, values = torch.arange(1000), torch.ones(1000, 4)
            table.grad = torch.sparse_coo_tensor(ids[None], values, table.shape, check_invariants=False)
            dense.grad = torch.full((3, 2), rank + 0.5)
        totals = summed(torch.tensor([rank + 0.25, 1, 2 * (rank == 1)], dtype=torch.float64), divisor=2)
        if step == 0:
            found["longest message"] = torch.tensor(max(message_sizes))
        parts = {"rows": table.grad.indices()[0], "values": table.grad.values(), "dense": dense.grad, "totals": totals}
        found |= {f"{name} {step}": part.clone() for name, part in parts.items()}
        assert table.grad.is_coalesced() and unused.grad.is_sparse and not unused.grad._nnz()
    save_file(found, f"{sys.argv[1]}/{rank}")
"""


@pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)
def test_rows_that_were_touched_are_summed_to_the_same_bytes(tmp_path: Path, free_port: Callable[[], int]) -> None:
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(WORLD)}
    processes = [
        Started(
            tmp_path, code=CHILD, environment={**common, "RANK": str(rank), "PYTHONWARNINGS": "error"},
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert len({(tmp_path / str(rank)).read_bytes() for rank in range(WORLD)}) == 1
    found = load_file(tmp_path / "0")
    # Rank 0 looks up 5 with .1 and .3, 2 with .2, 49,999 with .4; rank 1, twice as much: 7 .2, 5 .4, 2 .6 and .8.
    for step in (0, 2):
        assert found[f"rows {step}"].tolist() == [2, 5, 7, 49_999]
        expected = torch.tensor([0.2 + 0.6 + 0.8, 0.1 + 0.3 + 0.4, 0.2, 0.4]) / 2
        torch.testing.assert_close(found[f"values {step}"], expected[:, None].expand(4, 4))
        assert found[f"dense {step}"].tolist() == [[1.0, 1.0]] * 3  # (.5 + 1.5) / 2
        assert found[f"totals {step}"].tolist() == [0.25 + 1.25 + 2.25, 3, 2]
    assert torch.equal(found["rows 1"], torch.arange(1000)) and (found["values 1"] == 1).all()
    assert found["longest message"] == 3 * 4  # the three rows that a rank touched: never the table's 200,000 numbers


LAYERS = """
import sys
import torch
from safetensors.torch import save_file
from torch import distributed
from ensue.demo.cascades import make_cascades
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.settings import HiDANSettings
from ensue.schedule import Schedule
from ensue.training.distributed import ranks
from ensue.training.loop import train
from ensue.training.optimizer import by_row, make_optimizer

torch.set_num_threads(1)
data = make_cascades(num_cascades=60, seed=3).train
sent = [0]
own = distributed.all_reduce
def counted(tensor, *given, **named):
    sent[0] = max(sent[0], tensor.numel())
    return own(tensor, *given, **named)
distributed.all_reduce = counted
with ranks() as (rank, world):
    torch.manual_seed(0)
    # as many negatives as ids: all are gone through, by rows, and nothing is drawn; no dropout either
    num_ids = len(data.vocabulary)
    model = HiDAN(HiDANSettings(dim=8, table_dim=8, dropout=0.0, loss="sampled", negatives=num_ids), num_ids)
    schedule = Schedule(epochs=2, batch_size=16, weight_decay=0.0)
    optimizer = make_optimizer(model, schedule)
    for _ in train(model, Windows(data, model.reach), None, schedule, optimizer=optimizer, seed=0):
        pass
    dense = sum(p.numel() for p in model.parameters() if p not in by_row(model))
    assert world == 1 or sent[0] == dense, (sent, dense)
    save_file(model.state_dict(), f"{sys.argv[1]}/{world}-{rank}")
"""


@pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)
def test_two_ranks_learn_an_output_layer_by_rows_to_what_one_learns(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    alone = Started(tmp_path, code=LAYERS, environment={"PYTHONWARNINGS": "error"})
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    both = [
        Started(
            tmp_path,
            code=LAYERS,
            environment={**common, "RANK": str(rank), "PYTHONWARNINGS": "error"},
        )
        for rank in range(2)
    ]
    for process in (alone, *both):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert (tmp_path / "2-0").read_bytes() == (tmp_path / "2-1").read_bytes()
    one, two = load_file(tmp_path / "1-0"), load_file(tmp_path / "2-0")
    for name in one.keys() - {"context.bias"}:  # a softmax does not see it: its gradient is noise, made large by Adam
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=1e-6, msg=name)
