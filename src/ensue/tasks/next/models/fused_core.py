"""CORE's pass over few sessions, compiled: one call in place of some fifty small ones."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ensue.kernels import library
from ensue.kernels.loading import Norm, SessionCall
from ensue.nn.addresses import address
from ensue.tasks.next.batch import Batch

FEW = 8
"""Sessions at most: products of more are faster in torch."""


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
        matrices = [torch.cat([one.weight for one in some]).T.contiguous() for some in linears]
        biases = [torch.cat([one.bias for one in some]) for some in linears[2:]]
        parts = [*matrices[:2], *(part for pair in zip(matrices[2:], biases, strict=True) for part in pair)]
        self.kept = items, *parts, by_distance, *(part for norm in norms for part in (norm.weight, norm.bias))
        self.plain = all(
            part.dtype == torch.float32 and part.device.type == "cpu" and part.is_contiguous() for part in self.kept
        )
        if not self.plain:
            return
        dim, (rows, reach) = items.shape[1], by_distance.shape
        call = self.call = SessionCall(dim=dim, heads=rows - 1, reach=reach, num_ids=len(items))
        shapes = {
            "inward": (dim, 3 * dim), "joined": (dim, dim), "wide": (dim, 2 * dim), "wide_bias": (2 * dim,),
            "narrow": (2 * dim, dim), "narrow_bias": (dim,), "asking": (dim, 2 * dim), "asking_bias": (2 * dim,),
            "by_distance": (rows, reach), "items": tuple(items.shape),
        }  # fmt: skip
        for (name, shape), table in zip(shapes.items(), (*parts, by_distance, items), strict=True):
            setattr(call, name, address(name, table, torch.float32, shape))
        call.before, call.after = (
            Norm(*(address("norm", part, torch.float32, (dim,)) for part in (norm.weight, norm.bias)), norm.eps)
            for norm in norms
        )

    def sessions(self, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """See :meth:`ensue.tasks.next.models.core.CORE.encode`; ``None`` where it is for torch to do."""
        functions, ids = library(), batch.ids.contiguous()
        if functions is None or not self.plain or not 0 < len(ids) <= FEW or not ids.numel():
            return None
        call, (rows, time) = SessionCall.from_buffer_copy(self.call), ids.shape
        lengths, weights = batch.mask.sum(1), torch.zeros(rows, time, time)
        sessions = torch.empty(rows, time, call.dim)
        call.rows, call.time = rows, time
        call.ids = address("ids", ids, torch.int64, (rows, time))
        call.lengths = address("lengths", lengths, torch.int64, (rows,))
        call.sessions, call.weights = sessions.data_ptr(), weights.data_ptr()
        functions.ensue_sessions(ctypes.byref(call))
        return sessions[batch.target_mask], weights
