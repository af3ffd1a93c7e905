"""Post-norm Transformer blocks: masked multi-head attention, encoder and decoder layers, and caches for decoding.

Vaswani et al., Attention is all you need, NeurIPS 2017: section 3.1 is the layers, 3.2 ``Attention``, 3.5
``sinusoids``. With the same weights the layers equal torch's ``TransformerEncoderLayer`` and
``TransformerDecoderLayer``. What those lack: rows that share what they read, zeros, not NaN, for a row that may attend
to nothing, and no work at padding: only attention sees padded rows, all else works on the items alone. To read one
token at a time, see :mod:`ensue.nn.incremental`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import band, masked_softmax
from ensue.nn.autograd import is_traced
from ensue.nn.dropout import Dropout

MAX_TRACED_LENGTH = 512
"""Positions that an exported graph knows."""


@lru_cache(maxsize=64)
def _table(length: int, dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # it is cached, and may meet a gradient later
        positions = torch.arange(length, dtype=torch.float64, device=device)[:, None]
        pairs = torch.arange(0, dim, 2, dtype=torch.float64, device=device)
        angles = positions * torch.exp(-math.log(10_000.0) * pairs / dim)
        return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :dim].to(dtype)


def sinusoids(length: int, dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return codes of the positions 0, 1, ...: sin and cos of position / 10000^(2 i / dim), in turn.

    Returns:
        (length, dim), shared with other callers: do not write into it.
    """
    if is_traced():  # of an exported graph any length is cut from one table
        return _table(MAX_TRACED_LENGTH, dim, dtype, device)[:length]
    # Round the length up to a power of two, so that the cache holds few tables.
    return _table(1 << max(length - 1, 15).bit_length(), dim, dtype, device)[:length]


class PackedRows(NamedTuple):
    """Positions of unpadded items in their padded rows.

    Attributes:
        rows: how many.
        length: of the longest.
        places: (items,) in rows x length, rising; ``None``: there is no padding.
    """

    rows: int
    length: int
    places: Tensor | None = None

    @classmethod
    def of(cls, mask: Tensor) -> PackedRows:
        """Return the positions of a mask, (rows, length) True at items."""
        if is_traced():
            # An exported graph computes padding too: its operators know no packed rows.
            return cls(mask.shape[0], mask.shape[1])
        return cls(mask.shape[0], mask.shape[1], mask.flatten().nonzero()[:, 0])

    def pad(self, items: Tensor) -> Tensor:
        """Return (rows, length, dim) of (items, dim), 0 at padding."""
        if self.places is not None:
            # Scatter the items to their positions in rows x length.
            items = items.new_zeros(self.rows * self.length, items.shape[1]).index_copy(0, self.places, items)
        return items.view(self.rows, self.length, items.shape[1])

    def pack(self, padded: Tensor) -> Tensor:
        """Return (items, dim) of (rows, length, dim); the first two axes may be split otherwise."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)


class Attention(nn.Module):
    """softmax(Q K' / sqrt(dim / heads)) V in each head, the heads side by side through W_O.

    Args:
        dim: width of what attends and of what is attended to; a multiple of ``heads``.
        heads: number of heads.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.inward = nn.Linear(dim, 3 * dim)  # W_Q over W_K over W_V
        self.outward = nn.Linear(dim, dim)  # W_O
        nn.init.xavier_uniform_(self.inward.weight)
        for layer in (self.inward, self.outward):
            nn.init.zeros_(layer.bias)

    def project(self, items: Tensor, rows: PackedRows) -> tuple[Tensor, Tensor]:
        """Return queries (rows, heads, length, dim / heads); keys and values (rows, 2, heads, length, dim / heads)."""
        # One product makes queries, keys and values of all heads.
        projections = self._split(rows.pad(self.inward(items)))
        return projections[:, 0], projections[:, 1:]

    def queries(self, items: Tensor, rows: PackedRows, sources: int) -> Tensor:
        """Return queries of (items, dim), (sources, heads, rows / sources x length, dim / heads)."""
        weight = self.inward.weight[: self.dim]
        bias = self.inward.bias[: self.dim]
        padded = rows.pad(functional.linear(items, weight, bias))
        return self._split(padded.view(sources, rows.rows // max(1, sources) * rows.length, self.dim))[:, 0]

    def keys_values(self, items: Tensor, rows: PackedRows) -> Tensor:
        """Return keys and values, (rows, 2, heads, length, dim / heads), of (items, dim)."""
        weight = self.inward.weight[self.dim :]
        bias = self.inward.bias[self.dim :]
        return self._split(rows.pad(functional.linear(items, weight, bias)))

    def mix(self, queries: Tensor, keys_values: Tensor, mask: Tensor | None, rows: PackedRows) -> Tensor:
        """Return attention outputs, (items, dim); ``mask`` is broadcast to (sources, heads, queries, keys)."""
        keys, values = keys_values.unbind(1)
        return self._join(functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask), rows)

    def weigh(self, queries: Tensor, keys_values: Tensor, mask: Tensor, rows: PackedRows) -> tuple[Tensor, Tensor]:
        """Return the output and the attention weights, averaged over the heads, (rows, length, keys)."""
        keys, values = keys_values.unbind(1)
        # The fused attention returns no weights, so they are computed step by step here.
        weights = masked_softmax(queries @ keys.transpose(-1, -2) * (self.dim // self.heads) ** -0.5, mask)
        return self._join(weights @ values, rows), weights.mean(1).view(rows.rows, rows.length, -1)

    def _split(self, padded: Tensor) -> Tensor:
        rows, length, width = padded.shape
        # (rows, length, n x dim) to (rows, n, heads, length, dim / heads), n = 1, 2 or 3 of queries, keys and values.
        heads = padded.view(rows, length, width // self.dim, self.heads, self.dim // self.heads)
        return heads.permute(0, 2, 3, 1, 4)

    def _join(self, heads: Tensor, rows: PackedRows) -> Tensor:
        return self.outward(rows.pack(heads.transpose(1, 2).flatten(2)))


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2.

    Args:
        dim: width in and out.
        wide: width between.
    """

    def __init__(self, dim: int, wide: int) -> None:
        super().__init__()
        self.wide = nn.Linear(dim, wide)
        self.narrow = nn.Linear(wide, dim)

    def forward(self, items: Tensor) -> Tensor:
        """Return (…, dim) of (…, dim)."""
        return self.narrow(functional.relu(self.wide(items)))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward part; after each, dropout, the residual, a layer norm.

    Args:
        dim: width.
        heads: of the attention.
        wide: width inside the feed-forward part.
        dropout: share of the units dropped of what a part adds.
    """

    def __init__(self, dim: int, heads: int, wide: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(dim, heads)
        self.feed = FeedForward(dim, wide)
        self.attended = nn.LayerNorm(dim)
        self.fed = nn.LayerNorm(dim)
        self.drop = Dropout(dropout)

    def forward(self, items: Tensor, rows: PackedRows, mask: Tensor) -> Tensor:
        """Return each item mixed with the items that it attends to.

        Args:
            items: (items, dim).
            rows: their positions.
            mask: (rows or 1, length or 1, length) bool; row = what looks, column = what is seen.

        Returns:
            (items, dim).
        """
        mixed = self.attention.mix(*self.attention.project(items, rows), mask[:, None], rows)
        return self._rest(items, mixed)

    def weigh(self, items: Tensor, rows: PackedRows, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the attention weights, averaged over the heads, (rows, length, length)."""
        mixed, weights = self.attention.weigh(*self.attention.project(items, rows), mask[:, None], rows)
        return self._rest(items, mixed), weights

    def _rest(self, items: Tensor, mixed: Tensor) -> Tensor:
        items = self.attended(items + self.drop(mixed))
        return self.fed(items + self.drop(self.feed(items)))


class DecoderLayer(nn.Module):
    """Self-attention over what was written so far, attention over a memory, and a feed-forward part.

    Args:
        dim: width.
        heads: of both attentions.
        wide: width inside the feed-forward part.
        dropout: share of the units dropped of what a part adds.
    """

    def __init__(self, dim: int, heads: int, wide: int, dropout: float) -> None:
        super().__init__()
        self.own = Attention(dim, heads)
        self.other = Attention(dim, heads)
        self.feed = FeedForward(dim, wide)
        self.written = nn.LayerNorm(dim)
        self.read = nn.LayerNorm(dim)
        self.fed = nn.LayerNorm(dim)
        self.drop = Dropout(dropout)

    def forward(
        self, items: Tensor, rows: PackedRows, memory: Tensor, mask: Tensor, *, weigh: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return each item mixed with those before it and with the memory.

        Args:
            items: (items, dim) the new ones.
            rows: their positions.
            memory: (sources, 2, heads, source length, dim / heads) from ``other.keys_values``. There are as many rows
                as sources, or a multiple: adjacent rows share one, and nothing is copied.
            mask: (sources, source length) bool.
            weigh: whether the weights are asked for.

        Returns:
            (items, dim); (rows, length, source length) weights of the memory, mean over heads, or ``None``.
        """
        queries, written = self.own.project(items, rows)
        seen = None
        if rows.length > 1:
            seen = band(written.shape[3], reach=None, own=True, device=items.device)[-rows.length :]
        items = self.written(items + self.drop(self.own.mix(queries, written, seen, rows)))
        queries = self.other.queries(items, rows, memory.shape[0])
        weights = None
        if weigh:
            mixed, weights = self.other.weigh(queries, memory, mask[:, None, None], rows)
        else:
            mixed = self.other.mix(queries, memory, mask[:, None, None], rows)
        items = self.read(items + self.drop(mixed))
        return self.fed(items + self.drop(self.feed(items))), weights
