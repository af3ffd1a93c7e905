"""Alpha-entmax: from scores to weights that sum to 1 and, for alpha above 1, may be exactly 0; alpha may be learned.

Peters et al., Sparse sequence-to-sequence models, ACL 2019; the gradient in alpha is that of Correia et al., Adaptively
sparse transformers, EMNLP 2019. With p = alpha - 1 and m the largest score, the weights are

    w_i = max(0, 1 + p (z_i - m - u)) ^ (1 / p),   u >= 0 such that they sum to 1

which is sparsemax at alpha 2 and goes to softmax, with u = log(sum_i exp(z_i - m)), as alpha goes to 1.

The p-th power of the sum of the w_i is a norm, so it is convex in u and falls; Newton's method on it, from u = 0, never
passes the root. It needs 3 to 8 evaluations as a rule, the fewer the closer to softmax, where Newton on the
sum itself needs the more; bisection takes 25. Rows that have arrived are left out. Powers are taken by log1p, which
loses nothing as p goes to 0. At alpha 1.5 and 2 there are no powers, and a few keys are sorted and solved exactly.

**Layout.** Few keys are worked on with the keys as the slowest axis in memory (the axes stay as they are), so that
every pass runs along the rows; scores that come so are not copied, and weights leave so.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ensue import kernels
from ensue.errors import SettingError
from ensue.nn.attention import masked_softmax
from ensue.nn.autograd import Context, apply

FEW = 16
"""Up to so many keys are sorted, or laid out with the keys slowest."""
LEAST, MOST = 1.01, 2.0
"""Range of learned alphas; below it, closer to softmax, no weight is ever 0 in float32."""
_FLATTEST = 1e-6  # the least alpha - 1 that is computed with: the weights differ from softmax by less than rounding
_FLAT = 1e-2  # up to here the gradient in alpha needs a series in float32
_LOWEST = -100.0  # exponent of 2: its power counts as 0, and is still a normal number
_EASY = (1.5, 2.0)  # where powers are squares, or none
_MAX_DIMS = 9  # of the kernel
_STEPS = 40  # of Newton at most; the tolerance ends it long before


def entmax(scores: Tensor, alpha: float | Tensor, mask: Tensor | None = None) -> Tensor:
    """Alpha-entmax over the last axis; exactly 0 where ``mask`` is ``False``, and all 0 where it is so everywhere.

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
        return _weights(scores, alpha, mask)
    if not 1 <= alpha <= 2:
        raise SettingError(f"alpha is {alpha}; it must be between 1 (softmax) and 2 (sparsemax)")
    if alpha == 1:
        return scores.softmax(-1) if mask is None else masked_softmax(scores, mask)
    return _weights(scores, alpha, mask)


def _compiled_weights(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
    return apply(_CompiledEntmax, scores, alpha, mask)


def suits_kernel(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> bool:
    """Return whether the compiled kernel takes these; scores, mask and alpha may lie in memory in any order."""
    if not scores.is_cpu or not 0 < scores.dim() <= _MAX_DIMS or scores.dtype not in (torch.float32, torch.float64):
        return False
    tensors = [tensor for tensor in (alpha, mask) if isinstance(tensor, Tensor)]
    shaped = all(tensor.dim() <= scores.dim() and tensor.is_cpu for tensor in tensors)
    typed = not isinstance(alpha, Tensor) or alpha.dtype == scores.dtype
    return shaped and typed and (mask is None or mask.dtype == torch.bool)


@kernels.compiled(_compiled_weights, when=suits_kernel)
def _weights(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
    return apply(_Entmax, scores, alpha, mask)


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """The projection onto the simplex, alpha = 2 (Martins & Astudillo 2016); see :func:`entmax`."""
    return entmax(scores, 2.0, mask)


class Alphas(nn.Module):
    """One learned alpha a head: 1 + sigmoid of a free number, kept within ``LEAST`` and ``MOST``.

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
        """(heads,)."""
        alphas = 1 + self.raw.sigmoid()
        return alphas + (alphas.clamp(LEAST, MOST) - alphas).detach()


class _Cases(Context, Protocol):
    easy: float | None
    alpha: float | None


class _CompiledEntmax(torch.autograd.Function):
    """The weights in one pass over memory; neither other rows nor the number of threads change a bit of a row."""

    @staticmethod
    def forward(ctx: _Cases, scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
        seen = None if mask is None else mask.expand(scores.shape)
        weights = torch.empty_like(scores)
        _call_entmax(scores, seen, alpha, weights, None, backward=False)
        ctx.save_for_backward(weights, *([alpha] if isinstance(alpha, Tensor) else []))
        ctx.alpha = None if isinstance(alpha, Tensor) else alpha
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: _Cases, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights = ctx.saved_tensors[0]
        alpha = ctx.alpha if ctx.alpha is not None else ctx.saved_tensors[1]
        to_scores, to_alpha = torch.empty_like(weights), None
        if isinstance(alpha, Tensor) and ctx.needs_input_grad[1]:
            to_alpha = weights.new_zeros(*weights.shape[:-1], 1)
        _call_entmax(weights, grad, alpha, to_scores, to_alpha, backward=True)
        if to_alpha is not None and isinstance(alpha, Tensor):
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


class _Entmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Cases, scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
        hidden = _laid_out(scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min))
        gaps = hidden - hidden.amax(-1, keepdim=True)
        rows = gaps.flatten(0, -2) if gaps.dim() > 1 else gaps[None]
        power = _power(alpha, gaps).expand(*gaps.shape[:-1], 1).reshape(-1, 1)
        ctx.easy = alpha - 1 if not isinstance(alpha, Tensor) and alpha in _EASY else None
        weights = _sorted(rows, ctx.easy) if ctx.easy and gaps.shape[-1] <= FEW else _newton(rows, power, ctx.easy)
        weights = weights.div_(weights.sum(-1, keepdim=True)).view(gaps.shape)
        if mask is not None:
            weights = weights.masked_fill_(~mask, 0.0)
        ctx.save_for_backward(weights, *([alpha] if isinstance(alpha, Tensor) else []))
        ctx.alpha = alpha if not isinstance(alpha, Tensor) else None
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: _Cases, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, grad = ctx.saved_tensors[0], _laid_out(grad)
        if ctx.easy is not None:
            slopes = weights.sqrt() if ctx.easy == 0.5 else weights.sign()
            return _through(slopes, grad).mul_(slopes), None, None
        alpha = ctx.alpha if ctx.alpha is not None else ctx.saved_tensors[1]
        power = _power(alpha, weights)
        # -p log(w): at most 85 p in float32, for exp(85) is a number, and exp(85) x 0 is 0.
        exponents = weights.clamp(min=torch.finfo(weights.dtype).tiny * 1e2).log_().mul_(-power)
        growth = exponents.expm1()
        slopes = torch.addcmul(weights, weights, growth)  # w^(2 - alpha) = w exp(-p log(w))
        errors = _through(slopes, grad)
        to_alpha = None
        if isinstance(alpha, Tensor) and ctx.needs_input_grad[1]:
            to_alpha = _to_alpha(exponents, growth, weights, errors, power).sum_to_size(alpha.shape)
        return errors.mul_(slopes), to_alpha, None


def _laid_out(rows: Tensor) -> Tensor:
    """Few keys as the slowest axis in memory, many as the fastest."""
    if rows.dim() < 2 or rows.shape[-1] > FEW:
        return rows.contiguous()
    keys = rows.movedim(-1, 0)
    if keys.is_contiguous():
        return rows
    return torch.stack(rows.unbind(-1)).movedim(0, -1)


def _power(alpha: float | Tensor, like: Tensor) -> Tensor:
    """P = alpha - 1, within reach: (…, 1)."""
    return torch.as_tensor(alpha, dtype=like.dtype, device=like.device).sub(1).clamp(_FLATTEST, 1)


def _newton(gaps: Tensor, power: Tensor, easy: float | None) -> Tensor:
    """The weights by Newton's method on ||w^p|| = (sum_i w_i)^p = 1.

    With s_i = w_i^(1 - p), a step leads to u + (sum w) (1 - (sum w)^(-p)) / (p sum s).

    Args:
        gaps: (rows, keys) scores less their maximum; overwritten.
        power: (rows, 1) p.
        easy: p where it is 1/2 or 1 in all rows.

    Returns:
        (rows, keys), to be divided by their sum.
    """
    tolerance = torch.finfo(gaps.dtype).eps * (8 + math.log(max(gaps.shape[-1], 1)))  # u alone rounds by log(keys)
    most = torch.expm1(-power * math.log(gaps.shape[-1])) / -power  # u where all scores are equal
    steep, u = gaps.mul_(power), torch.zeros_like(power)
    result = weights = torch.empty_like(steep)
    slopes, chosen = torch.empty_like(steep), None
    for number in range(_STEPS):
        _powers(torch.sub(steep, power * u, out=weights).clamp_(min=-1), slopes, power, easy)
        if chosen is not None:
            result.index_copy_(0, chosen, weights)
        total = weights.sum(-1, keepdim=True)
        moving = (total - 1).abs_() > tolerance * 2 ** max(0, number - 6)  # rounding may leave more
        count = int(moving.sum())
        if not count:
            break
        step = total * torch.expm1(-power * total.log()) / (power * slopes.sum(-1, keepdim=True))
        u = torch.minimum(u - step.clamp_(max=0), most)
        if count < len(u) / 3:
            left = moving[:, 0].nonzero()[:, 0]
            chosen = left if chosen is None else chosen[left]
            steep, power, u, most = (part.index_select(0, left) for part in (steep, power, u, most))
            weights, slopes = torch.empty_like(steep), torch.empty_like(steep)
    return result


def _powers(bases: Tensor, slopes: Tensor, power: Tensor, easy: float | None) -> None:
    """Make w = (1 + base)^(1 / p) of ``bases``, from -1 to 0, and put s = w^(1 - p) into ``slopes``."""
    if easy is not None:
        torch.add(bases, 1, out=slopes)
        if easy == 1:
            bases.copy_(slopes)
            slopes.sign_()
        else:
            torch.mul(slopes, slopes, out=bases)
        return
    # Powers of 2 cost half of those of e, and above all no more where they are denormal. Any number above 0 times the
    # log of 0 is the -inf that sparsemax needs.
    exponent = ((1 - power) / (power * math.log(2))).clamp_(min=torch.finfo(bases.dtype).tiny)
    torch.log1p(bases, out=slopes).mul_(exponent).clamp_(min=_LOWEST).exp2_()
    bases.mul_(slopes).add_(slopes)


def _sorted(gaps: Tensor, power: float) -> Tensor:
    """The weights at p = 1/2 or 1: of every number of keys that may count, the one that fits (Peters et al., Alg. 2).

    Args:
        gaps: (rows, keys) scores less their maximum; overwritten.
        power: p.

    Returns:
        (rows, keys), to be divided by their sum.
    """
    steep = gaps.mul_(power)
    falling = _sort_falling(steep)
    total, squares, threshold = torch.zeros_like(falling[0]), torch.zeros_like(falling[0]), falling[0] - 1
    for number, key in enumerate(falling, 1):
        total = total + key
        if power == 1:
            threshold = torch.maximum(threshold, (total - 1) / number)
            continue
        squares, mean = torch.addcmul(squares, key, key), total / number
        candidate = mean - torch.addcmul((1 - squares) / number, mean, mean).clamp_(min=0).sqrt_()
        threshold = torch.where(candidate <= key, candidate, threshold)
    weights = steep.sub_(threshold[:, None]).clamp_(min=0)
    return weights if power == 1 else weights.square_()


def _sort_falling(rows: Tensor) -> list[Tensor]:
    """(rows, keys) as one tensor a key, the largest first: neighbours change places until all stand in order."""
    keys = list(rows.unbind(-1))
    for turn in range(len(keys)):
        for place in range(turn % 2, len(keys) - 1, 2):
            above, below = keys[place], keys[place + 1]
            keys[place], keys[place + 1] = torch.maximum(above, below), torch.minimum(above, below)
    return keys


def _through(slopes: Tensor, grad: Tensor) -> Tensor:
    """Return the projection of ``grad`` onto the simplex: grad - (slopes . grad) / (slopes . 1)."""
    sums = slopes.sum(-1, keepdim=True).clamp_(min=torch.finfo(slopes.dtype).tiny)
    return grad - (grad * slopes).sum(-1, keepdim=True).div_(sums)


def _to_alpha(exponents: Tensor, growth: Tensor, weights: Tensor, errors: Tensor, power: Tensor) -> Tensor:
    """(…, 1) the gradient in alpha: - sum_i e_i w_i (exp(x_i) - 1 - x_i) / p^2 with x_i = -p log(w_i).

    It is Correia et al.'s Eq. 14 less sum_i e_i w_i^(2 - alpha), which is 0. What nearly cancels there is gone, so that
    nothing is lost near softmax, where a term goes to e_i w_i log(w_i)^2 / 2.

    Args:
        exponents: (…, keys) the x_i.
        growth: (…, keys) exp(x_i) - 1; overwritten.
        weights: (…, keys).
        errors: (…, keys) of the weights, less what no change of the scores can follow.
        power: (…, 1).
    """
    curved = growth.sub_(exponents)
    if float(power.amin()) < _FLAT:
        squares = exponents.square()
        small = exponents < torch.finfo(weights.dtype).eps ** 0.25
        curved = torch.where(small, squares * (0.5 + exponents / 6 + squares / 24), curved)
    return curved.mul_(weights).mul_(errors).sum(-1, keepdim=True).div_(-power.square())
