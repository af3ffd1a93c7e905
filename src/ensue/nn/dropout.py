"""Dropout that is not the slowest part of a small network."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue.kernels import library
from ensue.nn.autograd import Context, apply

_LEVELS = 2**16


class Dropout(nn.Module):
    """Zero a share of the units in training and scale the others up (Srivastava et al. 2014).

    On the CPU one draw of 64 random bits serves four units, a third of the time of ``torch.nn.Dropout``; the share is
    rounded to a multiple of 1 / 65,536 and the scale goes with it, so the mean is unchanged.

    Args:
        share: part of the units dropped, in [0, 1).
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.dropped = min(round(share * _LEVELS), _LEVELS - 1)

    def forward(self, units: Tensor) -> Tensor:
        """(…) units, the same shape out."""
        if not self.training or not self.dropped:
            return units
        if units.is_cuda:
            return functional.dropout(units, self.share)
        bits = torch.empty(-(-units.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = bits.view(torch.int16)[: units.numel()].view(units.shape)
        return apply(_Dropped, units, levels, self.dropped)


class _Drawn(Context, Protocol):
    dropped: int


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Drawn, units: Tensor, levels: Tensor, dropped: int) -> Tensor:
        ctx.dropped = dropped
        ctx.save_for_backward(levels)
        return _scaled(units, levels, dropped)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Drawn, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _scaled(grad, ctx.saved_tensors[0], ctx.dropped), None, None


def _scaled(units: Tensor, levels: Tensor, dropped: int) -> Tensor:
    """Units of the higher levels scaled up, the others 0: compiled, the same bits as by torch."""
    functions, scale, least = library(), _LEVELS / (_LEVELS - dropped), dropped - _LEVELS // 2
    if functions is None or units.dtype != torch.float32:
        return units * (levels >= least).to(units.dtype).mul_(scale)
    units = units.contiguous()
    out = torch.empty_like(units)
    places = (units.data_ptr(), levels.data_ptr(), units.numel(), least, scale, out.data_ptr())
    functions.ensue_dropped(*places, torch.get_num_threads())
    return out
