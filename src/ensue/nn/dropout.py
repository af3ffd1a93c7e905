"""Dropout that is not the slowest part of a small network."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue import kernels
from ensue.nn.autograd import Context, apply

_LEVELS = 2**16


class DropoutMask(NamedTuple):
    """A dropout mask.

    Attributes:
        levels: 16 random bits a unit, as whole numbers.
        dropped: number of levels that are dropped, the lowest of 65,536.
    """

    levels: Tensor
    dropped: int

    @property
    def rule(self) -> tuple[int, float]:
        """Return the lowest level that is not dropped, and the factor on its unit."""
        return self.dropped - _LEVELS // 2, _LEVELS / (_LEVELS - self.dropped)

    def apply(self, units: Tensor, *, elu: bool = False) -> Tensor:
        """Return units, or their ELU, scaled up or 0; without ELU the kernel gives the same bits as torch."""
        return _dropped(units, self, elu)

    def elu_errors(self, grad: Tensor, units: Tensor) -> Tensor:
        """Return the gradient of the input of :meth:`apply` with ELU from its output; both are contiguous."""
        out = torch.empty_like(grad)
        min_level, scale = self.rule
        kernels.call(
            "dropped_elu_errors", grad=grad.view(-1), units=units.view(-1), levels=self.levels.view(-1),
            least=min_level, scale=scale, out=out.view(-1),
        )  # fmt: skip
        return out


def _compiled_dropped(units: Tensor, mask: DropoutMask, elu: bool) -> Tensor:
    units = units.contiguous()
    min_level, scale = mask.rule
    out = torch.empty_like(units)
    kernels.call(
        "dropped", units=units.view(-1), levels=mask.levels.view(-1), elu=elu, least=min_level, scale=scale,
        out=out.view(-1), threads=torch.get_num_threads(),
    )  # fmt: skip
    return out


@kernels.compiled(_compiled_dropped, when=lambda units, mask, elu: units.dtype == torch.float32 and units.is_cpu)
def _dropped(units: Tensor, mask: DropoutMask, elu: bool) -> Tensor:
    """Return units, or their ELU, scaled up or 0."""
    min_level, scale = mask.rule
    units = functional.elu(units) if elu else units
    # Levels are signed 16-bit numbers, so the comparison drops the lowest ``dropped`` of 65,536.
    return units * (mask.levels >= min_level).to(units.dtype).mul_(scale)


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
        """Return units of any shape with some of them dropped."""
        if not self.training or not self.dropped:
            return units
        if units.is_cuda:
            return functional.dropout(units, self.share)
        (mask,) = self.draw(units.shape)
        return apply(_Dropped, units, mask)

    def draw(self, *shapes: torch.Size) -> tuple[DropoutMask, ...]:
        """Draw the dropout masks of the shapes in turn, on the CPU; in evaluation nothing is dropped."""
        counts = [shape.numel() for shape in shapes]
        dropped = self.dropped if self.training else 0
        # Ceiling division: one 64-bit word holds the levels of four units.
        words = [-(-count // 4) for count in counts]
        bits = torch.empty(sum(words), dtype=torch.int64)
        bits = bits.random_(-(2**63), None) if dropped else bits
        # Each mask has whole words; the levels that exceed its size are cut off.
        chunks = zip(bits.split_with_sizes(words), counts, shapes, strict=True)
        return tuple(
            DropoutMask(chunk.view(torch.int16)[:count].view(shape), dropped) for chunk, count, shape in chunks
        )


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context[DropoutMask], units: Tensor, mask: DropoutMask) -> Tensor:
        ctx.options = mask
        return mask.apply(units)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[DropoutMask], grad: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.options.apply(grad), None
