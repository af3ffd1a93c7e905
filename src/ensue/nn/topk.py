"""Top-k of large score arrays and their normaliser."""

from __future__ import annotations

import torch
from torch import Tensor

from ensue.nn import fused_rows

_LINES = 64
_BRIEF = 2**15
"""So many scores are looked through before the columns are laid out."""
_CACHED = 2**18
"""Scores normalised at once."""


def topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` highest of each row, falling, and their places; all of them where there are fewer.

    A row is laid out as 64 lines of columns, and the highest of each column comes first: only the ``k`` columns whose
    highest are highest can hold one of the ``k`` highest of all. To look for so few among all is what takes the time.

    Args:
        scores: (rows, many).
        k: how many.
    """
    if (found := fused_rows.highest(scores, k)) is not None:
        return found
    width = scores.shape[1]
    columns = width // _LINES
    if columns <= 4 * k or scores.numel() <= _BRIEF:
        return scores.topk(min(k, width), dim=1)
    whole = columns * _LINES
    lines = scores[:, :whole].reshape(len(scores), _LINES, columns)
    chosen = lines.amax(1).topk(k, dim=1).indices
    held = lines.gather(2, chosen[:, None].expand(-1, _LINES, -1)).flatten(1)
    best, places = torch.cat([held, scores[:, whole:]], dim=1).topk(k, dim=1)
    line = torch.div(places, k, rounding_mode="floor")
    inside = line * columns + chosen.gather(1, places % k)
    return best, torch.where(places < k * _LINES, inside, places + (whole - k * _LINES))


def log_totals(scores: Tensor) -> Tensor:
    """(rows,) logsumexp of (rows, ids), a few rows at a time: what it needs beside them stays in the cache."""
    if (found := fused_rows.log_totals(scores)) is not None:
        return found
    totals, size = scores.new_empty(len(scores)), max(1, _CACHED // scores.shape[1])
    for low in range(0, len(scores), size):
        totals[low : low + size] = scores[low : low + size].logsumexp(dim=1)
    return totals
