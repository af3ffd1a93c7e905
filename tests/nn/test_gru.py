"""A GRU with its gradient in closed form: torch's own is the oracle."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ensue.nn.gru import gru_states

DIM, UNITS, DISTINCT = 3, 5, 6


def made_up(lengths: tuple[int, ...], width: int, dtype: torch.dtype) -> tuple[nn.GRU, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    gru = nn.GRU(DIM, UNITS, batch_first=True).to(dtype)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return gru, torch.randn(DISTINCT, DIM, dtype=dtype), torch.randint(DISTINCT, mask.shape), mask


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [(7, 7, 4, 1), (1, 4, 7, 4), (0, 3), (6,), (0,)])
def test_states_and_gradients_are_those_of_torch(lengths: tuple[int, ...], dtype: torch.dtype) -> None:
    gru, vectors, index, mask = made_up(lengths, 8, dtype)
    pull = torch.randn(*mask.shape, UNITS, dtype=dtype) * mask[..., None]
    parts = [vectors.requires_grad_(), *gru.parameters()]
    found, expected = gru_states(gru, vectors, index, mask), gru(vectors[index])[0]
    torch.testing.assert_close(found[mask], expected[mask])
    given = torch.autograd.grad((found * pull).sum(), parts)
    wanted = torch.autograd.grad((expected * pull).sum(), parts)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_right_by_differences() -> None:
    gru, vectors, index, mask = made_up((4, 2), 4, torch.float64)

    def states(*_: Tensor) -> Tensor:  # the weights are changed where they are
        return gru_states(gru, vectors, index, mask) * mask[..., None]

    assert torch.autograd.gradcheck(states, (vectors.requires_grad_(), *gru.parameters()))


def test_padding_is_invisible() -> None:
    gru, vectors, index, mask = made_up((4, 2), 6, torch.float64)
    changed, expected = torch.where(mask, index, (index + 1) % DISTINCT), gru_states(gru, vectors, index, mask)
    torch.testing.assert_close(gru_states(gru, vectors, changed, mask)[mask], expected[mask])
    alone = gru_states(gru, vectors, index[1:, :2], mask[1:, :2])
    torch.testing.assert_close(alone[0], expected[1, :2])
    assert expected.isfinite().all()
