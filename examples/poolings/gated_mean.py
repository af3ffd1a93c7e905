"""A pooling of your own for task ``classify``: the mean of the words, each behind a learned gate.

ensue fit classify reviews.csv -o mine --set pooling=examples/poolings/gated_mean.py:GatedMean
ensue evaluate mine test.csv --model examples/poolings/gated_mean.py:GatedMean
"""

import torch
from torch import Tensor, nn

from ensue.nn.pooling import Pooled


class GatedMean(nn.Module):
    """w_i ~ exp(u . tanh(W x_i)), normalised over the words of a text, which becomes the sum of w_i x_i."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.width = dim
        self.gate = nn.Sequential(nn.Linear(dim, 50), nn.Tanh(), nn.Linear(50, 1))

    def forward(self, vectors: Tensor, mask: Tensor) -> Pooled:
        """Pool (batch, words, dim) vectors of words; the (batch, words) mask is false at padding."""
        weights = self.gate(vectors)[..., 0].masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()
        return Pooled((weights[:, None] @ vectors)[:, 0], weights)
