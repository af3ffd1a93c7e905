"""Adam on some rows of a table, compiled, against torch's on a copy of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ensue.training.optimizer import RowAdam
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]


def moved(level: str, width: int, touched: int, decay: float, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """A table and its moments after some steps, each with a step size of its own."""
    draws, ids = torch.Generator().manual_seed(width + touched), 3 * touched + 1
    table = nn.Parameter(torch.randn(ids, width, generator=draws).to(dtype))
    optimizer = RowAdam([table], lr=1e-3, betas=(0.9, 0.99), weight_decay=decay, fused=True)
    with using(level):
        for step in range(1, 5):
            optimizer.param_groups[0]["lr"] = step * 1e-3
            rows = torch.randperm(ids, generator=draws)[:touched].sort().values
            grad = torch.randn(touched, width, generator=draws).to(dtype)
            grad[: touched // 3] = 0.0
            table.grad = torch.sparse_coo_tensor(
                rows[None], grad, table.shape, is_coalesced=True, check_invariants=False
            )
            optimizer.step()
    state = optimizer.state[table]
    return [table.detach(), *(state[field] for field in ("step", "exp_avg", "exp_avg_sq"))]


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_it_is_torchs_adam(level: str, decay: float) -> None:
    for width, touched in ((1, 1), (3, 5), (15, 40), (16, 40), (17, 40), (128, 3000), (130, 0)):
        found, wanted, exact = (
            moved(path, width, touched, decay, dtype)
            for path, dtype in ((level, torch.float32), ("off", torch.float32), ("off", torch.float64))
        )
        for own, other, true in zip(found, wanted, exact, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-6)
            if own.numel():  # and it is no further from what is true than torch's is
                assert (own - true).abs().max() <= 2 * (other - true).abs().max() + 1e-7


def test_doubles_and_tables_in_pieces_are_left_to_torch(level: str) -> None:
    assert moved(level, 8, 5, 0.0, torch.float64)[0].dtype == torch.float64
    for width in (8, 9):
        table = nn.Parameter(torch.ones(width, 20).T)
        optimizer = RowAdam([table], lr=0.5, fused=True)
        with using(level):
            table.grad = torch.sparse_coo_tensor(
                torch.tensor([[2, 7]]), torch.ones(2, width), table.shape, is_coalesced=True, check_invariants=False
            )
            optimizer.step()
        assert (table.detach() != 1).any(1).nonzero()[:, 0].tolist() == [2, 7]
        torch.testing.assert_close(table.detach()[[2, 7]], torch.full((2, width), 0.5))


def test_rows_that_there_are_not_are_refused_before_anything_is_moved(level: str) -> None:
    for row in (-1, 20):
        table = nn.Parameter(torch.ones(20, 4))
        optimizer = RowAdam([table], lr=0.5, fused=True)
        table.grad = torch.sparse_coo_tensor(
            torch.tensor([[3, row]]), torch.ones(2, 4), table.shape, is_coalesced=True, check_invariants=False
        )
        with using(level), pytest.raises(IndexError, match="adam_rows was given an index"):
            optimizer.step()
        assert (table == 1).all() and not optimizer.state[table]["step"]
