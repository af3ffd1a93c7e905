"""Scores of all items for few queries, compiled: what takes the time is to read the table, so half of it is read.

Each item is kept as whole numbers of 16 bits and what 1 of them stands for, which is off by a few 1e-6 of its largest
number. The highest scores, which are what is shown, are computed anew from the table itself.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from ensue.kernels import LEVELS, level, library
from ensue.kernels.loading import ShortCall
from ensue.nn.addresses import address

FEW = 8
"""Queries at most: products of more are faster in torch."""
EXACT = 128
"""So many of the highest are computed anew."""
_BLOCK = 64
"""``SHORT_BLOCK`` of ``native/kernels.h``."""
_LARGEST = 2**15 - 1


def pays() -> bool:
    """Whether the compiled product is the faster one: the least instruction sets are slow to widen 16 bits."""
    return level() in LEVELS[1:]


class ShortItems(NamedTuple):
    """A table of items in half its size."""

    table: Tensor
    """(blocks, dim, 64) int16: items side by side, the last block filled up."""
    steps: Tensor
    """(ids,) what 1 of it stands for in a score."""
    bias: Tensor
    """(ids,) what is added to a score."""
    items: Tensor
    """(ids, dim) the table itself."""
    factors: Tensor
    """(ids,) what a product with that is multiplied by."""

    @classmethod
    def of(cls, items: Tensor, factors: Tensor, bias: Tensor) -> Self | None:
        """Of scores query . item x factor + bias; ``None`` where these are not of float32 on the CPU."""
        given = items.detach(), factors, bias
        plain = all(part.dtype == torch.float32 and not part.is_cuda and part.is_contiguous() for part in given)
        if not plain or items.numel() == 0:
            return None
        largest = given[0].abs().amax(1).clamp(min=1e-30)
        table = (given[0] * (_LARGEST / largest)[:, None]).round_().to(torch.int16)
        blocks = functional.pad(table, (0, 0, 0, -len(table) % _BLOCK)).view(-1, _BLOCK, table.shape[1])
        return cls(blocks.transpose(1, 2).contiguous(), factors * (largest / _LARGEST), bias, given[0], factors)

    def scores(self, queries: Tensor, first: int) -> Tensor | None:
        """(queries, ids), those of ids before ``first`` at -inf; ``None`` where they are many or do not fit.

        Args:
            queries: (queries, dim) float32.
            first: the first id that is an item.
        """
        functions, (ids, dim) = library(), self.items.shape
        if functions is None or not 0 < len(queries) <= FEW or queries.dtype != torch.float32 or queries.requires_grad:
            return None
        queries, count = queries.contiguous(), len(queries)
        out, blocks = torch.empty(count, ids), -(-ids // _BLOCK)
        call = ShortCall(
            count, ids, dim, first, min(EXACT, ids),
            address("queries", queries, torch.float32, (count, dim)),
            address("table", self.table, torch.int16, (blocks, dim, _BLOCK)),
            address("steps", self.steps, torch.float32, (ids,)),
            address("bias", self.bias, torch.float32, (ids,)),
            address("items", self.items, torch.float32, (ids, dim)),
            address("factors", self.factors, torch.float32, (ids,)),
            out.data_ptr(),
        )  # fmt: skip
        functions.ensue_short_scores(ctypes.byref(call), torch.get_num_threads())
        return out
