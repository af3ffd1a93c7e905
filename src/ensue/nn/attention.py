"""The one masked softmax, additive scores, and the masks of sequence models. ``True`` means may be attended to."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ensue.nn.autograd import Context, apply, is_traced


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last axis where ``mask`` is ``True``; exactly 0 elsewhere.

    A row that may attend to nothing gets zeros (not NaN), and its gradient is zero.

    Args:
        scores: (…, keys) any finite numbers, also under the mask.
        mask: (…, keys) bool, broadcast against ``scores``.

    Returns:
        (…, keys) weights; each row sums to 1, or to 0 if fully masked.
    """
    # The lowest finite number, not -inf: a fully masked row would be NaN. Its uniform weights are zeroed afterwards.
    hidden = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return hidden.softmax(dim=-1).masked_fill(~mask, 0.0)


def masked_mean(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return equal weights where ``mask`` is ``True``, (…, keys); rows sum to 1, or to 0 if fully masked."""
    return mask.to(dtype) / mask.sum(-1, keepdim=True).clamp(min=1)


@lru_cache(maxsize=256)
def band(time: int, *, reach: int | None, own: bool, device: torch.device | None = None) -> Tensor:
    """Return a mask of the earlier steps that each step attends to, (time, time): row = query, column = key.

    The masks are cached and shared: do not write into them.

    Args:
        time: number of steps.
        reach: how many steps back are seen at most, the step itself counted if ``own``; ``None`` for all.
        own: whether a step sees itself.
        device: where the mask is made.
    """
    ones = torch.ones(time, time, dtype=torch.bool, device=device)
    visible = ones.tril(0 if own else -1)
    if reach is None:
        return visible
    return visible & ones.triu(1 - reach if own else -reach)


def additive_scores(queries: Tensor, keys: Tensor, vector: Tensor, length: int) -> Tensor:
    """Return scores vector . sigmoid(query_i + key_j) for the latest ``length`` events j up to i; exactly 0 elsewhere.

    A sum over dim after a sigmoid is no matrix product, and all pairs at once would be a (time x time x dim) tensor. So
    this goes over distances i - j, (batch x time x dim) at a time, and computes each again in the backward pass.

    Args:
        queries: (batch, time, dim) one a step.
        keys: (batch, time, dim) one an event.
        vector: (dim,).
        length: how many events a step sees, itself included.

    Returns:
        (batch, step, event) scores.
    """
    if is_traced():
        # The loop over distances would be unrolled for one length; all pairs at once are the same for any.
        visible = band(queries.shape[1], reach=length, own=True, device=queries.device)
        return (queries[:, :, None] + keys[:, None]).sigmoid().matmul(vector[:, None])[..., 0] * visible
    return apply(_AdditiveScores, queries, keys, vector, length)


class _AdditiveScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context[int], queries: Tensor, keys: Tensor, vector: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(queries, keys, vector)
        ctx.options = min(length, queries.shape[1])
        time = queries.shape[1]
        scores = queries.new_zeros(len(queries), time, time)
        for distance in range(ctx.options):
            # Pairs at this distance: step t meets event t - distance, which is a diagonal of the score matrix.
            activations = (queries[:, distance:] + keys[:, : time - distance]).sigmoid_()
            scores.diagonal(-distance, 1, 2).copy_(activations @ vector.to(activations.dtype))
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[int], grad: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, vector = ctx.saved_tensors
        grads = [torch.zeros_like(tensor) for tensor in (queries, keys, vector)]
        time = queries.shape[1]
        for distance in range(ctx.options):
            errors = grad.diagonal(-distance, 1, 2)[..., None]  # (batch, time - distance, 1)
            # Recomputed, since storing the activations of all distances would take (batch x time x distances x dim).
            activations = (queries[:, distance:] + keys[:, : time - distance]).sigmoid_()
            grads[2] += (errors * activations).sum((0, 1))
            pair_grads = (activations - activations.square()).mul_(errors).mul_(vector)
            grads[0][:, distance:] += pair_grads
            grads[1][:, : time - distance] += pair_grads
        return (*grads, None)


def absolute_shares(scores: Tensor, mask: Tensor) -> Tensor:
    """Return absolute scores, normalised where ``mask`` is True; rows sum to 1, or to 0 if all are 0."""
    sizes = scores.detach().abs() * mask[:, None, :]
    return sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)
