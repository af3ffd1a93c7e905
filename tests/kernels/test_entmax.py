"""Fused entmax against the code in torch: odd shapes, layouts and values, and what must not change a bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue.nn.normalisers import entmax, suits_kernel
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels
Found = tuple[Tensor, ...]


def run(level: str, scores: Tensor, alpha: float | Tensor, mask: Tensor | None, grad: Tensor) -> Found:
    """Weights and gradients."""
    scores = scores.detach().requires_grad_()
    given = alpha.detach().requires_grad_() if isinstance(alpha, Tensor) else alpha
    with using(level):
        weights = entmax(scores, given, mask)
        weights.backward(grad)  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    return (
        weights.detach(),
        scores.grad,
        *([given.grad] if isinstance(given, Tensor) and given.grad is not None else []),
    )


def drawn(seed: int) -> tuple[Tensor, float | Tensor, Tensor | None, Tensor]:
    """Scores, alpha, mask and gradient of some shape, layout and size."""
    draw, torch_draw = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    keys = int(draw.choice([1, 2, 5, 16, 17, 31, 64, 65, 100, 300]))
    shape = [*draw.integers(1, 6, draw.integers(0, 4)).tolist(), keys]

    def numbers() -> Tensor:
        base = torch.randn([*shape[:-1], 2 * keys], generator=torch_draw, dtype=torch.float64)
        layouts: list[Callable[[], Tensor]] = [
            lambda: base[..., :keys].contiguous(),
            lambda: base[..., ::2],
            lambda: base[..., :keys].movedim(-1, 0).contiguous().movedim(0, -1),
            lambda: base[..., :keys].mT.contiguous().mT if len(shape) > 1 else base[keys:],
            lambda: base[..., :1].expand(shape),
        ]
        return layouts[int(draw.integers(len(layouts)))]()

    alphas = 1 + torch.rand([*shape[:-1], 1], generator=torch_draw, dtype=torch.float64)
    if len(shape) > 1 and draw.random() < 0.5:
        alphas = alphas[:1]
    alpha: float | Tensor = float(draw.choice([1.2, 1.5, 2.0])) if draw.random() < 0.4 else alphas
    mask = torch.rand(shape, generator=torch_draw) < draw.choice([0.1, 0.7])
    mask = mask[..., :1] if draw.random() < 0.2 else mask[0] if len(shape) > 1 and draw.random() < 0.3 else mask
    return 10.0 ** draw.integers(-2, 3) * numbers(), alpha, mask if draw.random() < 0.6 else None, numbers()


@pytest.mark.parametrize("level", HERE)
def test_equals_the_reference_at_odd_shapes_and_layouts(level: str) -> None:
    for seed in range(150):
        scores, alpha, mask, grad = drawn(seed)
        expected = run("off", scores, alpha, mask, grad)
        found = run(level, scores, alpha, mask, grad)
        assert len(found) == len(expected)
        for ours, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, reference, rtol=1e-7, atol=1e-9, msg=f"seed {seed}")
        assert ((found[0] > 1e-12) == (expected[0] > 1e-12)).all()


@pytest.mark.parametrize("level", HERE)
def test_errors_in_float32_are_about_those_of_the_reference(level: str) -> None:
    draw = torch.Generator().manual_seed(0)
    for keys in (5, 30, 300):
        scores, grad = torch.randn(2000, keys, generator=draw), torch.randn(2000, keys, generator=draw)
        alpha = torch.linspace(1.05, 1.9, 2000)[:, None]
        exact = run("off", scores.double(), alpha.double(), None, grad.double())
        errors = [
            [float((part.double() - true).abs().mean()) for part, true in zip(parts, exact, strict=True)]
            for parts in (run(level, scores, alpha, None, grad), run("off", scores, alpha, None, grad))
        ]
        assert all(ours <= 1.05 * theirs for ours, theirs in zip(*errors, strict=True)), (keys, errors)


@pytest.mark.parametrize("keys", [5, 30, 100])
def test_neither_rows_beside_it_nor_threads_change_a_bit(keys: int) -> None:
    draw = torch.Generator().manual_seed(1)
    scores, grad = torch.randn(4001, keys, generator=draw), torch.randn(4001, keys, generator=draw)
    alpha = torch.linspace(1.1, 1.9, 4001)[:, None]
    whole, threads = run(HERE[-1], scores, alpha, None, grad), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for ours, again in zip(whole, run(HERE[-1], scores, alpha, None, grad), strict=True):
            assert torch.equal(ours, again)
    finally:
        torch.set_num_threads(threads)
    for part in (slice(7, 8), slice(100, 117), slice(3990, 4001)):
        alone = run(HERE[-1], scores[part], alpha[part], None, grad[part])
        for ours, again in zip(whole, alone, strict=True):
            assert torch.equal(ours[part], again)


@pytest.mark.parametrize("level", HERE)
def test_numbers_that_are_none_are_said_as_the_reference_does(level: str) -> None:
    for keys in (4, 100):
        scores = torch.zeros(5, keys)
        scores[0, 1], scores[1, 2], scores[2, 3], scores[3, :] = math.nan, math.inf, -math.inf, -math.inf
        mask = torch.ones(5, keys, dtype=torch.bool)
        mask[0, 0] = False
        for alpha in (1.3, 1.5, 2.0):
            for seen in (None, mask):
                with using("off"):
                    expected = entmax(scores, alpha, seen)
                with using(level):
                    torch.testing.assert_close(entmax(scores, alpha, seen), expected, equal_nan=True)


def test_what_does_not_fit_goes_the_other_way() -> None:
    scores = torch.zeros(2, 3)
    assert suits_kernel(scores, 1.5, None)
    assert not suits_kernel(scores.int(), 1.5, None)
    assert not suits_kernel(scores.to("meta"), 1.5, None)
    assert not suits_kernel(scores[0, 0], 1.5, None)
    assert not suits_kernel(scores, torch.ones(1, 2, 3, 1), None)
    assert not suits_kernel(scores, 1.5, scores)
    with pytest.raises(RuntimeError):  # as torch says it, and nothing is written
        entmax(scores, torch.ones(7, 1))
    assert entmax(torch.zeros(2, 0, 3), torch.tensor(1.5)).shape == (2, 0, 3)
    assert entmax(torch.zeros(1, 100_000), torch.tensor(1.5)).sum() == pytest.approx(1, abs=1e-4)
