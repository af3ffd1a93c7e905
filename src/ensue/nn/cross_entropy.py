"""The output layer and its softmax loss in one: the (targets x choices) table never exists as a whole."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue import kernels
from ensue.nn.autograd import Context, apply
from ensue.nn.topk import has_plain_rows

BLOCK = 2**23
"""Scores held at once at most: 32 MB in float32."""
CACHED = 2**19
"""So many stay in a processor's cache from product to gradient."""
ROWS = 128
"""Targets at once where the catalogue is large: of fewer, reading and writing the table's gradient costs too much."""


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
        total, choices, wanted = hidden.new_zeros(()), weight[first:], targets - first
        grads = [torch.empty_like(tensor) for tensor in (hidden, weight, bias)] if learning else []
        rows = max(1, min(max(ROWS, CACHED // len(choices)), BLOCK // len(choices)))
        block = hidden.new_empty(min(rows, num_targets), len(choices))
        for low in range(0, num_targets, rows):
            part = hidden[low : low + rows]
            errors = torch.mm(part, choices.T, out=block[: len(part)])
            sums, losses = softmax_errors(errors, bias[first:], wanted[low : low + rows])
            total += losses.sum()
            if learning:  # what the sums divide is done to the narrow side of each product
                each = (1 / (sums * num_targets))[:, None]
                torch.mm(errors, choices, out=grads[0][low : low + rows]).mul_(each)
                weight_grad, bias_grad, more = grads[1][first:], grads[2][first:], float(low > 0)
                torch.addmm(weight_grad, errors.T, part * each, beta=more, out=weight_grad)
                torch.addmv(bias_grad, errors.T, each[:, 0], beta=more, out=bias_grad)
        for grad in grads[1:]:
            grad[:first] = 0.0
        ctx.save_for_backward(*grads)
        return total / num_targets

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved.mul(grad) for saved in ctx.saved_tensors), None, None)


def _compiled_softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    sums, losses = scores.new_empty(2, len(scores))
    kernels.call(
        "softmax_errors", scores=scores, bias=bias, wanted=wanted.contiguous(), sums=sums, losses=losses,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return sums, losses


def _suits_softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> bool:
    contiguous = scores.is_contiguous() and bias.is_contiguous()
    return has_plain_rows(scores) and contiguous and bias.dtype == scores.dtype and not wanted.is_cuda


@kernels.compiled(_compiled_softmax_errors, when=_suits_softmax_errors)
def softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of scores, which lack their biases; its gradient takes the place of the scores.

    Args:
        scores: (rows, many); overwritten by the gradient times the row's sum.
        bias: (many,).
        wanted: (rows,) the index of the target in each row.

    Returns:
        (rows,) sums, and (rows,) losses in nats.
    """
    target_scores = scores.add_(bias).gather(1, wanted[:, None])[:, 0]
    top = scores.amax(dim=1, keepdim=True)
    sums = scores.sub_(top).exp_().sum(dim=1)
    scores.scatter_add_(1, wanted[:, None], -sums[:, None])
    return sums, sums.log() + top[:, 0] - target_scores
