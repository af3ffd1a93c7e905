"""Scores of complete queries in one pass, with attributions, for every network of the task."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from ensue.tasks.suggest.batch import PADDING, spell
from ensue.tasks.suggest.model import Likelihood

Memory = TypeVar("Memory")


def score(writer: Likelihood[Memory], memory: Memory, candidates: Tensor) -> Tensor:
    """Log-probability of each candidate as the next query, its end included.

    Args:
        writer: of a network.
        memory: one row a session.
        candidates: (rows, choices, width) token ids, 0 at padding.

    Returns:
        (rows, choices) in nats; -inf for a candidate without tokens.
    """
    rows, choices, width = candidates.shape
    lengths = (candidates != PADDING).sum(2).flatten()
    totals = writer.likelihood(memory, *spell(candidates.reshape(rows * choices, width), lengths)).sum(1)
    return totals.masked_fill(lengths == 0, -torch.inf).view(rows, choices)


def put_in_place(shares: Tensor, places: Tensor, shape: tuple[int, int]) -> Tensor:
    """Attention over a memory as attention over the queries it was made of.

    Args:
        shares: (rows, width, source).
        places: (rows, source) where in turns x width each stands; -1 = nowhere, whose part goes to the others.
        shape: turns and width of the batch.

    Returns:
        (rows, width, turns, source width); each (turns x source width) sums to 1, or to 0 where there was nothing.
    """
    # Places [4 5 -1] in 3 turns x 4 words are words 0 and 1 of turn 1; what the end token got goes to these two.
    rows, width, _ = shares.shape
    shares = shares * (places >= 0)[:, None]
    shares = shares / shares.sum(2, keepdim=True).clamp(min=torch.finfo(shares.dtype).tiny)
    where = places.clamp(min=0)[:, None].expand_as(shares)
    return shares.new_zeros(rows, width, shape[0] * shape[1]).scatter_add(2, where, shares).view(rows, width, *shape)
