"""A stack of decoder layers, one token at a time: the numbers of ``DecoderLayer``, for beam search.

A step multiplies a handful of rows by every weight, so its time goes into reading weights and into starting operations,
not into sums. So weights are stored transposed, which a product of few rows reads in order; and attention over the
memory, which is the same at every step, is folded once a question into two matrices a layer:

    (x W_Q + b_Q) K' = x (W_Q K') + b_Q K',    (weights V) W_O = weights (V W_O).

There are no gradients, and no dropout.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ensue import kernels
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.transformer import Attention, DecoderLayer, EncoderLayer, PackedRows

MAX_ITEMS = 256
"""Items of a compiled pass of an encoder at most: products of more are faster in torch."""
_NEVER = -1e30
"""The score of what is masked; finite, so that a row that may attend to nothing has no NaN."""


class TransposedLinear(NamedTuple):
    """A linear map as ``torch.addmm`` reads it.

    Attributes:
        bias: (out,).
        weight: (in, out), row by row in memory.
    """

    bias: Tensor
    weight: Tensor

    @classmethod
    def of(cls, layer: nn.Linear) -> TransposedLinear:
        """Return the map of a layer with (out, in) weights."""
        return cls(layer.bias.detach(), layer.weight.detach().t().contiguous())


def scaled_inward(attention: Attention) -> TransposedLinear:
    """Return queries, keys and values in one map, the queries over sqrt(dim / heads)."""
    inward = TransposedLinear.of(attention.inward)
    dim = attention.dim
    scale = (dim // attention.heads) ** -0.5
    bias = inward.bias.clone()
    weight = inward.weight
    # The first ``dim`` outputs are the queries; scaling them here saves a multiplication per step.
    bias[:dim] *= scale
    weight[:, :dim] *= scale
    return TransposedLinear(bias, weight)


def named_weights(linears: Iterable[TransposedLinear]) -> dict[str, Tensor]:
    """Return weights and biases by the names that compiled layers have for them."""
    names = ("inward", "outward", "wide", "narrow")
    pairs = [(name, linear) for name, linear in zip(names, linears, strict=True)]
    return {name: linear.weight for name, linear in pairs} | {f"{name}_bias": linear.bias for name, linear in pairs}


def prepared_pass(
    name: str, tensors: Mapping[str, Tensor], norms: Mapping[str, nn.LayerNorm | _Norm], **sizes: int
) -> kernels.Structure | None:
    """Return the weights of a compiled pass; ``None`` where they are not contiguous numbers of 32 bits on the CPU.

    Args:
        name: of the kernel.
        tensors: by the names of its arrays.
        norms: by the names of its structures.
        sizes: its other numbers.
    """
    weights = [*tensors.values(), *(tensor for norm in norms.values() for tensor in (norm.weight, norm.bias))]
    if not is_float32_on_cpu(*weights) or not all(tensor.is_contiguous() for tensor in weights):
        return None
    prepared_norms = {
        key: kernels.prepare("Norm", weight=norm.weight, bias=norm.bias, eps=norm.eps, dim=len(norm.weight))
        for key, norm in norms.items()
    }
    return kernels.prepare(name, **tensors, **prepared_norms, **sizes)


class PackedLayers:
    """Weights of layers as compiled functions read them.

    Args:
        weights: of each layer, by the names of ``kernels.h``: (in, out) matrices row by row, and biases.
        norms: of each layer, the weight, bias and epsilon of its three norms, in order.
    """

    def __init__(self, weights: Sequence[dict[str, Tensor]], norms: Sequence[Mapping[str, nn.LayerNorm | _Norm]]):
        self.dim, self.hidden = weights[0]["wide"].shape
        pairs = zip(weights, norms, strict=True)
        layers = [prepared_pass("StepLayer", *pair, dim=self.dim) for pair in pairs] if kernels.is_loaded() else []
        self.layers = [layer for layer in layers if layer is not None]
        # Cached by identity: what is written and what is scored attend to the same memory.
        self._memory: tuple[Sequence[Folded], list[kernels.Structure]] | None = None

    def with_memory(self, folds: Sequence[Folded], heads: int) -> ctypes.Array[kernels.Structure] | None:
        """Return the layers with the memory that they attend to, side by side; ``None`` where no kernel takes it.

        The memory of the latest call is not checked again.
        """
        if self._memory is None or self._memory[0] is not folds:
            if not self.suit(*(tensor for fold in folds for tensor in fold)):
                return None
            length = folds[0].base.shape[-1] // heads
            layers = [
                kernels.prepare(
                    "StepLayer", layer, heads=heads, length=length, scores=fold.scores, base=fold.base,
                    outputs=fold.values,
                )
                for layer, fold in zip(self.layers, folds, strict=True)
            ]  # fmt: skip
            self._memory = folds, layers
        return kernels.array(self._memory[1])

    def suit(self, *tensors: Tensor) -> bool:
        """Return whether there is a compiled function, and it takes such tensors."""
        plain = is_float32_on_cpu(*tensors) and not tensors[0].requires_grad
        return plain and bool(self.layers) and kernels.is_loaded() and all(tensor.is_contiguous() for tensor in tensors)


class _Norm(NamedTuple):
    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> _Norm:
        return cls(tuple(norm.normalized_shape), norm.weight.detach(), norm.bias.detach(), norm.eps)

    def __call__(self, items: Tensor) -> Tensor:
        return torch.layer_norm(items, self.shape, self.weight, self.bias, self.eps)


class _Layer(NamedTuple):
    inward: TransposedLinear  # of the queries over sqrt(dim / heads)
    outward: TransposedLinear
    query: Tensor  # (heads, dim / heads, dim) W_Q of the attention over the memory, over sqrt(dim / heads)
    query_bias: Tensor  # (heads, dim / heads, 1)
    output: Tensor  # (heads, dim / heads, dim) its W_O
    output_bias: Tensor  # (dim,)
    wide: TransposedLinear
    narrow: TransposedLinear
    written: _Norm
    read: _Norm
    fed: _Norm

    @classmethod
    def of(cls, layer: DecoderLayer) -> _Layer:
        self_attention = layer.own
        memory_attention = layer.other
        query, query_bias, output = _folds(memory_attention)
        return cls(
            scaled_inward(self_attention), TransposedLinear.of(self_attention.outward),
            query, query_bias, output, memory_attention.outward.bias.detach(),
            TransposedLinear.of(layer.feed.wide), TransposedLinear.of(layer.feed.narrow),
            _Norm.of(layer.written), _Norm.of(layer.read), _Norm.of(layer.fed),
        )  # fmt: skip

    def named(self) -> dict[str, Tensor]:
        """Return weights and biases by the names that the compiled step has for them."""
        linears = named_weights((self.inward, self.outward, self.wide, self.narrow))
        return {"output_bias": self.output_bias, **linears}

    def norms(self) -> dict[str, _Norm]:
        """Return the three norms, in order."""
        return {"written": self.written, "read": self.read, "fed": self.fed}


def _folds(attention: Attention) -> tuple[Tensor, Tensor, Tensor]:
    dim = attention.dim
    heads = attention.heads
    scale = (dim // heads) ** -0.5
    # Split the rows of W_Q by head: (dim, dim) to (heads, dim / heads, dim).
    query = attention.inward.weight[:dim].detach().view(heads, dim // heads, dim) * scale
    bias = attention.inward.bias[:dim].detach().view(heads, dim // heads, 1) * scale
    # W_O maps the concatenated heads back, so the rows of its transpose are split by head.
    output = attention.outward.weight.detach().t().reshape(heads, dim // heads, dim)
    return query, bias, output


class Folded(NamedTuple):
    """One layer's attention over the memory of each source.

    Attributes:
        scores: (sources, dim, heads x length) what the vectors are multiplied by.
        base: (sources, 1, heads x length) what is added; -1e30 at padding.
        values: (sources, heads x length, dim) what the weights are multiplied by.
    """

    scores: Tensor
    base: Tensor
    values: Tensor


class IncrementalDecoder:
    """The layers as they are read one token at a time.

    Args:
        layers: at least one, all of one width.
    """

    def __init__(self, layers: Sequence[DecoderLayer]) -> None:
        self.dim = layers[0].own.dim
        self.heads = layers[0].own.heads
        self.layers = [_Layer.of(layer) for layer in layers]
        self.packed = PackedLayers([layer.named() for layer in self.layers], [layer.norms() for layer in self.layers])
        self._latest: tuple[Tensor, Tensor, tuple[Folded, ...]] | None = None

    def fold(self, memory: Tensor, mask: Tensor) -> tuple[Folded, ...]:
        """Return the attention over a memory, one per layer; that of the latest memory is cached.

        Args:
            memory: (sources, layers, 2, heads, length, dim / heads) from ``other.keys_values`` of each layer.
            mask: (sources, length) False at padding.
        """
        latest = self._latest
        if latest is not None and latest[0] is memory and latest[1] is mask:
            return latest[2]
        sources, length = mask.shape
        # Additive mask: 0 for an item, -1e30 for padding.
        wall = torch.where(mask, 0.0, _NEVER).to(memory.dtype)[:, None]
        folds = []
        for number, layer in enumerate(self.layers):
            keys, values = memory[:, number].unbind(1)
            # Fold the queries' weights into the keys, (sources, dim, heads x length), so a step computes no queries.
            scores = (keys @ layer.query).permute(0, 3, 1, 2).reshape(sources, self.dim, self.heads * length)
            base = ((keys @ layer.query_bias).squeeze(3) + wall).view(sources, 1, self.heads * length)
            if kernels.is_loaded():
                scores = scores.contiguous()  # the compiled step reads it row by row
            # Fold the output weights into the values; padding is zeroed, as a fully masked row has uniform weights.
            output = (values * mask[:, None, :, None]) @ layer.output
            folds.append(Folded(scores, base, output.reshape(sources, self.heads * length, self.dim)))
        self._latest = memory, mask, tuple(folds)
        return self._latest[2]

    def step(
        self, items: Tensor, folded: Sequence[Folded], past: Sequence[Tensor], seen: Tensor, *, weigh: bool
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor | None]:
        """Compute all layers for one new item per row.

        Args:
            items: (sources, rows, dim).
            folded: from :meth:`fold`.
            past: a layer each, (2, sources x heads, before, dim / heads) keys and values of what the rows have read.
            seen: (sources, rows, before + rows) 0 for what each row sees, itself at least; -inf elsewhere.
            weigh: whether the weights of the memory are asked for.

        Returns:
            (sources, rows, dim); the past with the new items; (sources, rows, heads, length) weights of the last layer,
            or ``None``.
        """
        sources, rows, dim = items.shape
        heads = self.heads
        # Shapes of the projections split into queries, keys and values by head, and of the outputs by source.
        split = (sources, rows, 3, heads, dim // heads)
        joined = (sources, heads, rows, dim // heads)
        # One mask per source and head, in the order of the rows of the past; for one source it is broadcast.
        wall = seen if sources == 1 else seen.repeat_interleave(heads, 0)
        new_past = []
        weights = None
        flat = items.view(-1, dim)
        for layer, fold, layer_past in zip(self.layers, folded, past, strict=True):
            # (sources x rows, 3 dim) to (3, sources, heads, rows, dim / heads), then sources and heads as one axis.
            projections = _map(layer.inward, flat).view(split).permute(2, 0, 3, 1, 4)
            projections = projections.reshape(3, sources * heads, rows, dim // heads)
            cached = torch.cat([layer_past, projections[1:]], dim=2)
            new_past.append(cached)
            self_weights = torch.baddbmm(wall, projections[0], cached[0].mT).softmax(2)
            # Put the heads of each row side by side again.
            mixed = torch.bmm(self_weights, cached[1]).view(joined).transpose(1, 2).reshape(-1, dim)
            flat = layer.written(flat + _map(layer.outward, mixed))
            items = flat.view(sources, rows, dim)
            # Attention over the memory with folded matrices: one product gives the scores of all heads.
            weights = torch.baddbmm(fold.base, items, fold.scores).view(sources, rows, heads, -1).softmax(3)
            read = torch.baddbmm(items, weights.view(sources, rows, -1), fold.values)
            flat = layer.read(read + layer.output_bias).view(-1, dim)
            flat = layer.fed(flat + _map(layer.narrow, _map(layer.wide, flat).relu_()))
        return flat.view(sources, rows, dim), tuple(new_past), weights if weigh else None


class PackedEncoder:
    """Encoder layers for few items, in one call; :class:`ensue.nn.transformer.EncoderLayer` does the same.

    Args:
        layers: at least one, all of one width.
    """

    def __init__(self, layers: Iterable[EncoderLayer]) -> None:
        weights = []
        norms = []
        for layer in layers:
            attention = layer.attention
            feed = layer.feed
            self.dim = attention.dim
            self.heads = attention.heads
            linears = map(TransposedLinear.of, (attention.outward, feed.wide, feed.narrow))
            weights.append(named_weights((scaled_inward(attention), *linears)))
            # The kernel's layer has three norms and an encoder layer two, so the first is passed twice.
            norms.append({"written": layer.attended, "read": layer.attended, "fed": layer.fed})
        self.packed = PackedLayers(weights, norms)

    def suits(self, items: Tensor) -> bool:
        """Return whether the compiled pass takes (items, dim) and is the faster one."""
        return 0 < len(items) <= MAX_ITEMS and self.packed.suit(items.contiguous())

    def encode(self, items: Tensor, rows: PackedRows, mask: Tensor) -> Tensor:
        """Compute all layers; see :meth:`ensue.nn.transformer.EncoderLayer.forward`.

        Raises:
            IndexError: places that do not rise, or lie outside the rows.
            ValueError: a tensor of another shape or type.
        """
        states = items.contiguous().clone()
        positions = torch.arange(len(items)) if rows.places is None else rows.places
        # An axis of size 1 holds for all rows or queries: its step is 0.
        one_row, one_query = (mask.shape[axis] == 1 for axis in (0, 1))
        kernels.call(
            "encode", rows=rows.rows, length=rows.length, heads=self.heads, wide=self.packed.hidden,
            layers=len(self.packed.layers), layer=kernels.array(self.packed.layers), places=positions,
            mask=mask.contiguous(), states=states, query_step=0 if one_query else rows.length,
            row_step=0 if one_row else rows.length * (1 if one_query else rows.length),
        )  # fmt: skip
        return states


def _map(linear: TransposedLinear, items: Tensor) -> Tensor:
    return torch.addmm(linear.bias, items, linear.weight)
