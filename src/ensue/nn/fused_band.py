"""Attention of each event of a history over the few before it, compiled.

:mod:`ensue.tasks.next.models.hidan` has the same by masks over all pairs. Only pairs that see each other cost anything,
and each history is worked on alone: neither those beside it nor the number of threads change a bit.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.kernels.loading import BandCall
from ensue.nn.addresses import address


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


def fits(values: Tensor) -> bool:
    """Whether there is a compiled function for events like these."""
    return library() is not None and values.device.type == "cpu" and values.dtype == torch.float32


def attention(band: Band, ages: Ages | None, values: Tensor, *scored: Tensor) -> tuple[Tensor, Tensor]:
    """(batch x time, dim) means of the events seen, by the softmax of products or of what each is worth at its age.

    Args:
        band: who sees whom.
        ages: when events came; ``None`` for products.
        values: (batch x time, dim) one an event.
        scored: (batch x time, dim) queries, one a step, and keys, one an event; or (batch x time, ages) scores of an
            event at age 0, in the first interval and so on. All lie in one piece.

    Returns:
        0 at padding, and where nothing is seen; and the weights, for :func:`gradients`.
    """
    sums, time = torch.zeros_like(values), len(values) // max(1, len(band.lengths))
    weights = values.new_empty(len(values), min(band.reach, time))  # each step's at the end
    _run(band, ages, weights, sums, (values, *scored), [])
    return sums, weights


def gradients(band: Band, ages: Ages | None, weights: Tensor, grad: Tensor, *given: Tensor) -> list[Tensor]:
    """Those of all that was given, by that of the means."""
    grads = [torch.zeros_like(part) for part in given]
    _run(band, ages, weights, grad, given, grads)
    return grads


def _run(
    band: Band, ages: Ages | None, weights: Tensor, sums: Tensor, given: tuple[Tensor, ...], grads: list[Tensor]
) -> None:
    """Forward, or backward where there are gradients to fill.

    Raises:
        IndexError: a length outside the histories.
        ValueError: a tensor of another shape or type.
    """
    functions, lengths = library(), band.lengths.contiguous()
    assert functions is not None
    rows, dim, span = len(lengths), sums.shape[1], weights.shape[1]
    time = len(sums) // max(1, rows)
    call = BandCall(
        rows, time, dim, band.reach, band.own, span,
        lengths=address("lengths", lengths, torch.int64, (rows,)),
        weights=address("weights", weights, torch.float32, (rows * time, span)),
        out=address("sums", sums, torch.float32, (rows * time, dim)),
    )  # fmt: skip
    names: tuple[str, ...] = ("values", "queries", "keys")
    widths = [dim] * len(given)
    if ages is not None:
        times, names, widths[1] = ages.times.double().contiguous().view(-1), ("values", "scores"), given[1].shape[1]
        call.ages, call.width = widths[1], ages.width
        call.times = address("times", times, torch.float64, (rows * time,))
    for name, part, width in zip(names, given, widths, strict=True):
        setattr(call, name, address(name, part, torch.float32, (rows * time, width)))
    for name, part, width in zip(names, grads, widths, strict=False):
        setattr(call, f"to_{name}", address(name, part, torch.float32, (rows * time, width)))
    functions.ensue_band(ctypes.byref(call), bool(grads), torch.get_num_threads())
