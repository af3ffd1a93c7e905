"""Item features: what is known of an item besides its id becomes a part of its vector.

Categories, words and numbers of an item are weighted tokens (:mod:`ensue.data.item_features` makes them), and the
features' part of a vector is the weighted sum of the tokens' embeddings. It is added to the learned row of the id. In
training some rows are dropped, so that features alone must carry an item: an item without any event then has a vector
as good as its features are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

ID_DROPOUT = 0.2
"""Probability that the learned row of an id is dropped from a vector in training."""


class ItemFeatures(nn.Module):
    """The features' part of the vectors of items.

    Args:
        tokens: (ids, width) int64, the tokens of each id, filled up with 0.
        weights: (ids, width) float32, the weight of each token; 0 where ``tokens`` is 0.
        num_tokens: rows of the embedding, token 0 included.
        dim: width of a vector.
        std: standard deviation of the embeddings at the start.
    """

    def __init__(self, tokens: Tensor, weights: Tensor, num_tokens: int, dim: int, *, std: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=std)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
        # The tokens belong to the item table of the model folder, which is written once, not once per network layer.
        self.register_buffer("tokens", tokens, persistent=False)
        self.register_buffer("weights", weights, persistent=False)
        self.tokens: Tensor
        self.weights: Tensor

    def forward(self, ids: Tensor | slice) -> Tensor:
        """Return the weighted sums of the tokens of some ids, (…, dim)."""
        tokens, weights = self.tokens[ids], self.weights[ids]
        # The bag wants one row per sum, so all leading dimensions become one and are restored afterwards.
        sums = functional.embedding_bag(
            tokens.flatten(0, -2),
            self.embedding.weight,
            mode="sum",
            per_sample_weights=weights.flatten(0, -2).to(self.embedding.weight.dtype),
            padding_idx=0,
        )
        return sums.view(*tokens.shape[:-1], -1)

    def add_to(self, rows: Tensor, ids: Tensor | slice) -> Tensor:
        """Return the vectors of some ids, (…, dim): learned rows, of which training drops some, plus features.

        Args:
            rows: (…, dim) the learned row of each id.
            ids: which ids, (…).
        """
        if self.training:
            kept = torch.rand(rows.shape[:-1], device=rows.device) >= ID_DROPOUT
            rows = rows * kept[..., None]
        features: Tensor = self(ids)
        return rows + features
