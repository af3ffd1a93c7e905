"""The paper's baselines in the place of the AST: a CNN, a GRU and a bidirectional GRU over the same vectors of words.

Danovitch 2020, section 4.3: Kim's CNN (EMNLP 2014; widths 1 to 4 with 300 filters each, projected to 300), a GRU of
300 units and a bidirectional one of 150 a side (Cho et al., EMNLP 2014). How each comes to one vector the paper does
not say: here the CNN by its maximum over time, the GRUs by the mean of their states. The last state of an article of
800 words remembers little of it: on PolitiFact's validation posts it ranks at an MRR of .02, the mean at .17.

**Departures.** A window of the CNN starts at every word, with zeros after the end of the text, so that a post of one
word has windows of every width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import masked_mean
from ensue.nn.gru import gru_states
from ensue.tasks.link.batch import Words

WINDOWS = (1, 2, 3, 4)
"""Words that a filter of the CNN sees."""


class CNN(nn.Module):
    """The largest value of each filter, through a ReLU and a projection.

    Args:
        dim: width of the words' vectors.
        width: of the text's.
        filters: of each window.
    """

    def __init__(self, dim: int, *, width: int = 300, filters: int = 300) -> None:
        super().__init__()
        self.width = width
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, filters, window) for window in WINDOWS)
        self.project = nn.Linear(filters * len(WINDOWS), width)

    def forward(self, words: Words) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        found = torch.cat([values for values, _, _ in self._largest(words)], 1)
        vectors: Tensor = self.project(found)
        return vectors * words.mask.any(1, keepdim=True)

    def weigh(self, words: Words) -> Tensor:
        """(rows, length) the share of the filters whose window lies on each word; rows sum to 1."""
        shares = [_on_windows(places, torch.ones_like(values)[:, None], words.mask, window)
                  for values, places, window in self._largest(words)]  # fmt: skip
        found = torch.stack(shares).sum(0)[:, 0]
        return found / found.sum(1, keepdim=True).clamp(min=1e-12)

    def parts(self, words: Words, others: Tensor) -> Tensor:
        """What each word adds to the product of its text's vector with others: (rows, others, length).

        A filter's part lies evenly on its window, the projection's bias on all words. Rows sum to the product.
        """
        carried = (others @ self.project.weight).chunk(len(self.convolutions), dim=2)
        found = (others @ self.project.bias)[..., None] * masked_mean(words.mask, others.dtype)[:, None]
        for (values, places, window), part in zip(self._largest(words), carried, strict=True):
            found = found + _on_windows(places, part * values[:, None], words.mask, window)
        return found * words.mask[:, None]

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
    found = values.new_zeros(*values.shape[:2], length + window - 1)
    counts = functional.pad(mask, (0, window - 1)).unfold(1, window, 1).sum(2).clamp(min=1)
    shares = values / counts.gather(1, places)[:, None]
    for shift in range(window):
        found.scatter_add_(2, (places + shift)[:, None].expand_as(shares), shares)
    return found[..., :length] * mask[:, None]


class GRU(nn.Module):
    """The mean of a GRU's states.

    Args:
        dim: width of the words' vectors.
        width: of the text's: that of the state, or of both.
        both: whether a second GRU reads from the end, each with half the width.
    """

    def __init__(self, dim: int, *, width: int = 300, both: bool = False) -> None:
        super().__init__()
        self.width = width
        self.sides = nn.ModuleList(nn.GRU(dim, width // (1 + both), batch_first=True) for _ in range(1 + both))

    def forward(self, words: Words) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        shares = masked_mean(words.mask, words.vectors.dtype)[:, None]
        return torch.cat([(shares @ states)[:, 0] for states, _ in self._states(words)], 1)

    def weigh(self, words: Words) -> Tensor:
        """(rows, length) how far each word moved the mean, as a share; rows sum to 1."""
        sizes = [_in_place(moves.abs().sum(2), turned) for moves, turned in self._moves(words)]
        found = torch.stack(sizes).sum(0) * words.mask
        return found / found.sum(1, keepdim=True).clamp(min=1e-12)

    def parts(self, words: Words, others: Tensor) -> Tensor:
        """What each word adds to the product of its text's vector with others: (rows, others, length).

        Rows sum to the product.
        """
        found = others.new_zeros(*others.shape[:2], words.mask.shape[1])
        sides = zip(self._moves(words), others.chunk(len(self.sides), dim=2), strict=True)
        for (moves, turned), part in sides:
            found = found + _in_place(part @ moves.mT, turned)
        return found * words.mask[:, None]

    def _moves(self, words: Words) -> Iterator[tuple[Tensor, Tensor | None]]:
        """For each side: (rows, length, units) what each step adds to the mean of the states; the order it reads in.

        How far a step moves the state stays in all states after it: it counts by their share.
        """
        counts, steps = words.mask.sum(1, keepdim=True), torch.arange(words.mask.shape[1], device=words.mask.device)
        later = (counts - steps).clamp(min=0).to(words.vectors.dtype) / counts.clamp(min=1)
        for states, turned in self._states(words):
            moves = functional.pad(states, (0, 0, 1, 0)).diff(dim=1)
            yield moves * later[..., None], turned

    def _states(self, words: Words) -> Iterator[tuple[Tensor, Tensor | None]]:
        """For each side: (rows, length, units) states after each word; the order it reads in."""
        for side, turned in zip(self.sides, (None, _turned(words.mask)), strict=False):
            places = words.places if turned is None else words.places.gather(1, turned)
            yield gru_states(cast(nn.GRU, side), words.vectors, places, words.mask), turned


def _turned(mask: Tensor) -> Tensor:
    """(rows, length) the place of each word when every row is read from its end; padding stays where it is."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - steps, steps)


def _in_place(values: Tensor, turned: Tensor | None) -> Tensor:
    """(rows, …, length) values of steps as values of words."""
    if turned is None:
        return values
    return values.gather(-1, turned if values.dim() == 2 else turned[:, None].expand_as(values))
