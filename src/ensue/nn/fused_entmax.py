"""Alpha-entmax in one pass over memory, compiled: what :mod:`ensue.nn.normalisers` computes, forward and backward.

Scores, masks, alphas and gradients are read wherever they lie, so nothing is copied or broadcast. Each row is worked on
alone and in the same way, so neither the rows beside it nor the number of threads change a bit of it.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ensue.kernels import library
from ensue.kernels.loading import EntmaxCall
from ensue.nn.autograd import Context

_DIMS = 9
"""Axes that a call has room for."""


def fits(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> bool:
    """Whether there is a compiled function for these."""
    if library() is None or scores.device.type != "cpu" or not 0 < scores.dim() <= _DIMS:
        return False
    tensors = [part for part in (alpha, mask) if isinstance(part, Tensor)]
    shaped = all(part.dim() <= scores.dim() and part.device == scores.device for part in tensors)
    typed = not isinstance(alpha, Tensor) or alpha.dtype == scores.dtype
    typed &= mask is None or mask.dtype == torch.bool
    return shaped and typed and scores.dtype in (torch.float32, torch.float64)


class _Cases(Context, Protocol):
    alpha: float | Tensor
    mask_shape: torch.Size


class FusedEntmax(torch.autograd.Function):
    """Weights of scores, alpha (a number or a tensor of the scores' dtype) and a mask or ``None``."""

    @staticmethod
    def forward(ctx: _Cases, scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
        """See :func:`ensue.nn.normalisers.entmax`."""
        seen = None if mask is None else mask.expand(scores.shape)
        weights = torch.empty_like(scores)
        _run(scores, seen, alpha, weights, None, backward=False)
        ctx.save_for_backward(weights, *([alpha] if isinstance(alpha, Tensor) else []))
        ctx.alpha = 0.0 if isinstance(alpha, Tensor) else alpha
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: _Cases, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients in scores and, where it is a tensor that asks for one, alpha."""
        weights, *saved = ctx.saved_tensors
        alpha = saved[0] if saved else ctx.alpha
        to_scores, to_alpha = torch.empty_like(weights), None
        if isinstance(alpha, Tensor) and ctx.needs_input_grad[1]:
            to_alpha = weights.new_zeros(*weights.shape[:-1], 1)
        _run(weights, grad, alpha, to_scores, to_alpha, backward=True)
        if to_alpha is not None and isinstance(alpha, Tensor):
            to_alpha = to_alpha.sum_to_size(alpha.shape)
        return to_scores, to_alpha, None


def _run(
    given: Tensor, other: Tensor | None, alpha: float | Tensor, out: Tensor, to_alpha: Tensor | None, *, backward: bool
) -> None:
    functions, rows = library(), given.shape[:-1]
    assert functions is not None
    call = EntmaxCall(dims=len(rows), keys=given.shape[-1], given=given.data_ptr(), out=out.data_ptr())
    call.sizes[: len(rows)] = rows
    call.in_steps[: given.dim()] = given.stride()
    call.out_steps[: given.dim()] = out.stride()
    if other is not None:
        call.other, call.other_steps[: given.dim()] = other.data_ptr(), other.stride()
    if isinstance(alpha, Tensor):
        call.alpha, call.alpha_steps[: len(rows)] = alpha.data_ptr(), alpha.expand(*rows, 1).stride()[:-1]
    else:
        call.fixed = alpha
    call.to_alpha = None if to_alpha is None else to_alpha.data_ptr()
    wide = given.dtype == torch.float64
    functions.ensue_entmax(ctypes.byref(call), wide, backward, torch.get_num_threads())
