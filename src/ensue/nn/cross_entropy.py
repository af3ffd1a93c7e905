"""The output layer and its softmax loss in one: the (targets x choices) table never exists as a whole."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

BLOCK = 2**21
"""Scores held at once (8 MB in float32): a block stays in the processor's cache from product to gradient."""


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """Mean of -log softmax(hidden @ weight.T + bias) at the targets, in nats.

    Equal to ``cross_entropy(linear(hidden, weight, bias), targets)``. On the CPU scores are made in blocks of rows,
    whose gradients are taken at once, so memory is bounded by ``BLOCK`` whatever the catalogue.

    Args:
        hidden: (targets, dim).
        weight: (choices, dim).
        bias: (choices,), or ``None``.
        targets: (targets,) which choice came.

    Returns:
        A scalar; 0 targets give 0.
    """
    if not len(targets):
        return hidden.sum() * 0.0
    if hidden.is_cuda:
        return functional.cross_entropy(functional.linear(hidden, weight, bias), targets)
    bias = torch.zeros_like(weight[:, 0]) if bias is None else bias
    return cast(Tensor, cast(Any, _LinearCrossEntropy).apply(hidden, weight, bias, targets))


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        learning = any(ctx.needs_input_grad)
        total = hidden.new_zeros(())
        grads = [torch.zeros_like(tensor) for tensor in (hidden, weight, bias)] if learning else []
        rows = max(1, BLOCK // len(weight))
        for low in range(0, len(targets), rows):
            part, wanted = hidden[low : low + rows], targets[low : low + rows, None]
            scores = torch.addmm(bias, part, weight.T)
            total -= scores.gather(1, wanted).sum()
            top = scores.amax(dim=1, keepdim=True)
            shares = scores.sub_(top).exp_()
            sums = shares.sum(dim=1, keepdim=True)
            total += (sums.log() + top).sum()
            if learning:
                errors = shares.div_(sums).scatter_add_(1, wanted, -torch.ones_like(sums))
                torch.mm(errors, weight, out=grads[0][low : low + rows])
                grads[1].addmm_(errors.T, part)
                grads[2] += errors.sum(dim=0)
        ctx.save_for_backward(*grads)
        ctx.num_targets = len(targets)
        return total / len(targets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scale = grad / ctx.num_targets
        return (*(saved.mul(scale) for saved in ctx.saved_tensors), None)
