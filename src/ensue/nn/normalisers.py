"""Alpha-entmax: from scores to weights that sum to 1 and, for alpha above 1, may be exactly 0; alpha may be learned.

Peters et al., Sparse sequence-to-sequence models, ACL 2019; the gradient in alpha is that of Correia et al., Adaptively
sparse transformers, EMNLP 2019. With p = alpha - 1 and m the largest score, the weights are

    w_i = max(0, 1 + p (z_i - m - u)) ^ (1 / p),   u >= 0 such that they sum to 1

which is sparsemax at alpha 2 and goes to softmax, with u = log(sum_i exp(z_i - m)), as alpha goes to 1.

The sum falls in u, and bisection finds u here; the compiled kernel needs 3 to 8 steps of Newton's method on the
p-th power of the sum instead, which is a norm and therefore convex in u. Powers are taken by log1p, which loses nothing
as p goes to 0.

``Scales`` is the learned temperature of ASEntmax (Vasylenko et al., Long-context generalization with sparse attention,
ICLR 2026), by which scores are multiplied first: of a query x that sees n keys, head by head,

    scale = delta + beta (log n)^gamma,   beta = softplus(w_beta . x),   gamma = s tanh(w_gamma . x)

with delta = 1 and s = 2. As in the authors' program n is counted one higher, so that one key does not make the
logarithm 0, whose negative powers are infinite.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue import kernels
from ensue.errors import SettingError
from ensue.nn.attention import masked_softmax
from ensue.nn.autograd import Context, apply, is_traced

MIN_ALPHA = 1.01
MAX_ALPHA = 2.0
"""Range of learned alphas; below it, closer to softmax, no weight is ever 0 in float32."""
GAMMA_RANGE = 2.0
"""s of :class:`Scales`: the power of the logarithm of the number of keys lies between -2 and 2."""
_FLATTEST = 1e-6  # the least alpha - 1 that is computed with: the weights differ from softmax by less than rounding
_FLAT = 1e-2  # up to here the gradient in alpha needs a series in float32
_MAX_DIMS = 9  # of the kernel
MAX_TRACED_KEYS = 2**20
"""Keys that a row of an exported graph has at most."""


def entmax(scores: Tensor, alpha: float | Tensor, mask: Tensor | None = None) -> Tensor:
    """Return alpha-entmax over the last axis; 0 where ``mask`` is ``False``, and all 0 where it is so everywhere.

    Scores of less than 32 bits are taken in float32. Double backward is refused.

    Args:
        scores: (…, keys) finite numbers.
        alpha: between 1 (softmax) and 2 (sparsemax); a tensor is broadcast against (…, 1), such as (heads, 1, 1) for
            (batch, heads, queries, keys), gets a gradient, and is taken as 1 or 2 beyond these.
        mask: (…, keys) bool, ``True`` = may be attended to, broadcast against ``scores``.

    Returns:
        (…, keys) weights.

    Raises:
        SettingError: a number below 1 or above 2.
    """
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if isinstance(alpha, Tensor):
        alpha = alpha.to(scores.dtype)
    elif not 1 <= alpha <= 2:
        raise SettingError(f"alpha is {alpha}; it must be between 1 (softmax) and 2 (sparsemax)")
    elif alpha == 1:
        return scores.softmax(-1) if mask is None else masked_softmax(scores, mask)
    return _weights(scores, alpha, mask) if is_traced() else apply(_Entmax, scores, alpha, mask)


def suits_kernel(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> bool:
    """Return whether the compiled kernel takes these; scores, mask and alpha may lie in memory in any order."""
    if not scores.is_cpu or not 0 < scores.dim() <= _MAX_DIMS or scores.dtype not in (torch.float32, torch.float64):
        return False
    tensors = [tensor for tensor in (alpha, mask) if isinstance(tensor, Tensor)]
    shaped = all(tensor.dim() <= scores.dim() and tensor.is_cpu for tensor in tensors)
    typed = not isinstance(alpha, Tensor) or alpha.dtype == scores.dtype
    return shaped and typed and (mask is None or mask.dtype == torch.bool)


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the projection onto the simplex, alpha = 2 (Martins & Astudillo 2016); see :func:`entmax`."""
    return entmax(scores, 2.0, mask)


class Alphas(nn.Module):
    """One learned alpha per head: 1 + sigmoid of a free number, clamped to ``MIN_ALPHA`` and ``MAX_ALPHA``.

    A free alpha drifts below 1, where there is no such function. At the ends, where the sigmoid would stick, its
    gradient is let through.

    Args:
        heads: how many.
        start: of every head; 1.5 is half way.
    """

    def __init__(self, heads: int, start: float = 1.5) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.full((heads,), math.log((start - 1) / (2 - start))))

    def forward(self) -> Tensor:
        """Return the alphas, (heads,)."""
        # Straight-through clamp: the value is clamped, the gradient is that of the sigmoid.
        alphas = 1 + self.raw.sigmoid()
        return alphas + (alphas.clamp(MIN_ALPHA, MAX_ALPHA) - alphas).detach()


class Scales(nn.Module):
    """The learned temperature of ASEntmax: what the scores of a query are multiplied by, one factor per head.

    Args:
        dim: width of a query.
        heads: number of heads.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.projection = nn.Linear(dim, 2 * heads, bias=False)  # w_beta of each head over w_gamma

    def forward(self, projected: Tensor, num_keys: Tensor) -> Tensor:
        """Return the (…, heads) factors.

        Args:
            projected: (…, 2 heads) ``projection`` of the queries.
            num_keys: (…,) number of keys that each query sees; 0 counts as 1.
        """
        beta, gamma = projected.chunk(2, -1)
        logs = num_keys.clamp(min=1).to(projected.dtype).log1p()[..., None]
        return 1 + functional.softplus(beta) * logs ** (GAMMA_RANGE * gamma.tanh())


class _Entmax(torch.autograd.Function):
    """The weights, and their gradients in the scores and in alpha."""

    @staticmethod
    def forward(ctx: Context[float | None], scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
        weights = _weights(scores, alpha, mask)
        ctx.save_for_backward(weights, *([alpha] if isinstance(alpha, Tensor) else []))
        ctx.options = None if isinstance(alpha, Tensor) else alpha
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[float | None], grad: Tensor) -> tuple[Tensor | None, ...]:
        weights = ctx.saved_tensors[0]
        alpha = ctx.options if ctx.options is not None else ctx.saved_tensors[1]
        to_scores, to_alpha = _gradients(weights, alpha, grad, ctx.needs_input_grad[1])
        if to_alpha is not None and isinstance(alpha, Tensor):
            # Add up the gradients over the axes along which alpha was broadcast.
            to_alpha = to_alpha.sum_to_size(alpha.shape)
        return to_scores, to_alpha, None


def _call_entmax(
    rows: Tensor, other: Tensor | None, alpha: float | Tensor, out: Tensor, to_alpha: Tensor | None, *, backward: bool
) -> None:
    *sizes, keys = rows.shape
    optional: dict[str, kernels.Value] = {}
    if other is not None:
        optional |= {"other": other.data_ptr(), "other_steps": other.stride()}
    if isinstance(alpha, Tensor):
        optional |= {"alpha": alpha.data_ptr(), "alpha_steps": alpha.expand(*sizes, 1).stride()[:-1]}
    else:
        optional["fixed"] = float(alpha)
    if to_alpha is not None:
        optional["to_alpha"] = to_alpha.data_ptr()
    kernels.call(
        "entmax", dims=len(sizes), keys=keys, sizes=tuple(sizes), input=rows.data_ptr(), in_steps=rows.stride(),
        out=out.data_ptr(), out_steps=out.stride(), wide=rows.dtype == torch.float64, backward=backward,
        threads=torch.get_num_threads(), **optional,
    )  # fmt: skip


def _compiled_weights(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
    """Return the weights in one pass over memory; other rows and the number of threads change no bit of a row."""
    # A view: the kernel reads strides, so a broadcast axis has stride 0 and nothing is copied.
    seen = None if mask is None else mask.expand(scores.shape)
    weights = torch.empty_like(scores)
    _call_entmax(scores, seen, alpha, weights, None, backward=False)
    return weights


@kernels.compiled(_compiled_weights, when=suits_kernel)
def _weights(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
    """Return the weights by bisection."""
    hidden = scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = _bisected(hidden - hidden.amax(-1, keepdim=True), _power(alpha, scores))
    # Bisection leaves the sum near 1; the division removes the difference.
    weights = weights / weights.sum(-1, keepdim=True)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


def _compiled_gradients(
    weights: Tensor, alpha: float | Tensor, grad: Tensor, has_to_alpha: bool
) -> tuple[Tensor, Tensor | None]:
    to_scores = torch.empty_like(weights)
    to_alpha = weights.new_zeros(*weights.shape[:-1], 1) if has_to_alpha else None
    _call_entmax(weights, grad, alpha, to_scores, to_alpha, backward=True)
    return to_scores, to_alpha


@kernels.compiled(_compiled_gradients, when=lambda weights, alpha, *_: suits_kernel(weights, alpha, None))
def _gradients(
    weights: Tensor, alpha: float | Tensor, grad: Tensor, has_to_alpha: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients in the scores and, where it is asked for, in the alpha of each row, (..., 1)."""
    power = _power(alpha, weights)
    # -p log(w): at most 85 p in float32, for exp(85) is a number, and exp(85) x 0 is 0.
    exponents = weights.clamp(min=torch.finfo(weights.dtype).tiny * 1e2).log_().mul_(-power)
    growth = exponents.expm1()
    slopes = torch.addcmul(weights, weights, growth)  # w^(2 - alpha) = w exp(-p log(w))
    errors = _through(slopes, grad)
    to_alpha = _to_alpha(exponents, growth, weights, errors, power) if has_to_alpha else None
    return errors.mul_(slopes), to_alpha


def _power(alpha: float | Tensor, like: Tensor) -> Tensor:
    """Return p = alpha - 1 within its range, (…, 1)."""
    return torch.as_tensor(alpha, dtype=like.dtype, device=like.device).sub(1).clamp(_FLATTEST, 1)


def _bisected(gaps: Tensor, power: Tensor) -> Tensor:
    """Return the weights, (…, keys), to be divided by their sum.

    Args:
        gaps: (…, keys) scores less their maximum.
        power: (…, 1) p.
    """

    def weights(u: Tensor) -> Tensor:
        return (torch.clamp(power * (gaps - u), min=-1).log1p() / power).exp()

    # The sum is at least 1 at u = 0, and at most 1 at the u of equal scores.
    low = gaps.new_zeros(gaps[..., :1].shape)
    # An exported graph takes rows of any length, and a longer one has a higher u.
    num_keys = MAX_TRACED_KEYS if is_traced() else max(gaps.shape[-1], 1)
    # exp(x) - 1, as ONNX has no expm1; powers of traced alphas are far from 0.
    fallen = -power * math.log(num_keys)
    high = ((fallen.exp() - 1 if is_traced() else fallen.expm1()) / -power).expand_as(low)
    for _ in range(torch.finfo(gaps.dtype).bits):
        middle = (low + high) / 2
        is_below = weights(middle).sum(-1, keepdim=True) >= 1
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return weights(low)


def _through(slopes: Tensor, grad: Tensor) -> Tensor:
    """Return the projection of ``grad`` onto the simplex: grad - (slopes . grad) / (slopes . 1)."""
    sums = slopes.sum(-1, keepdim=True).clamp_(min=torch.finfo(slopes.dtype).tiny)
    return grad - (grad * slopes).sum(-1, keepdim=True).div_(sums)


def _to_alpha(exponents: Tensor, growth: Tensor, weights: Tensor, errors: Tensor, power: Tensor) -> Tensor:
    """Return (…, 1) the gradient in alpha: - sum_i e_i w_i (exp(x_i) - 1 - x_i) / p^2 with x_i = -p log(w_i).

    It is Correia et al.'s Eq. 14 less sum_i e_i w_i^(2 - alpha), which is 0. What nearly cancels there is gone, so that
    nothing is lost near softmax, where a term goes to e_i w_i log(w_i)^2 / 2.

    Args:
        exponents: (…, keys) the x_i.
        growth: (…, keys) exp(x_i) - 1; overwritten.
        weights: (…, keys).
        errors: (…, keys) of the weights, less what no change of the scores can follow.
        power: (…, 1).
    """
    # exp(x) - 1 - x cancels for small x, where its Taylor series x^2 (1/2 + x/6 + x^2/24) is used.
    curved = growth.sub_(exponents)
    if float(power.amin()) < _FLAT:
        squares = exponents.square()
        small = exponents < torch.finfo(weights.dtype).eps ** 0.25
        curved = torch.where(small, squares * (0.5 + exponents / 6 + squares / 24), curved)
    return curved.mul_(weights).mul_(errors).sum(-1, keepdim=True).div_(-power.square())
