"""A CNN in the place of the AST, one of the paper's baselines: the largest value of each filter over a text.

Kim, Convolutional neural networks for sentence classification, EMNLP 2014, as Danovitch 2020 (section 4.3) has it:
windows of 1 to 4 words with 300 filters each, projected to 300.

**Departures.** A window starts at every word, with zeros after the end of the text, so that a post of one word has
windows of every width. With ``residual`` the projection, which starts at 0, is added to the mean of the words' vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import masked_mean
from ensue.tasks.link.batch import Words

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

    def forward(self, words: Words) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        largest = torch.cat([values for values, _, _ in self._largest(words)], 1)
        vectors: Tensor = self.project(largest)
        vectors = vectors * words.mask.any(1, keepdim=True)
        return vectors + words.mean() if self.residual else vectors

    def weigh(self, words: Words) -> Tensor:
        """(rows, length) the share of the filters whose window lies on each word; half of it even with ``residual``.

        Rows sum to 1.
        """
        spread = [_on_windows(places, torch.ones_like(values)[:, None], words.mask, window)
                  for values, places, window in self._largest(words)]  # fmt: skip
        total = torch.stack(spread).sum(0)[:, 0]
        shares = total / total.sum(1, keepdim=True).clamp(min=1e-12)
        return (shares + masked_mean(words.mask, shares.dtype)) / 2 if self.residual else shares

    def parts(self, words: Words, others: Tensor) -> Tensor:
        """Return the contribution of each word to the product of its text's vector with others, (rows, others, length).

        A filter's part lies evenly on its window, the projection's bias on all words. Rows sum to the product.
        """
        carried = (others @ self.project.weight).chunk(len(self.convolutions), dim=2)
        products = (others @ self.project.bias)[..., None] * masked_mean(words.mask, others.dtype)[:, None]
        for (values, places, window), part in zip(self._largest(words), carried, strict=True):
            products = products + _on_windows(places, part * values[:, None], words.mask, window)
        products = products * words.mask[:, None]
        return products + words.mean_parts(others) if self.residual else products

    def _largest(self, words: Words) -> Iterator[tuple[Tensor, Tensor, int]]:
        """For each window: (rows, filters) largest values after the ReLU, (rows, filters) where they are, its size."""
        vectors = (words.spread(words.vectors) * words.mask[..., None]).mT
        for convolution in self.convolutions:
            window = int(convolution.kernel_size[0])  # type: ignore[index]
            scores = convolution(functional.pad(vectors, (0, window - 1)))
            values, places = scores.masked_fill(~words.mask[:, None], torch.finfo(scores.dtype).min).max(2)
            yield functional.relu(values), places, window


def _on_windows(places: Tensor, values: Tensor, mask: Tensor, window: int) -> Tensor:
    """(rows, others, filters) values, each spread evenly over the words of the window that starts at its place."""
    length = mask.shape[1]
    spread = values.new_zeros(*values.shape[:2], length + window - 1)
    counts = functional.pad(mask, (0, window - 1)).unfold(1, window, 1).sum(2).clamp(min=1)
    shares = values / counts.gather(1, places)[:, None]
    for shift in range(window):
        spread.scatter_add_(2, (places + shift)[:, None].expand_as(shares), shares)
    return spread[..., :length] * mask[:, None]
