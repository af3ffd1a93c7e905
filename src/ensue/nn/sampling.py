"""Losses over items: cross entropy over all of them, or over a few sampled ones, and the sampling of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue import kernels
from ensue.data.histories import Index
from ensue.nn.autograd import Context, apply
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.validation import LARGEST_COUNT, require_number
from ensue.vocabulary import FIRST, PADDING

BLOCK = 2**23
"""Scores held at once at most: 32 MB in float32."""
CACHED = 2**19
"""Number of scores that stay in a processor's cache from product to gradient."""
ROWS = 128
"""Minimum of targets per block: with fewer, reading and writing the table's gradient costs too much."""


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    first: int = 0,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the mean of -log softmax(hidden @ weight.T + bias) at the targets, in nats.

    Equal to ``cross_entropy(linear(hidden, weight, bias), targets)``. On the CPU scores are made in blocks of rows,
    whose gradients are taken at once, so memory is bounded by ``BLOCK`` whatever the catalogue.

    Args:
        hidden: (targets, dim).
        weight: (ids, dim).
        bias: (ids,), or ``None``.
        targets: (targets,) which id came.
        first: lower ids are no candidates.
        weights: (targets,) factors of their losses. [default: 1]

    Returns:
        A scalar; 0 targets give 0.
    """
    if not len(targets):
        return hidden.sum() * 0.0
    bias = torch.zeros_like(weight[:, 0]) if bias is None else bias
    if hidden.is_cuda:
        return _cross_entropy(functional.linear(hidden, weight[first:], bias[first:]), targets - first, weights)
    return apply(_LinearCrossEntropy, hidden, weight, bias, targets, first, weights)


def weighted_mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of (targets,) losses, each times its weight; without weights the plain mean."""
    return losses.mean() if weights is None else (losses * weights).mean()


def _cross_entropy(scores: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return functional.cross_entropy(scores, targets)
    return weighted_mean(functional.cross_entropy(scores, targets, reduction="none"), weights)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context[None],
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        first: int,
        weights: Tensor | None,
    ) -> Tensor:
        num_targets = len(targets)
        learning = any(ctx.needs_input_grad)
        total = hidden.new_zeros(())
        choices = weight[first:]
        target_columns = targets - first
        grads = [torch.empty_like(tensor) for tensor in (hidden, weight, bias)] if learning else []
        # Rows per block: as many as stay in the cache, but enough of them to pay for a pass over the table's gradient.
        rows = max(1, min(max(ROWS, CACHED // len(choices)), BLOCK // len(choices)))
        # One buffer for the scores of all blocks; softmax_errors turns it into gradients in place.
        block = hidden.new_empty(min(rows, num_targets), len(choices))
        for low in range(0, num_targets, rows):
            chunk = hidden[low : low + rows]
            errors = torch.mm(chunk, choices.T, out=block[: len(chunk)])
            sums, losses = softmax_errors(errors, bias[first:], target_columns[low : low + rows])
            total += losses.sum() if weights is None else losses @ weights[low : low + rows]
            if learning:  # what the sums divide is done to the narrow side of each product
                scales = (1 / (sums * num_targets))[:, None]
                if weights is not None:
                    scales *= weights[low : low + rows, None]
                torch.mm(errors, choices, out=grads[0][low : low + rows]).mul_(scales)
                weight_grad = grads[1][first:]
                bias_grad = grads[2][first:]
                # beta = 0 makes the first block overwrite the uninitialised gradients, and later ones add to them.
                beta = float(low > 0)
                torch.addmm(weight_grad, errors.T, chunk * scales, beta=beta, out=weight_grad)
                torch.addmv(bias_grad, errors.T, scales[:, 0], beta=beta, out=bias_grad)
        for grad in grads[1:]:
            # Ids below ``first`` take part in no score, and their rows were never written.
            grad[:first] = 0.0
        ctx.save_for_backward(*grads)
        return total / num_targets

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[None], grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved.mul(grad) for saved in ctx.saved_tensors), None, None, None)


def _compiled_softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    sums, losses = scores.new_empty(2, len(scores))
    kernels.call(
        "softmax_errors", scores=scores, bias=bias, wanted=wanted.contiguous(), sums=sums, losses=losses,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return sums, losses


def _suits_softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> bool:
    is_contiguous = scores.is_contiguous() and bias.is_contiguous() and scores.numel() > 0
    return is_float32_on_cpu(scores, bias) and wanted.is_cpu and is_contiguous and not scores.requires_grad


@kernels.compiled(_compiled_softmax_errors, when=_suits_softmax_errors)
def softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of scores, which lack their biases; its gradient takes the place of the scores.

    Args:
        scores: (rows, many); overwritten by the gradient times the row's sum.
        bias: (many,).
        wanted: (rows,) the index of the target in each row.

    Returns:
        (rows,) sums, and (rows,) losses in nats.
    """
    # Gather the score of each row's target before its memory is overwritten.
    target_scores = scores.add_(bias).gather(1, wanted[:, None])[:, 0]
    top = scores.amax(dim=1, keepdim=True)
    sums = scores.sub_(top).exp_().sum(dim=1)
    # The gradient is softmax less 1 at the target; here both are times the row's sum, by which the caller divides.
    scores.scatter_add_(1, wanted[:, None], -sums[:, None])
    return sums, sums.log() + top[:, 0] - target_scores


Rows = Callable[[Tensor | slice], Tensor]
"""From ids to their vectors, (…, dim)."""
POWER = 0.5
"""Default power of the counts by which ids are drawn."""
PAIRS = 32
"""Negatives of the pairwise losses: for each target of SANSR, for each batch of BPR-MF."""
WORTH = 2**16
"""Number of scores from which the sampled loss works in blocks and computes the gradient with the loss."""


class Sampler(nn.Module):
    """Draws ids with replacement, by their count to a power; uniformly until counts are given.

    Args:
        num_ids: size of the catalogue, padding and unknown included.
        power: between uniform (0) and by popularity (1).
    """

    def __init__(self, num_ids: int, power: float = POWER) -> None:
        super().__init__()
        self.power = power
        self.totals: Tensor = nn.Buffer(torch.ones(num_ids))
        self._cached: tuple[Tensor, int, Tensor, Tensor] | None = None
        self._together: torch.Generator | None = None

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.loading.Validated`: every id is counted once at least."""
        require_number(f"{name}.totals", self.totals, LARGEST_COUNT, 1.0)

    def count(self, totals: Tensor) -> None:
        """Set the (ids,) counts of all ids; ids that never occurred are drawn as if they had once."""
        self.totals.copy_(totals.clamp(min=1))

    def shares(self) -> Tensor:
        """Return (ids,) the probability of each id; that of padding and unknown is 0."""
        return self._read()[0]

    def draw(self, *shape: int) -> Tensor:
        """Draw ids of a shape; those of one axis are the same on all ranks that draw together."""
        ends = self._read()[1]
        generator = self._together if len(shape) == 1 else None
        # Inverse transform sampling: in float64, as float32 cannot tell the ids of a large catalogue apart.
        uniform = torch.rand(shape, dtype=torch.float64, device=self.totals.device, generator=generator)
        return torch.searchsorted(ends, uniform * ends[-1], right=True).clamp(max=len(ends) - 1)

    def _read(self) -> tuple[Tensor, Tensor]:
        """Return the (ids,) probabilities and their running sum, computed again only when the counts have changed."""
        cached = self._cached
        totals = self.totals
        # torch raises a tensor's version with every write in place, so new counts are seen without a comparison.
        if cached is None or cached[0] is not totals or cached[1] != totals._version:
            raised = totals.pow(self.power)
            raised[:FIRST] = 0
            shares = raised / raised.sum()
            self._cached = cached = totals, totals._version, shares, shares.double().cumsum(0)
        return cached[2], cached[3]


@contextmanager
def drawn_together(model: nn.Module, seed: int) -> Iterator[None]:
    """Make all ranks draw the same negatives for a batch, as one process does, so that they touch fewer rows.

    Args:
        model: what holds the samplers.
        seed: the same on every rank.
    """
    samplers = [module for module in model.modules() if isinstance(module, Sampler)]
    for sampler in samplers:
        sampler._together = torch.Generator(sampler.totals.device).manual_seed(seed)
    try:
        yield
    finally:
        for sampler in samplers:
            sampler._together = None


def sampled_cross_entropy(
    hidden: Tensor,
    items: Callable[[Tensor], Tensor],
    targets: Tensor,
    sampler: Sampler,
    drawn: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the cross-entropy over the target and ``drawn`` shared negatives, each less log(its expected draws).

    So the sum over the negatives has the mean of the sum over the catalogue without the target (Bengio & Senécal 2008);
    a negative that is a row's own target is left out of that row. A catalogue that holds no more ids than would be
    drawn is gone through whole: the exact softmax is cheaper then.

    Args:
        hidden: (targets, dim).
        items: from ids to the vectors of candidates, (…, dim): a table, say.
        targets: (targets,) ids.
        sampler: draws the negatives.
        drawn: how many.
        weights: (targets,) factors of their losses. [default: 1]

    Returns:
        The mean over targets, in nats.
    """
    num_ids = len(sampler.totals)
    if num_ids - FIRST <= drawn:
        all_ids = torch.arange(FIRST, num_ids, device=hidden.device)
        return _cross_entropy(hidden @ items(all_ids).T, targets - FIRST, weights)
    negatives = sampler.draw(drawn)
    # Subtracting log(expected draws) makes the sampled sum an unbiased estimate of the full one.
    expected = (sampler.shares()[negatives] * drawn).log()
    if not hidden.is_cuda and len(targets) * drawn >= WORTH:
        vectors = items(targets), items(negatives)
        return apply(_SampledCrossEntropy, hidden, *vectors, expected, targets, negatives, weights)
    target_scores = (hidden * items(targets)).sum(1, keepdim=True)
    negative_scores = torch.addmm(-expected, hidden, items(negatives).T)
    # A negative that equals the row's target would count the target twice.
    negative_scores = negative_scores.masked_fill(negatives == targets[:, None], -torch.inf)
    losses: Tensor = torch.cat([target_scores, negative_scores], dim=1).logsumexp(1) - target_scores[:, 0]
    return weighted_mean(losses, weights)


def choice_loss(
    hidden: Tensor, items: Callable[[Tensor], Tensor], targets: Tensor, shown: Tensor, weights: Tensor | None
) -> Tensor:
    """Return the mean of -log softmax of each target among itself and what was shown with it and not chosen, in nats.

    It is the conditional logit of a choice from a set (McFadden 1974); a target with nothing shown adds 0.

    Args:
        hidden: (targets, dim).
        items: from ids to the vectors of candidates, (…, dim).
        targets: (targets,) ids.
        shown: (targets, many) ids, filled up with padding; an id below ``FIRST`` is no item.
        weights: (targets,) factors of their losses, or ``None``.
    """
    # The target is the first column of its choice set.
    sets = torch.cat([targets[:, None], shown], dim=1)
    # Look ids up in one axis, as sparse gradients need them, and give the vectors the shape of the sets again.
    vectors = items(sets.flatten()).view(*sets.shape, -1)
    scores = (vectors @ hidden[:, :, None])[:, :, 0].masked_fill(sets < FIRST, -torch.inf)
    return weighted_mean(scores.logsumexp(1) - scores[:, 0], weights)


class _SampledCrossEntropy(torch.autograd.Function):
    """Sampled cross-entropy in blocks of rows with their gradients: five passes over all scores in place of 15."""

    @staticmethod
    def forward(
        ctx: Context[None],
        hidden: Tensor,
        target_vectors: Tensor,
        negative_vectors: Tensor,
        expected: Tensor,
        targets: Tensor,
        negatives: Tensor,
        weights: Tensor | None,
    ) -> Tensor:
        num_targets = len(targets)
        total = hidden.new_zeros(())
        grads = torch.empty_like(hidden), torch.empty_like(target_vectors), torch.zeros_like(negative_vectors)
        # Find the pairs once for all blocks: rows rise, so a block's pairs are one slice.
        row, column = _equal_pairs(targets, negatives)
        # Rows per block, by the memory of their scores.
        size = max(1, BLOCK // len(negatives))
        for low in range(0, num_targets, size):
            chunk = slice(low, low + size)
            scores = torch.addmm(-expected, hidden[chunk], negative_vectors.T)
            pairs = slice(*np.searchsorted(row, (low, low + size)))
            scores[torch.from_numpy(row[pairs] - low), torch.from_numpy(column[pairs])] = -torch.inf
            target_scores = (hidden[chunk] * target_vectors[chunk]).sum(1, keepdim=True)
            # Subtract the largest score of each row, so that no exponential overflows.
            top = torch.maximum(scores.amax(1, keepdim=True), target_scores)
            exponentials = scores.sub_(top).exp_()
            target_exponentials = (target_scores - top).exp_()
            sums = exponentials.sum(1, keepdim=True).add_(target_exponentials)
            losses = sums.log() + top - target_scores
            factors = 1.0 if weights is None else weights[chunk, None]
            total += (losses * factors).sum()
            scales = 1 / (sums * num_targets) * factors  # done to the narrow side of each product
            error = target_exponentials * scales - factors / num_targets
            hidden_grad = torch.mm(exponentials, negative_vectors, out=grads[0][chunk]).mul_(scales)
            hidden_grad.addcmul_(error, target_vectors[chunk])
            torch.mul(hidden[chunk], error, out=grads[1][chunk])
            grads[2].addmm_(exponentials.T, hidden[chunk] * scales)
        ctx.save_for_backward(*grads)
        return total / num_targets

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[None], grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved.mul(grad) for saved in ctx.saved_tensors), None, None, None, None)


def _equal_pairs(targets: Tensor, negatives: Tensor) -> tuple[Index, Index]:
    """Return (pairs,) rows, rising, and columns of every negative that is the target of its row."""
    negative_ids = negatives.numpy()
    target_ids = targets.numpy()
    order = negative_ids.argsort()
    # In sorted order the negatives equal to a target are one range, from low to high.
    low, high = (negative_ids.searchsorted(target_ids, side, order) for side in ("left", "right"))
    lengths = high - low
    row = np.repeat(np.arange(len(target_ids)), lengths)
    # Number the pairs of each row from 0: position among all pairs less the number of pairs of earlier rows.
    offsets = lengths.cumsum() - lengths
    return row, order[low[row] + np.arange(len(row)) - offsets[row]]


def draw_unseen(sessions: Tensor, num_ids: int, drawn: int = PAIRS) -> Tensor:
    """Draw ids uniformly, with replacement, from those that a session lacks.

    With ids 2 to 7 and a session of 3 and 5, the unseen ones are 2 4 6 7. One of them lies below 3 and two below 5, so
    the number 2 of ``0 … 3`` has both below it, and means id 2 + 2 + 2 = 6.

    Args:
        sessions: (sessions, time) ids of each; padding and unknown are passed over.
        num_ids: size of the catalogue, padding and unknown included.
        drawn: how many for each session.

    Returns:
        (sessions, drawn) ids; ``PADDING`` for a session that holds the whole catalogue.
    """
    ids = sessions.long().sort(dim=1).values
    # In sorted order an id that occurred before equals its left neighbour.
    repeated = ids == functional.pad(ids[:, :-1], (1, 0))
    distinct = (ids >= FIRST) & ~repeated
    count = distinct.cumsum(1)
    # Unseen ids below each distinct seen one, rising; other places are above every number that can be drawn.
    num_below = torch.where(distinct, ids - FIRST - (count - 1), num_ids).sort(dim=1).values
    num_unseen = num_ids - FIRST - count[:, -1:]
    uniform = torch.rand(len(sessions), drawn, dtype=torch.float64, device=sessions.device)
    number = (uniform * num_unseen).long()
    unseen = number + FIRST + torch.searchsorted(num_below, number, right=True)
    return torch.where(num_unseen > 0, unseen, PADDING)


def pairwise_loss(queries: Tensor, rows: Rows, targets: Tensor, negatives: Tensor) -> Tensor:
    """Return BPR on scores (Rendle et al. 2009): mean over pairs of -ln sigmoid(target's score - a negative's).

    Args:
        queries: (targets, dim).
        rows: from ids to their vectors, (…, dim).
        targets: (targets,) ids.
        negatives: (targets, drawn) ids for each target, or (drawn,) shared ones; pairs with padding or with the target
            itself are left out.
    """
    vectors = rows(negatives)
    # One product for shared negatives; a batched product where each target has its own.
    negative_scores = queries @ vectors.T if negatives.dim() == 1 else (vectors @ queries[:, :, None])[:, :, 0]
    return _mean_loss((queries * rows(targets)).sum(1, keepdim=True) - negative_scores, _pairs(targets, negatives))


def pairwise_softmax_loss(queries: Tensor, rows: Rows, targets: Tensor, negatives: Tensor) -> Tensor:
    """Return BPR on softmax outputs, as SANSR's Eqs. 7-8 print it: the loss of a pair lies in [0.313, 1.313].

    Args:
        queries: (targets, dim).
        rows: from ids to their vectors, (…, dim).
        targets: (targets,) ids.
        negatives: (targets, drawn) ids for each target; pairs with padding are left out.
    """
    probabilities = (queries @ rows(slice(FIRST, None)).T).softmax(dim=1)
    # Columns start at FIRST; padding is clamped to a valid column, and its pairs are masked below.
    negative_probabilities = probabilities.gather(1, (negatives - FIRST).clamp(min=0))
    target_probabilities = probabilities.gather(1, targets[:, None] - FIRST)
    return _mean_loss(target_probabilities - negative_probabilities, _pairs(targets, negatives))


def _pairs(targets: Tensor, negatives: Tensor) -> Tensor:
    """Return (targets, drawn) True where a negative is an item other than the target."""
    return (negatives != targets[:, None]) & (negatives >= FIRST)


def _mean_loss(differences: Tensor, pairs: Tensor) -> Tensor:
    """Return the mean of -ln sigmoid over the pairs; 0, with gradient 0, for a catalogue of one item without pairs."""
    return -(functional.logsigmoid(differences) * pairs).sum() / pairs.sum().clamp(min=1)
