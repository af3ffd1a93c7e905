"""Ranks of one training: gradients are summed to the same bytes on every rank, and no table travels whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed

from tests.processes import Started

WORLD, ROWS = 3, 50_000
CHILD = """
import sys
import torch
from safetensors.torch import save_file
from torch import distributed, nn
from ensue.training.distributed import rank_and_size, ranks, sum_gradients

sent = []
for name in ("all_reduce", "all_gather"):
    own = getattr(distributed, name)
    def counted(*given, own=own):
        sent.append(max(part.numel() for part in given if isinstance(part, torch.Tensor)))
        return own(*given)
    setattr(distributed, name, counted)
with ranks() as (rank, world):
    table, unused, dense = (nn.Parameter(torch.zeros(*shape)) for shape in ((50_000, 4), (7, 4), (3, 2)))
    if rank < 2:  # the third rank has no part of this batch
        ids = torch.tensor([[5, 2, 5, 49_999], [7, 5, 2, 2]][rank])
        values = torch.full((4, 4), 0.1) * torch.arange(1, 5)[:, None] * (rank + 1)
        table.grad = torch.sparse_coo_tensor(ids[None], values, table.shape, check_invariants=False)
        dense.grad = torch.full((3, 2), rank + 0.5)
    totals = sum_gradients([table, unused, dense], {table, unused}, torch.tensor([rank + 0.25, 1], dtype=torch.float64))
    found = {"rows": table.grad.indices()[0], "values": table.grad.values(), "dense": dense.grad, "totals": totals}
    assert table.grad.is_coalesced() and unused.grad.is_sparse and not unused.grad._nnz()
    save_file({**found, "longest message": torch.tensor(max(sent))}, f"{sys.argv[1]}/{rank}")
"""


@pytest.mark.skipif(
    not (distributed.is_available() and distributed.is_gloo_available()), reason="this torch has no gloo"
)
def test_rows_that_were_touched_are_summed_to_the_same_bytes(tmp_path: Path, free_port: Callable[[], int]) -> None:
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(WORLD)}
    processes = [
        Started(tmp_path, code=CHILD, environment={**common, "RANK": str(rank), "PYTHONWARNINGS": "error"})
        for rank in range(WORLD)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert len({(tmp_path / str(rank)).read_bytes() for rank in range(WORLD)}) == 1
    found = load_file(tmp_path / "0")
    # Rank 0 looks up 5 with .1 and .3, 2 with .2, 49,999 with .4; rank 1, twice as much: 7 .2, 5 .4, 2 .6 and .8.
    assert found["rows"].tolist() == [2, 5, 7, 49_999]
    expected = torch.tensor([0.2 + 0.6 + 0.8, 0.1 + 0.3 + 0.4, 0.2, 0.4])
    torch.testing.assert_close(found["values"], expected[:, None].expand(4, 4))
    assert found["dense"].tolist() == [[2.0, 2.0]] * 3  # .5 + 1.5
    assert found["totals"].tolist() == [0.25 + 1.25 + 2.25, 3]
    assert found["longest message"] <= 4 * 4  # four rows, padded to the longest rank's: never the table's 200,000
