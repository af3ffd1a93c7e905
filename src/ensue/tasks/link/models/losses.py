"""Losses over a batch of articles and posts, of which any number may be related.

A post that is about an article is never its negative, however the two came into the batch.

Danovitch 2020, section 3.6: a triplet loss with the article as the anchor, mined as Wang et al., Multi-similarity loss
with general pair weighting, CVPR 2019, Eqs. 4 and 5 mine. The paper prints no constants: a margin of .15 and a mining
epsilon of .1 are those of the author's earlier program, and the mean is taken over triplets that still lose something,
lest easy ones drown the rest. ``contrastive_loss`` is not in the paper.

Both take the cosines of all articles with all posts. Of vectors of length 1, the squared distance is 2 - 2 cos.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def mine(cosines: Tensor, related: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Pairs worth learning: (articles, posts) bool of the positives, and of the negatives.

    A positive is kept if it is less similar than the article's most similar negative and ``epsilon``, a negative if it
    is more similar than the article's least similar positive less ``epsilon``. An article without a positive, or
    without a negative, keeps none.

    Args:
        cosines: (articles, posts).
        related: (articles, posts) bool.
        epsilon: how far a pair may be on the right side.
    """
    # The extreme of an empty set is infinite, so nothing passes below.
    hardest_positive = cosines.masked_fill(~related, torch.inf).amin(1, keepdim=True)
    hardest_negative = cosines.masked_fill(related, -torch.inf).amax(1, keepdim=True)
    return related & (cosines < hardest_negative + epsilon), ~related & (cosines > hardest_positive - epsilon)


def triplet_loss(cosines: Tensor, related: Tensor, *, margin: float = 0.15, epsilon: float = 0.1) -> Tensor:
    """Mean of max(0, |a - t|^2 - |a - t'|^2 + margin) over the mined triplets (a, t, t') where it is not 0.

    Args:
        cosines: (articles, posts).
        related: (articles, posts) bool.
        margin: by how much a negative should be farther than a positive, in squared distance.
        epsilon: of the mining.

    Returns:
        A number; 0, with a gradient of 0, where nothing is mined.
    """
    positives, negatives = mine(cosines.detach(), related, epsilon)
    articles, posts = positives.nonzero(as_tuple=True)
    # Squared distances of unit vectors are 2 - 2 cos.
    losses = 2 * (cosines[articles] - cosines[articles, posts][:, None]) + margin  # (positives, posts)
    losses = functional.relu(losses) * negatives[articles]
    return losses.sum() / (losses > 0).sum().clamp(min=1)


def contrastive_loss(cosines: Tensor, related: Tensor, *, temperature: float = 0.05) -> Tensor:
    """Return the contrastive loss of posts given articles and of articles given posts.

    The mean over the related pairs of -log(e^(s / T) / (e^(s / T) + sum of e^(n / T) over the negatives n)), and the
    mean of both directions (van den Oord et al. 2018, where other positives are left out).

    Args:
        cosines: (articles, posts).
        related: (articles, posts) bool.
        temperature: T.

    Returns:
        A number; 0, with a gradient of 0, where nothing is related or all is.
    """
    scores = cosines / temperature
    # Other positives of a row are no negatives.
    hidden = scores.masked_fill(related, torch.finfo(scores.dtype).min)
    losses_by_axis = (torch.logaddexp(hidden.logsumexp(axis, keepdim=True), scores) - scores for axis in (0, 1))
    return torch.stack([losses[related].sum() for losses in losses_by_axis]).sum() / (2 * related.sum().clamp(min=1))
