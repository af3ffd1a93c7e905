"""Attention of each event of a history over the few before it, compiled.

:mod:`ensue.tasks.next.models.hidan` has the same by masks over all pairs. Only pairs that see each other cost anything,
and each history is worked on alone: neither those beside it nor the number of threads change a bit.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ensue.kernels import library
from ensue.kernels.loading import BandCall
from ensue.nn.autograd import Context, apply


class Band(NamedTuple):
    """Who sees whom.

    Attributes:
        lengths: (batch,) the events of each history, which stand in front.
        reach: how many events are seen at most, the step's own counted if ``own``.
        own: whether a step sees its own event.
    """

    lengths: Tensor
    reach: int
    own: bool


class Ages(NamedTuple):
    """When events came, in intervals of one width.

    Attributes:
        times: (batch, time) float64 seconds.
        width: seconds of an interval; an age of more than all intervals counts as the last.
    """

    times: Tensor
    width: float


class _Seen(Context, Protocol):
    band: Band
    ages: Ages | None


def fits(values: Tensor) -> bool:
    """Whether there is a compiled function for events like these."""
    return library() is not None and values.device.type == "cpu" and values.dtype == torch.float32


def attention_by_product(band: Band, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """(batch, time, dim) mean of the events seen, by the softmax of the products of a step's query with their keys.

    Args:
        band: who sees whom.
        queries: (batch, time, dim) one a step.
        keys: (batch, time, dim) one an event.
        values: (batch, time, dim) one an event.

    Returns:
        0 at padding, and where nothing is seen.
    """
    return apply(_Attention, band, None, values, queries, keys)


def attention_by_age(band: Band, ages: Ages, scores: Tensor, values: Tensor) -> Tensor:
    """The same by the softmax of what each event is worth at its age.

    Args:
        band: who sees whom.
        ages: when events came.
        scores: (batch, time, ages) of an event at age 0, in the first interval and so on.
        values: (batch, time, dim) one an event.
    """
    return apply(_Attention, band, ages, values, scores)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Seen, band: Band, ages: Ages | None, values: Tensor, *scored: Tensor) -> Tensor:
        values, *scored_by = (part.contiguous() for part in (values, *scored))
        sums = torch.zeros_like(values)
        weights = values.new_empty(*values.shape[:2], min(band.reach, values.shape[1]))  # each step's at the end
        ctx.band, ctx.ages = band, ages
        ctx.save_for_backward(weights, values, *scored_by)
        _run(band, ages, weights, sums, [values, *scored_by], [])
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: _Seen, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, *given = ctx.saved_tensors
        grads = [torch.zeros_like(part) for part in given]
        _run(ctx.band, ctx.ages, weights, grad.contiguous(), given, grads)
        return None, None, *grads


def _run(
    band: Band, ages: Ages | None, weights: Tensor, sums: Tensor, given: list[Tensor], grads: list[Tensor]
) -> None:
    """Forward, or backward where there are gradients to add to."""
    functions, lengths = library(), band.lengths.contiguous()
    assert functions is not None
    call = BandCall(
        *sums.shape, band.reach, band.own, weights.shape[2], lengths=lengths.data_ptr(),
        values=given[0].data_ptr(), weights=weights.data_ptr(), out=sums.data_ptr(),
    )  # fmt: skip
    names: tuple[str, ...] = ("values", "queries", "keys")
    if ages is not None:
        times, names = ages.times.double().contiguous(), ("values", "scores")
        call.ages, call.width, call.times = given[1].shape[2], ages.width, times.data_ptr()
    for name, part in zip(names, given, strict=True):
        setattr(call, name, part.data_ptr())
    for name, part in zip(names, grads, strict=False):
        setattr(call, f"to_{name}", part.data_ptr())
    if functions.ensue_band(ctypes.byref(call), bool(grads), torch.get_num_threads()):
        raise MemoryError(f"attention over {weights.shape[2]} events")
