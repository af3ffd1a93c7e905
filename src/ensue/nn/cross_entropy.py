"""The output layer and its softmax loss in one: the (targets x choices) table never exists as a whole."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue.nn.autograd import Context, apply

BLOCK = 2**21
"""Scores held at once (8 MB in float32): a block stays in the processor's cache from product to gradient."""


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, first: int = 0
) -> Tensor:
    """Mean of -log softmax(hidden @ weight.T + bias) at the targets, in nats.

    Equal to ``cross_entropy(linear(hidden, weight, bias), targets)``. On the CPU scores are made in blocks of rows,
    whose gradients are taken at once, so memory is bounded by ``BLOCK`` whatever the catalogue.

    Args:
        hidden: (targets, dim).
        weight: (ids, dim).
        bias: (ids,), or ``None``.
        targets: (targets,) which id came.
        first: lower ids are no choices.

    Returns:
        A scalar; 0 targets give 0.
    """
    if not len(targets):
        return hidden.sum() * 0.0
    bias = torch.zeros_like(weight[:, 0]) if bias is None else bias
    if hidden.is_cuda:
        return functional.cross_entropy(functional.linear(hidden, weight[first:], bias[first:]), targets - first)
    return apply(_LinearCrossEntropy, hidden, weight, bias, targets, first)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, first: int) -> Tensor:
        num_targets, learning = len(targets), any(ctx.needs_input_grad)
        total, choices = hidden.new_zeros(()), weight[first:]
        grads = [torch.empty_like(tensor) for tensor in (hidden, weight, bias)] if learning else []
        wanted = (targets - first)[:, None]
        rows = max(1, BLOCK // len(choices))
        for low in range(0, num_targets, rows):
            part = hidden[low : low + rows]
            scores = torch.addmm(bias[first:], part, choices.T)
            total -= scores.gather(1, wanted[low : low + rows]).sum()
            top = scores.amax(dim=1, keepdim=True)
            shares = scores.sub_(top).exp_()
            sums = shares.sum(dim=1, keepdim=True)
            total += (sums.log() + top).sum()
            if learning:  # what the sums divide is done to the narrow side of each product
                each = 1 / (sums * num_targets)
                torch.mm(shares, choices, out=grads[0][low : low + rows]).mul_(each)
                weight_grad, bias_grad, more = grads[1][first:], grads[2][first:], float(low > 0)
                torch.addmm(weight_grad, shares.T, part * each, beta=more, out=weight_grad)
                torch.addmv(bias_grad, shares.T, each[:, 0], beta=more, out=bias_grad)
        if learning:
            for grad in grads[1:]:
                grad[:first] = 0.0
            grads[0].sub_(weight[targets], alpha=1 / num_targets)
            grads[1].index_add_(0, targets, hidden, alpha=-1 / num_targets)
            grads[2].sub_(torch.bincount(targets, minlength=len(bias)), alpha=1 / num_targets)
        ctx.save_for_backward(*grads)
        return total / num_targets

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved.mul(grad) for saved in ctx.saved_tensors), None, None)
