"""Scores between every two words of a text: additive, in blocks that stay in the cache, and bilinear.

``scores[i, j]`` is the strength of the connection from word j to word i (Gong et al. 2020, Eq. 6). The additive form is
w . tanh(a_i + b_j). Written with r = 1 / (1 + exp(2 a_i) exp(2 b_j)), tanh(a_i + b_j) is 1 - 2 r, and its slope
4 r (1 - r): the exponentials are taken once a word, and a pair of words costs one product and one division.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ensue import kernels
from ensue.nn.autograd import Context, apply, is_traced
from ensue.nn.device import is_float32_on_cpu

BLOCK = 2**18
"""Numbers held at once (1 MB in float32): a block stays in the processor's cache from product to sum."""
GPU_BLOCK = 2**26
"""Block size on a GPU, where fewer blocks are faster."""
_LARGEST = 40.0
"""Up to here exp(2 a) and exp(2 b) are normal numbers in float32; beyond, r is taken from the sum a + b."""


class AdditiveScores(nn.Module):
    """w . tanh(W_r h_i + b_r + W_l h_j + b_l): what word i receives from word j.

    The constant c of the paper's released program is left out: no softmax over words can see it.

    Args:
        dim: width of the words.
        score_dim: width inside the tanh.
    """

    def __init__(self, dim: int, score_dim: int) -> None:
        super().__init__()
        self.sides = _sides(dim, score_dim)
        self.vector = nn.Parameter(torch.empty(score_dim))
        nn.init.xavier_uniform_(self.vector[None])

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Return (batch, words, words) scores of (batch, words, dim) words; those of padding have no meaning."""
        receiving, giving = self.sides(words).chunk(2, dim=-1)
        return additive_scores(receiving, giving, self.vector, mask)


class BilinearScores(nn.Module):
    """(W_r h_i + b_r) . (W_l h_j + b_l) / sqrt(score_dim): the division keeps the softmax from saturating at the start.

    Args:
        dim: width of the words.
        score_dim: width of the two projections.
    """

    def __init__(self, dim: int, score_dim: int) -> None:
        super().__init__()
        self.sides = _sides(dim, score_dim)
        self.scale = score_dim**-0.5

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Return (batch, words, words) scores of (batch, words, dim) words; those of padding have no meaning."""
        receiving, giving = self.sides(words).chunk(2, dim=-1)
        return self.scale * receiving @ giving.transpose(1, 2)


def _sides(dim: int, score_dim: int) -> nn.Linear:
    """Return W_r and b_r on top of W_l and b_l: two projections in one product, each with Glorot initialisation."""
    layer = nn.Linear(dim, 2 * score_dim)
    for weight in layer.weight.chunk(2):
        nn.init.xavier_uniform_(weight)
    nn.init.zeros_(layer.bias)
    return layer


def _compiled_additive_scores(receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor) -> Tensor:
    """Compute :func:`additive_scores`; ``NotImplemented`` where exp(2 x) of a number is too large."""
    batch, words, dim = receiving.shape
    step = receiving.stride(1)
    if receiving.shape != giving.shape:
        raise ValueError(f"giving has the shape {tuple(giving.shape)}, not {tuple(receiving.shape)}")
    # Two halves of one product share their strides, and the kernel reads them in place; anything else is copied.
    if not receiving.stride() == giving.stride() == (words * step, step, 1):
        receiving = receiving.contiguous()
        giving = giving.contiguous()
        step = dim
    scores = receiving.new_zeros(batch, words, words)
    too_large = kernels.call(
        "pair_scores", receiving=receiving.data_ptr(), giving=giving.data_ptr(), vector=vector.contiguous(), dim=dim,
        lengths=(mask * torch.arange(1, words + 1)).amax(1), out=scores, step=step, largest=_LARGEST,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return NotImplemented if too_large else scores


def _suits_additive_scores(receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor) -> bool:
    plain = is_float32_on_cpu(receiving, giving, vector) and mask.is_cpu and receiving.numel() > 0
    return plain and not torch.is_grad_enabled()


@kernels.compiled(_compiled_additive_scores, when=_suits_additive_scores)
def additive_scores(receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor) -> Tensor:
    """Return scores vector . tanh(receiving_i + giving_j) of all pairs without a (words x words x dim) tensor.

    Texts are taken longest first and cut to their length, so padding costs little. Blocks are computed again in the
    backward pass; double backward is refused.

    Args:
        receiving: (batch, words, dim) of the row.
        giving: (batch, words, dim) of the column.
        vector: (dim,).
        mask: (batch, words) bool.

    Returns:
        (batch, words, words); pairs with padding hold some finite number. Their gradient must be 0, as it is after
        ``connections``.
    """
    if is_traced():
        # All pairs at once: blocks would be cut for the batch that is traced.
        return (receiving[:, :, None] + giving[:, None]).tanh().matmul(vector[:, None])[..., 0]
    return apply(_PairScores, receiving, giving, vector, mask)


class _Block(NamedTuple):
    texts: slice
    rows: slice
    length: int


def _blocks(lengths: list[int], dim: int, most: int) -> Iterator[_Block]:
    """Cut texts of falling ``lengths`` into whole texts, or rows of one text, of about ``most`` numbers."""
    first = 0
    while first < len(lengths) and (length := lengths[first]):
        # Short texts share a block; one long text is cut into blocks of rows.
        texts = max(1, most // (length * length * dim))
        rows = length if texts > 1 else max(1, most // (length * dim))
        for low in range(0, length, rows):
            yield _Block(slice(first, first + texts), slice(low, min(low + rows, length)), length)
        first += texts


class _Blocks(Context, Protocol):
    blocks: list[_Block]


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Blocks, receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor) -> Tensor:
        positions = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        # Length of a text = position of its last word, even if padding lies between.
        lengths, falling = (mask * positions).amax(1).sort(descending=True, stable=True)
        order = falling if (falling.diff() < 0).any() else None
        ctx.blocks = list(_blocks(lengths.tolist(), len(vector), GPU_BLOCK if mask.is_cuda else BLOCK))
        ctx.save_for_backward(receiving, giving, vector, order)
        scores = receiving.new_zeros(*mask.shape, len(positions))
        doubled = -2 * vector
        blocks = _sigmoids(ctx.blocks, *_sorted(order, receiving, giving))
        for (texts, rows, length), sigmoids in zip(ctx.blocks, blocks, strict=True):
            scores[texts, rows, :length] = sigmoids.sub_(0.5) @ doubled  # 1/2 goes first: a smaller sum rounds less
        # The inverse permutation restores the order of the texts.
        return scores if order is None else scores[order.argsort()]

    @staticmethod
    @once_differentiable
    def backward(ctx: _Blocks, grad: Tensor) -> tuple[Tensor | None, ...]:
        receiving, giving, vector, order = ctx.saved_tensors
        (errors,) = _sorted(order, grad)
        to_vector = torch.zeros_like(vector)
        to_receiving = torch.zeros_like(receiving)
        to_giving = torch.zeros_like(giving)
        blocks = _sigmoids(ctx.blocks, *_sorted(order, receiving, giving))
        for (texts, rows, length), sigmoids in zip(ctx.blocks, blocks, strict=True):
            error = errors[texts, rows, :length, None]
            falls = sigmoids * error
            to_vector += falls.sum((0, 1, 2))
            slopes = falls.addcmul_(falls, sigmoids, value=-1)  # error r (1 - r)
            to_receiving[texts, rows] += slopes.sum(2)
            to_giving[texts, :length] += slopes.sum(1)
        sides = _sorted(None if order is None else order.argsort(), to_receiving, to_giving)
        to_receiving, to_giving = (side * (4 * vector) for side in sides)
        return to_receiving, to_giving, grad.sum() - 2 * to_vector, None


def _sorted(order: Tensor | None, *rows: Tensor) -> tuple[Tensor, ...]:
    """Return the texts in an order; ``None`` means that they are in order already, as in the blocks of a batch."""
    return rows if order is None else tuple(tensor[order] for tensor in rows)


def _sigmoids(blocks: list[_Block], receiving: Tensor, giving: Tensor) -> Iterator[Tensor]:
    """Yield for each block the (texts, rows, length, dim) numbers r = 1 / (1 + exp(2 (receiving_i + giving_j)))."""
    product = max(receiving.abs().max().item(), giving.abs().max().item()) <= _LARGEST
    # Add axes to broadcast: rows of the score matrix receive, columns give.
    receiving = 2 * receiving[:, :, None]
    giving = 2 * giving[:, None]
    if product:
        receiving = receiving.exp_()
        giving = giving.exp_()
        unit = receiving.new_ones(())
    for texts, rows, length in blocks:
        row = receiving[texts, rows]
        column = giving[texts, :, :length]
        yield torch.addcmul(unit, row, column).reciprocal_() if product else (-row - column).sigmoid_()
