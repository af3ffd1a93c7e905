"""HiDAN's cascades at the target steps, with their gradients, in one piece, and their attention, compiled.

:mod:`ensue.tasks.next.models.hidan` has the same equation by equation. A step of a small network is mostly what torch
does around each of many small operations, on the way there and back; here are few. Of the attention of an event over
the few before it, only pairs that see each other cost anything, and each history is worked on alone: neither other
histories nor the number of threads change a bit.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ensue import kernels
from ensue.nn.autograd import Context, apply
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.dropout import DropoutMask


class Band(NamedTuple):
    """Range of earlier events that each step attends to.

    Attributes:
        lengths: (batch,) the events of each history, which precede padding.
        reach: how many events are seen at most, the step's own counted if ``own``.
        own: whether a step sees its own event.
    """

    lengths: Tensor
    reach: int
    own: bool


class Ages(NamedTuple):
    """Times of events, from which ages in intervals of one width follow.

    Attributes:
        times: (batch, time) float64 seconds.
        width: seconds of an interval; an age of more than all intervals counts as the last.
    """

    times: Tensor
    width: float


class FusedReading(NamedTuple):
    """Inputs of a batch of cascades but the looked-up rows and the weights.

    Attributes:
        earlier: range of the attention of a user over earlier users.
        seen: range of the attention of the target over users.
        ages: times of the users.
        target_steps: (targets,) indices of the target steps in batch x time.
        masks: dropout masks of looked-up rows, users, keys, queries and importance, each (batch x time, its width).
    """

    earlier: Band
    seen: Band
    ages: Ages
    target_steps: Tensor
    masks: tuple[DropoutMask, ...]


class Weights(NamedTuple):
    """HiDAN's parameters but its two tables, by the names of their layers."""

    dense: Tensor
    dense_bias: Tensor
    context: Tensor
    context_bias: Tensor
    target: Tensor
    target_bias: Tensor
    gate_own: Tensor
    gate_own_bias: Tensor
    gate_context: Tensor
    importance: Tensor
    importance_bias: Tensor
    importance_score: Tensor
    decay: Tensor
    decay_bias: Tensor


def cascades(reading: FusedReading, looked_up: Tensor, weights: Weights) -> Tensor:
    """Return (targets, dim) by Eqs. 1-9, from (batch x time, table dim) rows of the user table."""
    return apply(_Cascades, reading, looked_up, *weights)


class _Cascades(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context[FusedReading], reading: FusedReading, looked_up: Tensor, *parameters: Tensor) -> Tensor:
        weights = Weights(*parameters)
        of_rows, of_users, of_keys, of_queries, of_importance = reading.masks
        rows = of_rows.apply(looked_up)
        users = of_users.apply(torch.addmm(weights.dense_bias, rows, weights.dense.T), elu=True)
        keys = of_keys.apply(torch.addmm(weights.context_bias, users, weights.context.T))
        queries = of_queries.apply(torch.addmm(weights.target_bias, users, weights.target.T))
        context, dependency = attention(reading.earlier, None, users, queries, keys)
        gate = torch.addmm(weights.gate_own_bias, users, weights.gate_own.T)
        gate = gate.addmm_(context, weights.gate_context.T).sigmoid_()
        fused = torch.lerp(context, users, gate)
        important = of_importance.apply(torch.addmm(weights.importance_bias, fused, weights.importance.T), elu=True)
        decay = torch.sigmoid(weights.decay + weights.decay_bias)
        by_age = decay * weights.importance_score
        scores = important @ by_age.T
        sums, influence = attention(reading.seen, reading.ages, fused, scores)
        ctx.options = reading
        intermediates = (rows, users, keys, queries, context, gate, fused, important, decay, by_age, scores)
        ctx.save_for_backward(*parameters, *intermediates, dependency, influence)
        return sums.index_select(0, reading.target_steps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[FusedReading], grad: Tensor) -> tuple[Tensor | None, ...]:
        reading = ctx.options
        count = len(Weights._fields)
        weights = Weights(*ctx.saved_tensors[:count])
        rows, users, keys, queries, context, gate, fused, important, decay, by_age, *attended = ctx.saved_tensors[
            count:
        ]
        scores, dependency, influence = attended
        of_rows, of_users, of_keys, of_queries, of_importance = reading.masks

        # Scatter the gradient of the target steps; other steps have none.
        to_sums = torch.zeros_like(fused).index_copy_(0, reading.target_steps, grad)
        # Backward through the attention of the target over users, the last step of ``forward``.
        to_fused, to_scores = gradients(reading.seen, reading.ages, influence, to_sums, fused, scores)
        to_by_age = to_scores.T @ important
        to_decay = torch.ops.aten.sigmoid_backward(to_by_age * weights.importance_score, decay)
        to_importance = of_importance.elu_errors(to_scores @ by_age, important)
        to_fused.addmm_(to_importance, weights.importance)

        # Backward through the gate: fused = gate x users + (1 - gate) x context.
        to_users = to_fused * gate
        to_gate = torch.ops.aten.sigmoid_backward((users - context).mul_(to_fused), gate)
        to_context = to_fused.sub_(to_users).addmm_(to_gate, weights.gate_context)
        to_users.addmm_(to_gate, weights.gate_own)
        # Backward through the attention of each user over earlier users, then through the dense layers.
        to_values, to_queries, to_keys = gradients(reading.earlier, None, dependency, to_context, users, queries, keys)
        to_keys = of_keys.apply(to_keys)
        to_queries = of_queries.apply(to_queries)
        to_users.add_(to_values).addmm_(to_keys, weights.context).addmm_(to_queries, weights.target)
        to_users = of_users.elu_errors(to_users, users)
        to_rows = of_rows.apply(to_users @ weights.dense)
        return (
            None, to_rows,
            to_users.T @ rows, to_users.sum(0),
            to_keys.T @ users, to_keys.sum(0),
            to_queries.T @ users, to_queries.sum(0),
            to_gate.T @ users, to_gate.sum(0), to_gate.T @ context,
            to_importance.T @ fused, to_importance.sum(0),
            (to_by_age * decay).sum(0), to_decay, to_decay.sum(0),
        )  # fmt: skip


def suits_kernel(values: Tensor) -> bool:
    """Return whether there is a compiled attention for events like these."""
    return kernels.is_loaded() and is_float32_on_cpu(values)


def attention(band: Band, ages: Ages | None, values: Tensor, *scored: Tensor) -> tuple[Tensor, Tensor]:
    """Return (batch x time, dim) means of the events seen, weighted by the softmax of products or of scores by age.

    Args:
        band: who sees whom.
        ages: when events came; ``None`` for products.
        values: (batch x time, dim) one an event.
        scored: (batch x time, dim) queries, one a step, and keys, one an event; or (batch x time, ages) scores of an
            event at age 0, in the first interval and so on. All lie in one piece.

    Returns:
        0 at padding, and where nothing is seen; and the weights, for :func:`gradients`.
    """
    sums = torch.zeros_like(values)
    time = len(values) // max(1, len(band.lengths))
    # No step sees more events than there are.
    weights = values.new_empty(len(values), min(band.reach, time))  # each step's at the end
    _run(band, ages, weights, sums, (values, *scored), [])
    return sums, weights


def gradients(band: Band, ages: Ages | None, weights: Tensor, grad: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Return the gradients of all inputs, from the gradient of the means."""
    grads = [torch.zeros_like(tensor) for tensor in inputs]
    _run(band, ages, weights, grad, inputs, grads)
    return grads


def _run(
    band: Band, ages: Ages | None, weights: Tensor, sums: Tensor, inputs: tuple[Tensor, ...], grads: list[Tensor]
) -> None:
    """Compute the sums and weights, or the gradients where there are any to fill.

    Raises:
        IndexError: a length outside the histories.
        ValueError: a tensor of another shape or type.
    """
    rows = len(band.lengths)
    names: tuple[str, ...] = ("values", "queries", "keys")
    optional: dict[str, kernels.Value] = {}
    if ages is not None:
        names = ("values", "scores")
        optional = {"times": ages.times.double().contiguous().view(-1), "width": ages.width}
    kernels.call(
        "band", rows=rows, time=len(sums) // max(1, rows), reach=band.reach, own=band.own,
        lengths=band.lengths.contiguous(), weights=weights, out=sums, backward=bool(grads),
        threads=torch.get_num_threads(), **optional, **dict(zip(names, inputs, strict=True)),
        **{f"to_{name}": grad for name, grad in zip(names, grads, strict=False)},
    )  # fmt: skip
