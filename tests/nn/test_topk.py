"""The highest scores, found by columns, are those that sorting finds."""

from __future__ import annotations

import pytest
import torch

from ensue.nn.topk import topk
from tests.kernels.paths import on_both_paths

pytestmark = on_both_paths


@pytest.mark.parametrize(("rows", "width"), [(1, 3), (2, 640), (1, 1300), (9, 5000), (1, 40_000), (4, 21_260)])
@pytest.mark.parametrize("k", [1, 5])
def test_the_highest_are_those_that_sorting_finds(rows: int, width: int, k: int) -> None:
    scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(width + k))
    scores[:, ::7] = -torch.inf
    best, places = topk(scores, k)
    assert torch.equal(best, scores.sort(descending=True).values[:, :k])
    assert torch.equal(scores.gather(1, places), best)
    nothing = torch.full((1, width), -torch.inf)
    assert torch.equal(topk(nothing, k)[0], nothing[:, : min(k, width)])
