"""Dropout: the share, the scale, the seed, and nothing at all in evaluation."""

from __future__ import annotations

import pytest
import torch

from ensue.nn.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.9])
def test_share_and_scale(share: float) -> None:
    torch.manual_seed(0)
    count = 400_000
    units = Dropout(share)(torch.ones(count))
    kept = units[units > 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - share)), rtol=1e-4)
    # Four standard deviations of a binomial share.
    assert abs(1 - len(kept) / count - share) < 4 * (share * (1 - share) / count) ** 0.5


def test_neighbours_are_independent() -> None:
    """Four units share one draw of 64 bits: no pair of lanes may go together."""
    torch.manual_seed(1)
    lanes = (Dropout(0.5)(torch.ones(100_000, 4)) > 0).double()
    correlation = torch.corrcoef(lanes.T) - torch.eye(4, dtype=torch.float64)
    assert correlation.abs().max() < 4 / 100_000**0.5


def test_gradient_is_the_mask() -> None:
    units = torch.ones(3, 5, dtype=torch.float64, requires_grad=True)
    out = Dropout(0.4)(units)
    (grad,) = torch.autograd.grad(out.sum(), units)
    assert torch.equal(grad, out)


def test_same_seed_same_units_and_evaluation_changes_nothing() -> None:
    layer, units = Dropout(0.3), torch.randn(7, 3)
    torch.manual_seed(2)
    first = layer(units)
    torch.manual_seed(2)
    assert torch.equal(first, layer(units))
    assert layer.eval()(units) is units
    assert Dropout(0.0)(units) is units
