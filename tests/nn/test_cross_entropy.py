"""The output layer with its loss: the same number and gradients as the two written apart."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from ensue.nn import sampling
from ensue.nn.sampling import linear_cross_entropy


def inputs(targets: int, choices: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(targets)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)
        for shape in ((targets, dim), (choices, dim), (choices,))
    )
    return hidden, weight, bias, torch.randint(choices, (targets,), generator=generator)


@pytest.mark.parametrize("block", [1, 7, 40, 2**21])
def test_equals_linear_then_cross_entropy(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(sampling, "BLOCK", block)
    hidden, weight, bias, targets = inputs(11, 5, 3)
    whole = functional.cross_entropy(functional.linear(hidden, weight, bias), targets)
    ours = linear_cross_entropy(hidden, weight, bias, targets)
    assert torch.allclose(ours, whole, rtol=0, atol=1e-13)
    for mine, theirs in zip(
        torch.autograd.grad(3 * ours, (hidden, weight, bias)),
        torch.autograd.grad(3 * whole, (hidden, weight, bias)),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-13)


def test_gradients_by_finite_differences() -> None:
    hidden, weight, bias, targets = inputs(4, 6, 2)
    assert torch.autograd.gradcheck(lambda h, w, b: linear_cross_entropy(h, w, b, targets), (hidden, weight, bias))


@pytest.mark.parametrize("block", [1, 2**21])
def test_lower_ids_are_no_choices(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(sampling, "BLOCK", block)
    hidden, weight, bias, targets = inputs(11, 5, 3)
    targets = targets.clamp(min=2)
    own = torch.autograd.grad(linear_cross_entropy(hidden, weight, bias, targets, first=2), (hidden, weight, bias))
    plain = functional.cross_entropy(functional.linear(hidden, weight[2:], bias[2:]), targets - 2)
    for mine, theirs in zip(own, torch.autograd.grad(plain, (hidden, weight, bias)), strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-13)


def test_large_scores_do_not_overflow() -> None:
    hidden, weight = torch.tensor([[1000.0]]), torch.tensor([[1.0], [-1.0]])
    # -log softmax([1000, -1000])[1] = 2000
    assert linear_cross_entropy(hidden, weight, torch.zeros(2), torch.tensor([1])).item() == 2000


def test_no_targets_give_zero_and_zero_gradients() -> None:
    hidden = torch.zeros(0, 3, requires_grad=True)
    loss = linear_cross_entropy(hidden, torch.ones(4, 3), torch.zeros(4), torch.zeros(0, dtype=torch.int64))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0 and hidden.grad is not None and hidden.grad.shape == (0, 3)
