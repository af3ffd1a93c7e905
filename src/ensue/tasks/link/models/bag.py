"""A text as the sum of its words' vectors, each by a weight that is learned: what every encoder of the frame stands on.

With V_w the vector of a word, e^(4 u_w) its weight and c how often a text holds it, a text is the sum over its distinct
words of (1 + ln c) e^u_w V_w, without its length. Where the weights are how rare words are (IDF; Sparck Jones 1972) and
the vectors are random, products of two texts are those of TF-IDF but for chance (Johnson & Lindenstrauss 1984), so that
what is learned starts from what counting gives.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.tasks.link.batch import Words

STEEP = 4.0
"""Factor of u: with one step size for all entries of a row, weights move that much faster."""
_LEAST = 1e-12


class _Cells(NamedTuple):
    owners: Tensor  # (cells,) the row that each distinct word of a row is of, not decreasing
    places: Tensor  # (cells,) which of the block's distinct words it is
    counts: Tensor  # (cells,) how often the row holds it
    shares: Tensor  # (cells,) 1 + ln(counts)


class Nothing(nn.Module):
    """Encoder with empty vectors, for a bag of words alone."""

    width = 0

    def forward(self, words: Words) -> Tensor:
        """(rows, 0)."""
        return words.vectors.new_zeros(len(words.mask), 0)

    def weigh(self, words: Words) -> Tensor:
        """(rows, length) zeros."""
        return words.vectors.new_zeros(words.mask.shape)

    def parts(self, words: Words, others: Tensor) -> Tensor:
        """(rows, others, length) zeros."""
        return others.new_zeros(*others.shape[:2], words.mask.shape[1])


def bag(words: Words, size: int) -> Tensor:
    """(rows, size) sums of length 1; 0 for a text without a word.

    Args:
        words: their vectors hold u last, and before it the ``size`` numbers that are added.
        size: numbers.
    """
    return functional.normalize(_sums(words, size, _cells(words)), dim=1, eps=_LEAST)


def bag_shares(words: Words, size: int) -> Tensor:
    """(rows, length) each word's share in the lengths of what is added; rows sum to 1."""
    cells = _cells(words)
    sizes = cells.shares * _weighted(words, size).norm(dim=1)[cells.places]
    shares = _by_word(words, cells, sizes)
    return shares / shares.sum(1, keepdim=True).clamp(min=_LEAST)


def bag_parts(words: Words, size: int, others: Tensor) -> Tensor:
    """(rows, others, length) what each word adds to the product of :func:`bag` with (rows, others, size) others.

    A word that stands several times adds as much at each of its places.
    """
    cells, weighted = _cells(words), _weighted(words, size)
    lengths = _sums(words, size, cells).norm(dim=1).clamp(min=_LEAST)
    added = weighted[cells.places] * (cells.shares / lengths[cells.owners])[:, None]
    products = (others[cells.owners] @ added[:, :, None])[..., 0]  # (cells, others)
    return torch.stack([_by_word(words, cells, own) for own in products.unbind(1)], 1)


def _weighted(words: Words, size: int) -> Tensor:
    """(distinct, size) e^(4 u_w) V_w."""
    return words.vectors[:, -1 - size : -1] * (STEEP * words.vectors[:, -1:]).exp()


def _sums(words: Words, size: int, cells: _Cells) -> Tensor:
    offsets = functional.pad(torch.bincount(cells.owners, minlength=len(words.mask)).cumsum(0), (1, 0))[:-1]
    return functional.embedding_bag(
        cells.places, _weighted(words, size), offsets, per_sample_weights=cells.shares, mode="sum"
    )


def _cells(words: Words) -> _Cells:
    """Each distinct word of each row once. Rows a b a | b b have the cells 0 a 2, 0 b 1 and 1 b 2."""
    distinct = max(len(words.vectors), 1)
    rows = torch.arange(len(words.mask), device=words.mask.device)[:, None]
    keys, counts = torch.unique((rows * distinct + words.places)[words.mask], return_counts=True)
    return _Cells(keys // distinct, keys % distinct, counts, 1 + counts.to(words.vectors.dtype).log())


def _by_word(words: Words, cells: _Cells, values: Tensor) -> Tensor:
    """(rows, length) values of cells, each in equal parts at the places where its word stands; 0 at padding."""
    spread = values.new_zeros(len(words.mask), max(len(words.vectors), 1))
    spread[cells.owners, cells.places] = values / cells.counts
    return spread.gather(1, words.places) * words.mask
