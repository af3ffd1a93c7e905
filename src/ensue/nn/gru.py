"""A GRU over padded rows of unequal length on the CPU, with the gradient in closed form.

Cho et al., EMNLP 2014, as torch writes it (``nn.GRU``, whose weights it reads):

    r, z = sigmoid(W x + b + U h + c),    n = tanh(W x + b + r (U h + c)),    h' = n + z (h - n).

Torch keeps a dozen nodes of its graph a step, and walks through them one by one on the way back. Here all that does not
wait for the step after it, derivatives of the gates and gradients of the weights, is taken over all steps at once. The
longest rows come first, so that no step works on a row that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue.nn.autograd import Context, apply


def gru_states(gru: nn.GRU, vectors: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """The states of a GRU of one layer.

    Args:
        gru: its weights.
        vectors: (distinct, dim) the items; each is projected once.
        index: (rows, length) which item stands where.
        mask: (rows, length) bool, True up to the end of each row.

    Returns:
        (rows, length, units); finite at padding, where it means nothing.
    """
    if vectors.is_cuda:
        return cast(Tensor, gru(functional.embedding(index, vectors))[0])
    lengths = mask.sum(1)
    order = lengths.argsort(descending=True, stable=True)
    inward, weight, inward_bias, bias = gru.parameters()
    projected = functional.linear(vectors, inward, inward_bias)
    gates = functional.embedding(index[order].T, projected)
    running = (len(lengths) - torch.bincount(lengths, minlength=mask.shape[1] + 1).cumsum(0))[:-1].tolist()
    states: Tensor = apply(_GRU, gates, weight, bias, running)
    return states.transpose(0, 1)[order.argsort()]


def _spans(running: list[int], tables: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    """For each step, the rows of all tables that have not ended: (running, …)."""
    low = 0
    for rows, steps in groupby(running):
        high = low + len(list(steps))
        if rows:
            yield from zip(*(table[low:high, :rows].unbind(0) for table in tables), strict=True)
        low = high


class _Rows(Context, Protocol):
    running: list[int]


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Rows, gates: Tensor, weight: Tensor, bias: Tensor, running: list[int]) -> Tensor:
        """(length, rows, 3 x units) W x + b to (length, rows, units) states; 0 where a row has ended."""
        units = weight.shape[1]
        own = gates + bias
        own[..., 2 * units :] = bias[2 * units :]  # r comes between the two parts of n
        new, states = gates[..., 2 * units :].clone(), gates.new_zeros(*gates.shape[:2], units)
        turned, before = weight.t().contiguous(), states.new_zeros(gates.shape[1], units)
        tables = own, own[..., : 2 * units], *own.chunk(3, dim=2), new, states
        for every, both, reset, update, part, fresh, state in _spans(running, tables):
            before = before[: len(every)]
            every.addmm_(before, turned)
            both.sigmoid_()
            fresh.addcmul_(reset, part).tanh_()
            before = torch.lerp(fresh, before, update, out=state)
        ctx.save_for_backward(own, new, states, weight)
        ctx.running = running
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: _Rows, grad: Tensor) -> tuple[Tensor | None, ...]:
        own, new, states, weight = ctx.saved_tensors
        (length, rows, units), running = states.shape, ctx.running
        reset, update, part = own.chunk(3, dim=2)
        before = torch.cat([states.new_zeros(1, rows, units), states[:-1]])
        # Side by side, for U h + c, r, z and n: what each of them moves of n (the first two) and of the state.
        moved, rest = states.new_empty(length, rows, 4, units), 1 - update
        moved[:, :, 0] = reset
        torch.mul(part, torch.addcmul(reset, reset, reset, value=-1), out=moved[:, :, 1])
        torch.mul(before - new, rest * update, out=moved[:, :, 2])
        torch.addcmul(rest, rest, new * new, value=-1, out=moved[:, :, 3])
        errors, later = states.new_zeros(length, rows, 4, units), states.new_zeros(rows, units)
        flat, back = errors.flatten(2)[..., : 3 * units], weight.roll(units, 0)
        parts = (side[:, :, low : low + size] for low, size in ((2, 2), (0, 2)) for side in (moved, errors))
        tables = grad, update, *parts, errors[:, :, 3:], flat
        for error, share, of_state, first, of_new, second, fresh, flat_errors in reversed([*_spans(running, tables)]):
            held = later[: len(error)].add_(error)
            torch.mul(held[:, None], of_state, out=first)
            torch.mul(fresh, of_new, out=second)
            held.mul_(share).addmm_(flat_errors, back)
        flat_errors = flat.flatten(0, 1)
        totals = (flat_errors.T @ before.flatten(0, 1)).roll(-units, 0), flat_errors.sum(0).roll(-units)
        return errors.flatten(2)[..., units:], *totals, None
