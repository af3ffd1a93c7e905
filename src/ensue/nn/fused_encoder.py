"""Encoder layers of :mod:`ensue.nn.transformer` for few items, compiled: one call in place of fifteen a layer."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.kernels.loading import EncodeCall
from ensue.nn.addresses import address
from ensue.nn.fused_decoder import FusedLayers
from ensue.nn.incremental import TransposedLinear, named_weights, scaled_inward
from ensue.nn.transformer import EncoderLayer, Rows

MOST = 256
"""Items at most: products of more are faster in torch."""


class FusedEncoder:
    """Layers, one upon another, as the compiled pass finds their weights.

    Args:
        layers: at least one, all of one width.
    """

    def __init__(self, layers: Iterable[EncoderLayer]) -> None:
        weights, norms = [], []
        for layer in layers:
            attention, feed = layer.attention, layer.feed
            self.dim, self.heads = attention.dim, attention.heads
            others = map(TransposedLinear.of, (attention.outward, feed.wide, feed.narrow))
            weights.append(named_weights((scaled_inward(attention), *others)))
            ends = layer.attended, layer.attended, layer.fed
            norms.append([(norm.weight.detach(), norm.bias.detach(), norm.eps) for norm in ends])
        self.fused = FusedLayers(weights, norms)

    def encode(self, items: Tensor, rows: Rows, mask: Tensor) -> Tensor | None:
        """See :meth:`ensue.nn.transformer.EncoderLayer.forward`; ``None`` where it is for torch to do.

        Raises:
            IndexError: places that do not rise, or lie outside the rows.
            ValueError: a tensor of another shape or type.
        """
        functions, plain = library(), items.dtype == torch.float32 and not (items.is_cuda or items.requires_grad)
        if functions is None or not (plain and self.fused.plain) or not 0 < len(items) <= MOST:
            return None
        states, mask, count, length = items.contiguous().clone(), mask.contiguous(), len(items), rows.length
        places = torch.arange(count) if rows.places is None else rows.places
        # An axis of size 1 holds for all rows or queries: its step is 0.
        mask_rows, queries = (1 if mask.shape[axis] == 1 else size for axis, size in enumerate((rows.rows, length)))
        steps = 0 if mask_rows == 1 else queries * length, 0 if queries == 1 else length
        sizes = count, rows.rows, self.dim, self.heads, self.fused.wide, length, len(self.fused.layers), *steps
        call = EncodeCall(
            *sizes, self.fused.layers,
            address("places", places, torch.int64, (count,)),
            address("mask", mask, torch.bool, (mask_rows, queries, length)),
            address("items", states, torch.float32, (count, self.dim)),
        )  # fmt: skip
        functions.ensue_encode(ctypes.byref(call))
        return states
