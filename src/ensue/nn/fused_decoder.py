"""A step of :mod:`ensue.nn.incremental` for the few rows of one source, compiled: one call in place of some sixty."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.kernels.loading import StepCall, StepLayer
from ensue.nn.addresses import address

MOST = 8
"""Rows whose tokens are scored at most: products of more are faster in torch."""
WIDEST = 512
"""Rows of a step at most: the nodes of a tree, each of which sees few others."""
WEIGHTS = ("inward", "outward", "wide", "narrow")


class Folds(NamedTuple):
    """Of a layer: what its memory is folded into, and the room of its past as (2, heads, capacity, width)."""

    scores: Tensor
    base: Tensor
    outputs: Tensor
    room: Tensor


class FusedLayers:
    """The layers' weights as the compiled step finds them.

    Args:
        weights: of each layer, by the names of ``native/kernels.h``: (in, out) matrices row by row, and biases.
        norms: of each layer, the weight, bias and epsilon of its three norms, in order.
    """

    def __init__(self, weights: Sequence[dict[str, Tensor]], norms: Sequence[Sequence[tuple[Tensor, Tensor, float]]]):
        self.kept = weights, norms  # the addresses are theirs
        self.layers = (StepLayer * len(weights))()
        self.dim, self.wide = weights[0]["wide"].shape
        self.plain = all(_plain(part) for named in weights for part in named.values())
        self.plain &= all(_plain(part) for three in norms for norm in three for part in norm[:2])
        if not self.plain:
            return
        dim, wide = self.dim, self.wide
        shapes = {
            "inward": (dim, 3 * dim), "inward_bias": (3 * dim,), "outward": (dim, dim), "outward_bias": (dim,),
            "wide": (dim, wide), "wide_bias": (wide,), "narrow": (wide, dim), "narrow_bias": (dim,),
            "output_bias": (dim,),
        }  # fmt: skip
        for layer, named, three in zip(self.layers, weights, norms, strict=True):
            for name, tensor in named.items():
                setattr(layer, name, address(name, tensor, torch.float32, shapes[name]))
            for name, (weight, bias, eps) in zip(("written", "read", "fed"), three, strict=True):
                norm = getattr(layer, name)
                norm.weight, norm.bias = (address(name, part, torch.float32, (dim,)) for part in (weight, bias))
                norm.eps = eps

    def fits(self, items: Tensor, seen: Tensor) -> bool:
        """Whether the compiled step takes (sources, rows, dim) items."""
        few = items.shape[0] == 1 and 0 < items.shape[1] <= WIDEST and not items.requires_grad
        return few and self.plain and _plain(items) and _plain(seen) and library() is not None

    def step(
        self, items: Tensor, folds: Sequence[Folds], seen: Tensor, heads: int, *, weigh: bool
    ) -> tuple[Tensor, Tensor | None]:
        """All layers for one new item a row; its keys and values are written into the rooms, behind what is there.

        Args:
            items: (1, rows, dim).
            folds: of each layer.
            seen: (1, rows, before + rows) 0 for what each row sees, -inf elsewhere.
            heads: of both attentions.
            weigh: whether the weights of the memory are asked for.

        Returns:
            (1, rows, dim), and (1, rows, heads, length) weights of the last layer, or ``None``.

        Raises:
            IndexError: a room is too small.
            ValueError: a tensor of another shape or type.
        """
        functions = library()
        assert functions is not None
        (sources, rows, _), dim, items = items.shape, self.dim, items.clone()
        length, tokens, capacity = folds[0].base.shape[-1] // heads, seen.shape[2], folds[0].room.shape[2]
        slots = heads * length
        weights = items.new_empty(sources, rows, heads, length) if weigh else None
        layers = type(self.layers).from_buffer_copy(self.layers)
        for layer, fold in zip(layers, folds, strict=True):
            layer.scores = address("scores", fold.scores, torch.float32, (sources, dim, slots))
            layer.base = address("base", fold.base, torch.float32, (sources, 1, slots))
            layer.outputs = address("outputs", fold.outputs, torch.float32, (sources, slots, dim))
            room = address("room", fold.room, torch.float32, (2, sources * heads, capacity, dim // heads))
            layer.keys, layer.values = room, room + 4 * sources * capacity * dim
        call = StepCall(
            sources, rows, dim, heads, self.wide, length, tokens - rows, capacity, len(layers), layers,
            address("seen", seen, torch.float32, (sources, rows, tokens)),
            address("items", items, torch.float32, (sources, rows, dim)),
        )  # fmt: skip
        call.weights = None if weights is None else weights.data_ptr()
        functions.ensue_decoder_step(ctypes.byref(call))
        return items, weights


def log_shares(states: Tensor, weight: Tensor) -> Tensor | None:
    """(rows, ids) log-softmax of few (rows, dim) states times a (dim + 1, ids) table whose last row is added."""
    functions = library()
    if functions is None or not 0 < len(states) <= MOST or not (_plain(states) and _plain(weight)):
        return None
    (rows, dim), ids = states.shape, weight.shape[1]
    out, table = states.new_empty(rows, ids), address("weight", weight, torch.float32, (dim + 1, ids))
    functions.ensue_log_shares(states.data_ptr(), rows, dim, table, ids, table + 4 * dim * ids, out.data_ptr())
    return out


def _plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.device.type == "cpu" and tensor.is_contiguous()
