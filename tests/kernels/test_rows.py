"""Compiled work on long rows against torch: totals, the highest, logarithms of a mixture; odd values and layouts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ensue.nn import sampling
from ensue.nn.dropout import Dropout
from ensue.nn.topk import log_totals, topk
from ensue.tasks.next.baselines.counting import log_mixture
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]
WIDTHS = [1, 3, 15, 16, 17, 64, 65, 1000, 5001]


def random(rows: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed + width))


def test_totals_equal_logsumexp(level: str) -> None:
    with using(level):
        for width in WIDTHS:
            scores = 30 * random(5, width)
            scores[1, ::2], scores[2] = -math.inf, -math.inf
            scores[3, 0], scores[4, width // 2] = math.inf, math.nan
            found = log_totals(scores)
            torch.testing.assert_close(found, scores.logsumexp(1), rtol=1e-6, atol=1e-6, equal_nan=True)
            wide = random(4, 2 * width)
            for layout in (wide[::2], wide[:, :width], wide[:1].expand(3, -1)):
                found = log_totals(layout)
                torch.testing.assert_close(found, layout.logsumexp(1), rtol=1e-6, atol=1e-6)


def by_loss(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, first: int) -> list[Tensor]:
    """The loss and its gradients, in float64."""
    parts = [part.clone().requires_grad_() for part in (hidden, weight, bias)]
    loss = sampling.linear_cross_entropy(parts[0], parts[1], parts[2], targets, first=first)
    return [part.double() for part in (loss.detach(), *torch.autograd.grad(loss, parts))]


@pytest.mark.parametrize("block", [1, 100_000])
def test_the_loss_over_all_ids_is_that_of_torch(level: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "BLOCK", block)
    for width in WIDTHS[1:]:
        hidden, weight, bias = 3 * random(9, 4), random(width, 4), random(1, width)[0]
        targets = torch.arange(9) % (width - 1) + 1
        bias[0] = 200.0  # where all others are next to nothing
        for first in (0, 1):
            with using(level):
                found = by_loss(hidden, weight, bias, targets, first)
            with using("off"):
                wanted = by_loss(hidden, weight, bias, targets, first)
            exact = by_loss(hidden.double(), weight.double(), bias.double(), targets, first)
            for own, other, true in zip(found, wanted, exact, strict=True):
                rounded = 3 * float((other - true).abs().max()) + 1e-6 * float(1 + true.abs().max())
                torch.testing.assert_close(own, true, rtol=0, atol=rounded)


def test_a_loss_of_numbers_that_are_none_is_none(level: str) -> None:
    with using(level):
        for width in (3, 64, 70):
            scores, bias = random(2, width), torch.zeros(width)
            scores[0, width - 1] = math.nan
            found = sampling.softmax_errors(scores, bias, torch.tensor([0, 1]))
            assert found[1][0].isnan() and found[1][1].isfinite()


def test_a_target_that_there_is_not_is_refused(level: str) -> None:
    with using(level):
        for wanted in (-1, 5):
            with pytest.raises(IndexError):
                sampling.softmax_errors(random(2, 5), torch.zeros(5), torch.tensor([0, wanted]))


def test_units_are_dropped_as_by_torch(level: str) -> None:
    for shape in ((0,), (1,), (3, 7), (400, 1000)):
        units, layer = torch.randn(shape, generator=torch.Generator().manual_seed(3)), Dropout(0.3)
        made = []
        for path in (level, "off"):
            own = units.mT.clone().mT.requires_grad_() if units.dim() > 1 else units.clone().requires_grad_()
            torch.manual_seed(4)
            with using(path):
                out = layer(own)
                made.append((out, *torch.autograd.grad((out * units).sum(), own)))
        for one, other in zip(*made, strict=True):
            assert torch.equal(one, other)


def test_the_highest_are_those_of_a_stable_sort(level: str) -> None:
    with using(level):
        for width in WIDTHS:
            for k in (1, 2, 20, 256):
                rows = [random(2, width), random(2, width).round(), torch.arange(2.0 * width).view(2, width)]
                rows += [rows[2].flip(1), torch.full((2, width), -math.inf), random(4, 2 * width)[::2, :width]]
                rows[0][0, width // 2] = math.nan
                rows[0][1, 0] = math.inf
                for scores in rows:
                    found = topk(scores, k)
                    best, places = scores.sort(dim=1, descending=True, stable=True)
                    torch.testing.assert_close(found[0], best[:, :k], rtol=0, atol=0, equal_nan=True)
                    assert torch.equal(found[1], places[:, :k])


def test_a_mixture_equals_its_literal_sum(level: str) -> None:
    with using(level):
        for width in WIDTHS:
            totals = random(1, width)[0].abs()
            totals[0], totals[-1] = 0.0, 1e-40  # the last is no normal number
            cells = torch.randint(3 * width, (40,), generator=torch.Generator().manual_seed(1))
            cells[1:4] = cells[0]  # several addends of one cell
            added = random(1, 40)[0].abs()
            popularity = 0.5 * max(1.0, float(totals.sum()))
            found = torch.from_numpy(log_mixture(totals.numpy(), popularity, 3, cells.numpy(), added.numpy()))
            exact = (0.5 * totals.double()).repeat(3, 1)
            exact.view(-1).index_add_(0, cells, added.double())
            torch.testing.assert_close(found.double(), exact.log(), rtol=1e-5, atol=1e-6)


def test_what_does_not_suit_is_left_to_torch(level: str) -> None:
    with using(level):
        for scores in (random(2, 5).double(), random(5, 4).t(), random(2, 3)[:0], random(2, 3).requires_grad_()):
            torch.testing.assert_close(log_totals(scores), scores.logsumexp(1))
            torch.testing.assert_close(topk(scores, 2)[0], scores.topk(2, dim=1).values)
        wide = random(2, 900)
        assert torch.equal(topk(wide, 257)[1], wide.topk(257, dim=1).indices) and topk(wide, 0)[0].shape == (2, 0)
