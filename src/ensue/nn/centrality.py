"""The centrality of words: the dominant eigenvector of a word graph, and two ways to its gradient.

Gong et al., Text Information Aggregation with Centrality Attention, Science China Information Sciences 2020; with
damping, TokenRank of Erel et al., Attention (as Discrete-Time Markov) Chains, NeurIPS 2025.

=============  ======================================================================
Eq. 6          ``connections``: the softmax of section 3; the scores are in ``word_graph``
Eqs. 7-8       ``centrality``
Algorithm 1    ``method="power"``, with the two phases of section 3.3
TokenRank      ``centrality`` of ``damped``: the walk follows attention, or jumps to any word
=============  ======================================================================

The columns of A sum to 1, so the dominant eigenvalue is 1 and the centrality is the stationary distribution p = A p of
a walk from column to row. Both methods give dL/dA = u p', where (I - A') u = g - (g . p) 1 and p . u = 0 for the
error g that arrives at p: the derivative of the dominant eigenvector of sum 1, along any change of A.

**Departures.** ``solve``, the default, is not in the paper: one factorisation gives p and, on the way back, u, both to
rounding; 20 taped steps can be off by 8 % where the second eigenvalue is 0.92. The power method starts uniform, not
random, divides by the sum (which no step changes), and a text that has converged stays as it is, so that an answer
depends neither on chance nor on batch-mates. The series of Theorem 2 (Eq. 9) is left out: its sum is u, which
``solve`` gives at once, in as little memory. TokenRank's matrix P is the transpose of A, row by row a softmax over
keys; its walk is p = T' p with T = alpha P + (1 - alpha) 11'/n, alpha .99 in the released program, which iterates 200
times without a gradient. Here p and its gradient are exact, as for A.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ensue.errors import SettingError
from ensue.nn.attention import masked_mean, masked_softmax
from ensue.nn.autograd import Context, apply, is_traced

Method = Literal["solve", "power"]
SQUARINGS = 24
"""Squarings of a word graph in an exported network."""


def connections(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the column-stochastic matrix of a word graph: a softmax over the rows of each column.

    Args:
        scores: (batch, words, words) any finite numbers, also at padding.
        mask: (batch, words) bool, ``True`` = a word.

    Returns:
        (batch, words, words); rows of padding are 0, columns of padding uniform over the words. All 0 where a text has
        no word.
    """
    # The softmax runs over the last axis, so columns are transposed to rows and back.
    return masked_softmax(scores.transpose(1, 2).masked_fill(~mask[:, :, None], 0.0), mask[:, None, :]).transpose(1, 2)


def damped(matrix: Tensor, mask: Tensor, damping: float) -> Tensor:
    """Return the transition matrix of PageRank, d A + (1 - d) 11'/n, over the n words of each text.

    Its second eigenvalue is d times that of A, and no graph is in pieces, so the stationary distribution is unique.

    Args:
        matrix: (batch, words, words) as from ``connections``.
        mask: (batch, words) bool, ``True`` = a word.
        damping: d, the probability that a step follows A instead of jumping to a random word.

    Returns:
        (batch, words, words); rows of padding are 0.
    """
    # Every column gets the same jump, spread evenly over the words.
    return damping * matrix + (1 - damping) * masked_mean(mask, matrix.dtype)[:, :, None]


def centrality(
    matrix: Tensor,
    mask: Tensor,
    *,
    method: Method = "solve",
    steps: int = 20,
    tolerance: float | None = None,
    cap: int = 1000,
) -> Tensor:
    """Return the stationary distribution of each word graph; 0 at padding, and all 0 where a text has no word.

    Args:
        matrix: (batch, words, words) whose columns sum to 1 over the words, as from ``connections``.
        mask: (batch, words) bool, ``True`` = a word.
        method: ``"solve"``: one factorisation, exact both ways. ``"power"``: the power method without a tape until it
            converges, then ``steps`` with one, whose gradient errs as the ``steps``-th power of the second eigenvalue.
            Only ``"power"`` can be differentiated twice; ``"solve"`` says so.
        steps: taped steps of ``"power"``; 20 is the paper's number.
        tolerance: the power method ends when a step moves less than this, in L1; 32 roundings of the number format if
            ``None``.
        cap: steps without a tape at most.

    Returns:
        (batch, words), rows of sum 1, or 0.

    Raises:
        SettingError: an unknown method.
    """
    if method not in ("solve", "power"):
        raise SettingError(f"centrality method is {method!r}; it must be solve or power")
    tolerance = 32 * torch.finfo(matrix.dtype).eps if tolerance is None else tolerance
    if is_traced():
        return _squared(matrix, mask)
    if method == "solve":
        return apply(_Solve, matrix, mask)
    matrix = _among_words(matrix, mask)
    with torch.no_grad():
        share = _iterate(matrix, mask, tolerance, cap)
    for _ in range(steps):
        share = _times(matrix, share)
    return share / _sums(share, mask)


class _Solve(torch.autograd.Function):
    """(I - A + 11'/n) p = 1/n, where padding has 1 on the diagonal and 0 elsewhere; back by the same factors.

    Perron's theorem wants every entry of A above 0, but a softmax can round to exact zeros, which may leave the graph
    in pieces and the system singular. So every entry gets 8 eps / n, which comes to 8 eps on the system's diagonal.
    """

    @staticmethod
    def forward(ctx: Context[None], matrix: Tensor, mask: Tensor) -> Tensor:
        # Add 11'/n to I - A: the system is then regular, and its solution has the sum 1.
        uniform = masked_mean(mask, matrix.dtype)
        system = (uniform[:, None] * mask[..., None]).sub_(_among_words(matrix, mask))
        system.diagonal(0, 1, 2).add_(1 + 8 * torch.finfo(matrix.dtype).eps)
        factors, pivots, _ = torch.linalg.lu_factor_ex(system)
        share: Tensor = torch.linalg.lu_solve(factors, pivots, uniform[..., None])[..., 0]
        # Rounding can leave a tiny negative number, which no probability may be.
        share = share.clamp_(min=0).masked_fill_(~mask, 0.0)
        share /= _sums(share, mask)
        ctx.save_for_backward(factors, pivots, share, mask)
        return share

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[None], grad: Tensor) -> tuple[Tensor | None, ...]:
        factors, pivots, share, mask = ctx.saved_tensors
        # A distribution has the sum 1, so the gradient along 1 has no effect on it.
        errors = _project(grad.masked_fill(~mask, 0), share, mask)
        solution = torch.linalg.lu_solve(factors, pivots, errors[..., None], adjoint=True)[..., 0]
        return _project(solution, share, mask)[..., None] * share[:, None], None


def _squared(matrix: Tensor, mask: Tensor) -> Tensor:
    """Return the distributions of :func:`centrality` by products alone, for graphs without a solver.

    The matrix is squared ``SQUARINGS`` times, which is 2^24 steps of the power method, in float64 and with columns that
    sum to 1 again after each, so that rounding does not add up. Every entry gets 8 eps / n, as in ``_Solve``.
    """
    jumps = 8 * torch.finfo(matrix.dtype).eps * masked_mean(mask, torch.float64)[:, :, None] * mask[:, None]
    power = _among_words(matrix, mask).double() + jumps
    for _ in range(SQUARINGS):
        power = power.matmul(power)
        power = power / power.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    share = power.matmul(masked_mean(mask, power.dtype)[..., None])[..., 0]
    return (share / _sums(share, mask)).to(matrix.dtype)


def _among_words(matrix: Tensor, mask: Tensor) -> Tensor:
    """Return the matrix with rows and columns of padding at 0."""
    return matrix.masked_fill(~(mask[:, :, None] & mask[:, None, :]), 0.0)


def _sums(shares: Tensor, mask: Tensor) -> Tensor:
    """Return (batch, 1) sums to divide by: 1 where a text has no word."""
    return shares.sum(-1, keepdim=True).masked_fill(~mask.any(-1, keepdim=True), 1.0)


def _times(matrix: Tensor, vectors: Tensor) -> Tensor:
    return (vectors[:, None] @ matrix.mT)[:, 0]  # a row times a matrix: nine times as fast as a matrix times a column


def _project(vectors: Tensor, share: Tensor, mask: Tensor) -> Tensor:
    """Return vectors without their component along 1, which has no effect: share . vector becomes 0."""
    return (vectors - (share * vectors).sum(-1, keepdim=True)) * mask


def _iterate(matrix: Tensor, mask: Tensor, tolerance: float, cap: int) -> Tensor:
    """Run the power method p <- A p from uniform until a step moves p by at most ``tolerance`` in L1.

    Texts that have converged stay as they are. ``matrix`` is 0 at padding. Returns the (batch, words) distributions.
    """
    share = masked_mean(mask, matrix.dtype)
    moving = mask.any(-1)
    for _ in range(cap):
        if not moving.any():
            break
        moved = _times(matrix, share)
        previous = share
        share = torch.where(moving[:, None], moved, share)
        moving = (share - previous).abs().sum(-1) > tolerance
    return share
