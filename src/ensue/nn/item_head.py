"""What every model over a catalogue ends in: a score an id, and the loss of the ids that came."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.cross_entropy import linear_cross_entropy
from ensue.nn.sampling import Sampler, sampled_cross_entropy
from ensue.vocabulary import FIRST


def item_scores(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Scores (targets, ids), padding and unknown at -inf.

    Args:
        hidden: (targets, dim).
        weight: (ids, dim) a vector an id.
        bias: (ids,), or none.
    """
    scores = functional.linear(hidden, weight, bias)
    scores[:, :FIRST] = -torch.inf
    return scores


def item_loss(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None = None) -> Tensor:
    """Cross-entropy over all ids but padding and unknown: a mean over the targets, in nats.

    Args:
        hidden: (targets, dim).
        weight: (ids, dim) a vector an id.
        targets: (targets,) which id came.
        bias: (ids,), or none.
    """
    return linear_cross_entropy(hidden, weight, bias, targets, first=FIRST)


def table_loss(hidden: Tensor, items: nn.Embedding, targets: Tensor, sampler: Sampler, drawn: int | None) -> Tensor:
    """Cross-entropy over the target and so many drawn ids, or as :func:`item_loss` where none are drawn.

    Args:
        hidden: (targets, dim).
        items: the table of all ids.
        targets: (targets,) which id came.
        sampler: draws the negatives.
        drawn: how many; ``None`` for the whole catalogue.
    """
    if drawn is None:
        return item_loss(hidden, items.weight, targets)
    return sampled_cross_entropy(hidden, items, targets, sampler, drawn)
