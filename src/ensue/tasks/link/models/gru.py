"""A GRU and a bidirectional one in the place of the AST, two of the paper's baselines: the mean of their states.

Cho et al., Learning phrase representations using RNN encoder-decoder, EMNLP 2014, as Danovitch 2020 (section 4.3) has
it: 300 units, or 150 a side.

**Departures.** How states come to one vector the paper does not say: here by their mean. The last state of an article
of 800 words remembers little of it: on PolitiFact's validation posts it ranks at an MRR of .02, the mean at .17. With
``residual`` a projection of it, which starts at 0, is added to the mean of the words' vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import masked_mean
from ensue.nn.recurrent import GRULayer
from ensue.tasks.link.batch import Words


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

    def forward(self, words: Words) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        shares = masked_mean(words.mask, words.vectors.dtype)[:, None]
        made = torch.cat([(shares @ states)[:, 0] for states, _ in self._states(words)], 1)
        return made if self.project is None else words.mean() + self.project(made)

    def weigh(self, words: Words) -> Tensor:
        """(rows, length) how far each word moved the mean, as a share; half of it even with ``residual``.

        Rows sum to 1.
        """
        sizes = [_in_place(moves.abs().sum(2), turned) for moves, turned in self._moves(words)]
        shares = torch.stack(sizes).sum(0) * words.mask
        shares = shares / shares.sum(1, keepdim=True).clamp(min=1e-12)
        return shares if self.project is None else (shares + masked_mean(words.mask, shares.dtype)) / 2

    def parts(self, words: Words, others: Tensor) -> Tensor:
        """Return the contribution of each word to the product of its text's vector with others, (rows, others, length).

        Rows sum to the product.
        """
        products = others.new_zeros(*others.shape[:2], words.mask.shape[1])
        carried = others if self.project is None else others @ self.project.weight
        sides = zip(self._moves(words), carried.chunk(len(self.sides), dim=2), strict=True)
        for (moves, turned), part in sides:
            products = products + _in_place(part @ moves.mT, turned)
        products = products * words.mask[:, None]
        return products if self.project is None else products + words.mean_parts(others)

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
            yield side(functional.embedding(places, words.vectors))[0], turned


def _turned(mask: Tensor) -> Tensor:
    """(rows, length) the place of each word when every row is read from its end; padding stays where it is."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - steps, steps)


def _in_place(values: Tensor, turned: Tensor | None) -> Tensor:
    """(rows, …, length) values of steps as values of words."""
    if turned is None:
        return values
    return values.gather(-1, turned if values.dim() == 2 else turned[:, None].expand_as(values))
