"""CORE's pass over few sessions, and their scores of all items, compiled: one call each in place of fifty small ones.

What takes the time of scoring is to read the table, so half of it is read: each item is stored as 16-bit integers and
the value of 1 of them, which is off by a few 1e-6 of its largest number. The highest scores, which are what is shown,
are computed again from the table itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import kernels
from ensue.nn.device import is_float32_on_cpu
from ensue.tasks.next.batch import Batch

FEW = 8
"""Sessions at most: products of more are faster in torch."""
EXACT = 128
"""So many of the highest are computed anew."""
_BLOCK = 64
"""``SHORT_BLOCK`` of ``kernels.h``."""
_LARGEST = 2**15 - 1


class FusedCORE:
    """The weights of the network as the compiled pass finds them.

    Args:
        items: (ids, dim).
        norms: before attention, and before the feed-forward part.
        linears: lists of linear maps that read the same: query, key and value; what joins the heads; wide; narrow; what
            asks and what answers.
        by_distance: (heads + 1, length).
    """

    def __init__(
        self, items: Tensor, norms: Sequence[nn.LayerNorm], linears: Sequence[Sequence[nn.Linear]], by_distance: Tensor
    ) -> None:
        names = ("inward", "joined", "wide", "narrow", "asking")
        tensors = {"items": items, "by_distance": by_distance}
        for name, layers in zip(names, linears, strict=True):
            tensors[name] = torch.cat([layer.weight for layer in layers]).T.contiguous()
        for name, layers in zip(names[2:], linears[2:], strict=True):
            tensors[f"{name}_bias"] = torch.cat([layer.bias for layer in layers])
        norm_tensors = [tensor for norm in norms for tensor in (norm.weight, norm.bias)]
        every = (*tensors.values(), *norm_tensors)
        self.plain = is_float32_on_cpu(*every) and all(tensor.is_contiguous() for tensor in every)
        if not self.plain:
            return
        before, after = (
            kernels.prepare("Norm", weight=norm.weight, bias=norm.bias, eps=norm.eps, dim=items.shape[1])
            for norm in norms
        )
        heads = len(by_distance) - 1
        self.prepared = kernels.prepare("sessions", **tensors, before=before, after=after, heads=heads)

    def suits(self, batch: Batch) -> bool:
        """Return whether the compiled pass takes these sessions, and is the faster one."""
        return self.plain and kernels.is_loaded() and 0 < len(batch.ids) <= FEW and batch.ids.numel() > 0

    def sessions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Compute :meth:`ensue.tasks.next.models.core.CORE.encode`."""
        (rows, time), dim = batch.ids.shape, self.prepared.dimensions["dim"]
        sessions, weights = torch.empty(rows, time, dim), torch.zeros(rows, time, time)
        kernels.call(
            "sessions", self.prepared, ids=batch.ids.contiguous(), lengths=batch.mask.sum(1), sessions=sessions,
            weights=weights,
        )  # fmt: skip
        return sessions[batch.target_mask], weights


def short_items_pay() -> bool:
    """Return whether the compiled product is the faster one: the least instruction sets are slow to widen 16 bits."""
    return kernels.level() in kernels.LEVELS[1:]


class ShortItems:
    """A table of items in half its size.

    Args:
        table: (blocks, dim, 64) int16, items side by side, the last block filled up.
        steps: (ids,) value of 1 of the table in a score.
        bias: (ids,) added to a score.
        items: (ids, dim) the table itself.
        factors: (ids,) multiplied by a product with it.
    """

    def __init__(self, table: Tensor, steps: Tensor, bias: Tensor, items: Tensor, factors: Tensor) -> None:
        self.num_ids = len(items)
        self.prepared = kernels.prepare(
            "short_scores", table=table, steps=steps, bias=bias, items=items, factors=factors,
            exact=min(EXACT, len(items)),
        )  # fmt: skip

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

    def suits(self, queries: Tensor) -> bool:
        """Return whether the kernel takes (queries, dim): few, and without a gradient."""
        few = kernels.is_loaded() and 0 < len(queries) <= FEW
        return few and queries.dtype == torch.float32 and not queries.requires_grad

    def scores(self, queries: Tensor, first: int) -> Tensor:
        """Return the scores of all ids, (queries, ids); ids before ``first`` are at -inf.

        Args:
            queries: (queries, dim) float32.
            first: the first id that is an item.
        """
        out = torch.empty(len(queries), self.num_ids)
        kernels.call(
            "short_scores", self.prepared, queries=queries.contiguous(), out=out, first=first,
            threads=torch.get_num_threads(),
        )  # fmt: skip
        return out
