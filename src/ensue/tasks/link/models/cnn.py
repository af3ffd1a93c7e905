"""A CNN in the place of the AST, one of the paper's baselines: the largest value of each filter over a text.

Kim, Convolutional neural networks for sentence classification, EMNLP 2014, as Danovitch 2020 (section 4.3) has it:
windows of 1 to 4 words with 300 filters each, projected to 300.

**Departures.** A window starts at every word, with zeros after the end of the text, so that a post of one word has
windows of every width. With ``residual`` the projection, which starts at 0, is added to the mean of the words' vectors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.tasks.link.batches import DistinctWords

WINDOWS = (1, 2, 3, 4)
"""Words that a filter of the CNN sees."""


class CNN(nn.Module):
    """The largest value of each filter, through a ReLU and a projection.

    Args:
        dim: width of the words' vectors.
        width: of the text's; with ``residual`` it is ``dim``.
        filters: of each window.
        residual: whether it starts as the mean of the words' vectors.
    """

    def __init__(self, dim: int, *, width: int = 300, filters: int = 300, residual: bool = False) -> None:
        super().__init__()
        self.width = width = dim if residual else width
        self.residual = residual
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, filters, window) for window in WINDOWS)
        self.project = nn.Linear(filters * len(WINDOWS), width)
        if residual:
            nn.init.zeros_(self.project.weight)
            nn.init.zeros_(self.project.bias)

    def forward(self, words: DistinctWords) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        # (rows, dim, length), with zeros at padding, so that a window may end after the text.
        vectors = (words.spread(words.vectors) * words.mask[..., None]).transpose(1, 2)
        # The largest value of each filter over the words of a text.
        maxima = []
        for convolution in self.convolutions:
            # Zeros after the end, so that every word begins a window.
            window = int(convolution.kernel_size[0])  # type: ignore[index]
            scores = convolution(functional.pad(vectors, (0, window - 1)))
            maxima.append(scores.masked_fill(~words.mask[:, None], torch.finfo(scores.dtype).min).max(2).values)
        projected: Tensor = self.project(functional.relu(torch.cat(maxima, 1)))
        vectors = projected * words.mask.any(1, keepdim=True)
        return vectors + words.mean() if self.residual else vectors
