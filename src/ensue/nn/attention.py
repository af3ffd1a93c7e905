"""The one masked softmax and the masks of sequence models. ``True`` means may be attended to, everywhere."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis where ``mask`` is ``True``; exactly 0 elsewhere.

    A row that may attend to nothing gets zeros (not NaN), and its gradient is zero.

    Args:
        scores: (…, keys) any finite numbers, also under the mask.
        mask: (…, keys) bool, broadcast against ``scores``.

    Returns:
        (…, keys) weights; each row sums to 1, or to 0 if fully masked.
    """
    hidden = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return hidden.softmax(dim=-1).masked_fill(~mask, 0.0)


def masked_mean(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Equal weights over the last axis where ``mask`` is ``True``: (…, keys), rows of sum 1, or 0 if fully masked."""
    return mask.to(dtype) / mask.sum(-1, keepdim=True).clamp(min=1)


@lru_cache(maxsize=256)
def band(time: int, *, reach: int | None, own: bool, device: torch.device | None = None) -> Tensor:
    """Which earlier steps a step may see: (time, time) bool, row = the step that looks, column = the step seen.

    The masks are kept and shared: do not write into them.

    Args:
        time: number of steps.
        reach: how many steps back are seen at most, the step itself counted if ``own``; ``None`` for all.
        own: whether a step sees itself.
        device: where the mask is made.
    """
    ones = torch.ones(time, time, dtype=torch.bool, device=device)
    visible = ones.tril(0 if own else -1)
    if reach is None:
        return visible
    return visible & ones.triu(1 - reach if own else -reach)
