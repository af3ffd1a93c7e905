"""Attention over windows of a text, compiled: the products and the sums of :mod:`ensue.tasks.link.models.star`.

A position of a text attends to its neighbours and itself, to its word alone, and to the text's relay. A value of
several places is a row of a table that is read where it lies, and gradients are added up in it, so that nothing is
copied for a place. Heads are worked on apart, each place after place: threads do not change a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ensue import kernels
from ensue.nn.autograd import Context, apply
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.validation import require_table

_DOTS, _SUMS, _SPREAD = range(3)


class FusedWindows(NamedTuple):
    """Tables and mask of a batch of windows.

    Attributes:
        words: (rows, length) the row of ``firsts`` at each place; any at padding.
        nodes: (rows, length) the row of ``nears`` there; ``None``: as many rows as places, in their order.
        mask: (rows, length) bool.
        heads: of the rows' numbers, in equal parts.
        reach: neighbours seen on each side.
    """

    words: Tensor
    nodes: Tensor | None
    mask: Tensor
    heads: int
    reach: int


def fits(rows: Tensor) -> bool:
    """Return whether there is a compiled function for rows like these."""
    return kernels.is_loaded() and is_float32_on_cpu(rows)


def window_products(
    windows: FusedWindows, queries: Tensor, nears: Tensor, firsts: Tensor, relays: Tensor | None
) -> Tensor:
    """Return (rows, length, heads, keys) products of queries and keys, with the axis of keys slowest in memory.

    Args:
        windows: rows of the tables at each position.
        queries: (nodes, dim) what is asked, as numbered by ``windows.nodes``; numbers of a row lie side by side.
        nears: (nodes, dim) what neighbours, and a place itself, are seen as.
        firsts: (words, dim) what the word alone is seen as.
        relays: (rows, dim), or ``None``.

    Returns:
        The neighbours from left to right, the word, the relay; 0 for what does not see or is not seen.
    """
    return apply(_Products, windows, queries, nears, firsts, relays)


def window_sums(windows: FusedWindows, weights: Tensor, nears: Tensor, firsts: Tensor, relays: Tensor | None) -> Tensor:
    """Return (rows, length, dim) sums of values by (rows, length, heads, keys) weights; 0 at padding."""
    return apply(_Sums, windows, weights, nears, firsts, relays)


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context[FusedWindows], windows: FusedWindows, queries: Tensor, *seen: Tensor | None) -> Tensor:
        ctx.options = windows
        ctx.save_for_backward(queries, *seen)
        # Neighbours on both sides, the position itself, its word, and the relay if there is one.
        keys = 2 * windows.reach + 2 + (seen[-1] is not None)
        products = queries.new_zeros(keys, *windows.mask.shape, windows.heads)
        _run(_DOTS, windows, queries, windows.nodes, seen, products)
        return products.movedim(0, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[FusedWindows], grad: Tensor) -> tuple[Tensor | None, ...]:
        windows = ctx.options
        (queries, *seen) = ctx.saved_tensors
        # The kernel reads and writes (keys, rows, length, heads).
        to_products = grad.movedim(-1, 0).contiguous()
        to_queries = torch.zeros_like(queries)
        to_seen = [*map(_zeros, seen)]
        _run(_SUMS, windows, to_queries, windows.nodes, seen, to_products)
        _run(_SPREAD, windows, queries, windows.nodes, to_seen, to_products)
        return None, to_queries, *to_seen


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context[FusedWindows], windows: FusedWindows, weights: Tensor, nears: Tensor, *seen: Tensor | None
    ) -> Tensor:
        ctx.options = windows
        key_weights = weights.movedim(-1, 0).contiguous()
        ctx.save_for_backward(key_weights, nears, *seen)
        sums = nears.new_zeros(*windows.mask.shape, nears.shape[1])
        _run(_SUMS, windows, sums.flatten(0, 1), None, (nears, *seen), key_weights)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[FusedWindows], grad: Tensor) -> tuple[Tensor | None, ...]:
        windows = ctx.options
        (weights, *seen) = ctx.saved_tensors
        to_sums = grad.contiguous().flatten(0, 1)
        to_weights = torch.zeros_like(weights)
        to_seen = [*map(_zeros, seen)]
        _run(_DOTS, windows, to_sums, None, seen, to_weights)
        _run(_SPREAD, windows, to_sums, None, to_seen, weights)
        return None, to_weights.movedim(0, -1), *to_seen


def _zeros(rows: Tensor | None) -> Tensor | None:
    return None if rows is None else rows.new_zeros(rows.shape)


def _run(
    kind: int, windows: FusedWindows, own: Tensor, asked: Tensor | None, seen: Sequence[Tensor | None], weights: Tensor
) -> None:
    """Run one pass over all positions; ``asked`` has their rows of ``own``, weights are (keys, rows, length, heads).

    ``_DOTS`` fills the weights, ``_SUMS`` adds to the rows of ``own``, ``_SPREAD`` to the rows attended to.

    Raises:
        IndexError: a position refers to a row that its table lacks.
        ValueError: a tensor of another shape or type.
    """
    nears, firsts, relays = seen
    dim = own.shape[1]
    assert nears is not None and firsts is not None
    rows = dict[str, int]()
    steps = {"relay_step": 0}
    for name, table in (("own", own), ("near", nears), ("first", firsts), ("relay", relays)):
        if table is not None:
            # There is one relay per text; the other tables may have any number of rows.
            count = len(windows.mask) if name == "relay" else len(table)
            require_table(name, table, torch.float32, (count, dim))
            if (table.stride(1) != 1 and dim > 1) or not table.is_cpu:
                raise ValueError(f"a row of {name} is not contiguous in CPU memory")
            rows[name] = table.data_ptr()
            steps[f"{name}_step"] = table.stride(0)
    kernels.call(
        "window", dim=dim, heads=windows.heads, reach=windows.reach, own_rows=len(own), near_rows=len(nears),
        first_rows=len(firsts), mask=windows.mask.contiguous(), words=windows.words.contiguous(),
        asked=None if asked is None else asked.contiguous(),
        asked_near=None if windows.nodes is None else windows.nodes.contiguous(),
        weights=weights, kind=kind, threads=torch.get_num_threads(), **rows, **steps,
    )  # fmt: skip
