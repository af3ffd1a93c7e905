"""A GRU and a bidirectional one in the place of the AST, two of the paper's baselines: the mean of their states.

Cho et al., Learning phrase representations using RNN encoder-decoder, EMNLP 2014, as Danovitch 2020 (section 4.3) has
it: 300 units, or 150 a side.

**Departures.** How states come to one vector the paper does not say: here by their mean. The last state of an article
of 800 words remembers little of it: on PolitiFact's validation posts it ranks at an MRR of .02, the mean at .17. With
``residual`` a projection of it, which starts at 0, is added to the mean of the words' vectors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import masked_mean
from ensue.nn.recurrent import GRULayer
from ensue.tasks.link.batches import DistinctWords


class GRU(nn.Module):
    """The mean of a GRU's states.

    Args:
        dim: width of the words' vectors.
        width: of the state, or of both; the text's too, but with ``residual``, where that is ``dim``.
        both: whether a second GRU reads from the end, each with half the width.
        residual: whether it starts as the mean of the words' vectors.
    """

    def __init__(self, dim: int, *, width: int = 300, both: bool = False, residual: bool = False) -> None:
        super().__init__()
        self.width = dim if residual else width
        self.project = nn.Linear(width, dim, bias=False) if residual else None
        if self.project is not None:
            nn.init.zeros_(self.project.weight)
        self.sides = nn.ModuleList(GRULayer(dim, width // (1 + both), batch_first=True) for _ in range(1 + both))

    def forward(self, words: DistinctWords) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        weights = masked_mean(words.mask, words.vectors.dtype)[:, None]
        directions = (words.places, words.places.gather(1, _reversed(words.mask)))
        means = []
        # The second layer, if there is one, reads from the end.
        for layer, places in zip(self.sides, directions, strict=False):
            states = layer(functional.embedding(places, words.vectors))[0]  # (rows, length, units)
            means.append((weights @ states)[:, 0])
        vectors = torch.cat(means, 1)
        return vectors if self.project is None else words.mean() + self.project(vectors)


def _reversed(mask: Tensor) -> Tensor:
    """Return the position of each word when every row is read from its end, (rows, length); padding stays in place."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - steps, steps)
