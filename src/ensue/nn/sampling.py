"""Losses over a few candidates in place of the whole catalogue, and the drawing of those candidates."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.vocabulary import FIRST

POWER = 0.5
"""Ids are drawn by their count to this power: between uniform (0) and by popularity (1)."""
PAIRS = 32
"""Negatives a target for the pairwise losses."""


class Sampler(nn.Module):
    """Draws ids with replacement, by their count to the power ``POWER``; uniformly until counts are given."""

    def __init__(self, num_ids: int) -> None:
        super().__init__()
        self.register_buffer("totals", torch.ones(num_ids))
        self.totals: Tensor

    def count(self, totals: Tensor) -> None:
        """(ids,) how often each id occurs; ids that never did are drawn as if they had once."""
        self.totals.copy_(totals.clamp(min=1))

    def shares(self) -> Tensor:
        """(ids,) the chance of each id; padding and unknown have none."""
        raised = self.totals.pow(POWER)
        raised[:FIRST] = 0
        return raised / raised.sum()

    def draw(self, *shape: int) -> Tensor:
        """Ids of the given shape."""
        ends = self.shares().double().cumsum(0)
        places = torch.rand(shape, dtype=torch.float64, device=ends.device) * ends[-1]
        return torch.searchsorted(ends, places, right=True).clamp(max=len(ends) - 1)


def sampled_cross_entropy(hidden: Tensor, items: nn.Embedding, targets: Tensor, sampler: Sampler, drawn: int) -> Tensor:
    """Softmax over the target and ``drawn`` negatives shared by the batch, a negative less log(its expected draws).

    So the sum over the negatives has the mean of the sum over the catalogue without the target (Bengio & Senécal 2008);
    a negative that is a row's own target is left out of that row.

    Args:
        hidden: (targets, dim).
        items: the table of candidates, ids as rows.
        targets: (targets,) ids.
        sampler: draws the negatives.
        drawn: how many.

    Returns:
        The mean over targets, in nats.
    """
    negatives = sampler.draw(drawn)
    expected = (sampler.shares() * drawn).log()
    own = (hidden * items(targets)).sum(1, keepdim=True)
    others = torch.addmm(-expected[negatives], hidden, items(negatives).T)
    others = others.masked_fill(negatives == targets[:, None], -torch.inf)
    loss: Tensor = (torch.cat([own, others], dim=1).logsumexp(1) - own[:, 0]).mean()
    return loss


def sampled_pairwise_loss(hidden: Tensor, items: nn.Embedding, targets: Tensor, sampler: Sampler) -> Tensor:
    """BPR on scores (Rendle et al. 2009): mean of -ln sigmoid(target's score - a negative's), ``PAIRS`` a batch row.

    Args:
        hidden: (targets, dim).
        items: the table of candidates.
        targets: (targets,) ids.
        sampler: draws the negatives.
    """
    negatives = sampler.draw(PAIRS)
    apart = (hidden * items(targets)).sum(1, keepdim=True) - hidden @ items(negatives).T
    return -functional.logsigmoid(apart)[negatives != targets[:, None]].mean()


def pairwise_softmax_loss(hidden: Tensor, items: nn.Embedding, targets: Tensor, sampler: Sampler) -> Tensor:
    """BPR on softmax outputs, as SANSR's Eqs. 7-8 print it: each pair's loss lies in [0.313, 1.313].

    Args:
        hidden: (targets, dim).
        items: the table of candidates.
        targets: (targets,) ids.
        sampler: draws the negatives.
    """
    negatives = sampler.draw(PAIRS)
    shares = (hidden @ items.weight[FIRST:].T).softmax(dim=1)
    apart = shares.gather(1, targets[:, None] - FIRST) - shares[:, negatives - FIRST]
    return -functional.logsigmoid(apart)[negatives != targets[:, None]].mean()
