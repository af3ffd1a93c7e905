"""A linear layer that reads, where it is told to, in numbers of half the width: bfloat16, summed in float32.

Both what is multiplied and the weights keep 8 of 24 bits, a relative error of 1/512 at most, and a sum of many of them
errs less. Gradients are never taken from such products.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.kernels import library
from ensue.kernels.loading import RoundedCall
from ensue.nn.addresses import address
from ensue.nn.derived import DerivedCache

_WHOLE = 16  # columns of the widest vector


class Linear(nn.Linear):
    """Torch's, with the same parameters; ``rounded``: it multiplies in bfloat16 on a CPU where no gradient is asked.

    Args:
        dim: width of what is given.
        out: width of what comes out.
    """

    def __init__(self, dim: int, out: int) -> None:
        super().__init__(dim, out)
        self.rounded = False
        self.kept = DerivedCache(self._folded)

    def forward(self, given: Tensor) -> Tensor:
        """(..., dim) to (..., out)."""
        if not self.rounded or torch.is_grad_enabled() or given.device.type != "cpu":
            return super().forward(given)
        return rounded_product(given, self.kept.get((self.weight,)), self.bias)

    def _folded(self) -> Folded:
        return folded(self.weight.T)


class Folded(NamedTuple):
    """A matrix in bfloat16: a number of its upper half beside one of its lower half, in 32 bits.

    Attributes:
        pairs: (half of ``num_in``, ``num_out`` up to a multiple of 16) int32.
        num_in: rows of the matrix.
        num_out: its columns.
    """

    pairs: Tensor
    num_in: int
    num_out: int


def folded(matrix: Tensor) -> Folded:
    """(in, out) numbers, rounded."""
    num_in, num_out = matrix.shape
    whole = functional.pad(matrix.detach(), (0, -num_out % _WHOLE, 0, num_in % 2)).to(torch.bfloat16)
    low, high = whole.view(torch.int16).int().chunk(2)
    return Folded(low & 0xFFFF | high << 16, num_in, num_out)


def pairs_shape(num_in: int, num_out: int) -> tuple[int, int]:
    """Return the shape of the pairs of a (``num_in``, ``num_out``) matrix."""
    return (num_in + 1) // 2, num_out + -num_out % _WHOLE


def unfolded(matrix: Folded) -> Tensor:
    """(in, out) the rounded numbers, in float32."""
    both = torch.cat([matrix.pairs << 16, matrix.pairs & -0x10000]).view(torch.float32)
    return both[: matrix.num_in, : matrix.num_out]


def rounded_product(given: Tensor, matrix: Folded, bias: Tensor) -> Tensor:
    """``bias`` + ``given`` x ``matrix``, both rounded to bfloat16 and summed in float32.

    Args:
        given: (..., in).
        matrix: (in, out).
        bias: (out,).
    """
    functions, rows = library(), given.reshape(-1, matrix.num_in)
    if functions is None or given.dtype != torch.float32 or not given.numel():
        product = rows.to(torch.bfloat16).float() @ unfolded(matrix)
        return (product + bias).view(*given.shape[:-1], matrix.num_out)
    (pairs, num_in, num_out), rows, bias = matrix, rows.contiguous(), bias.contiguous()
    out = given.new_empty(len(rows), num_out)
    call = RoundedCall(
        len(rows), num_in, num_out,
        given=address("inputs", rows, torch.float32, (len(rows), num_in)),
        pairs=address("pairs", pairs, torch.int32, pairs_shape(num_in, num_out)),
        bias=address("bias", bias, torch.float32, (num_out,)), out=out.data_ptr(),
    )  # fmt: skip
    functions.ensue_rounded_product(ctypes.byref(call), torch.get_num_threads())
    return out.view(*given.shape[:-1], num_out)
