"""The papers' equations as literal loops in float64: one history, one step, one user at a time. Slow and plain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def softmax(scores: Sequence[Tensor]) -> list[Tensor]:
    highest = max(float(score) for score in scores)
    powers = [torch.exp(score - highest) for score in scores]
    return [power / sum(powers) for power in powers]
