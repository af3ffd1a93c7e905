"""From the vectors of words to the vector of a text: six poolings behind one call, on equal terms.

Each is built with ``(dim, …)``, knows its ``width``, and maps (batch, words, dim) vectors and a (batch, words) mask to
``Pooled``. Every one sees the words through a LayerNorm and passes its vector through another, as in the released
program of Gong et al. 2020 (section 2.1 and 3), whose baselines went without. Padding never counts, and a text without
a word gets zeros, with no gradient.

===================  ==================================================================
``Max``              Eq. 4
``Mean``             average pooling
``SelfAttention``    Eq. 5, with the hidden layer of the paper's ref. 15 under the query
``DynamicRouting``   Gong et al., COLING 2018, standard and reverse
``Centrality``       Eqs. 3, 6-8; with ``damping`` below 1, TokenRank (Erel et al., NeurIPS 2025)
===================  ==================================================================

**Departures.** TokenRank ranks the tokens of a trained transformer; here its weights pool the words, and its attention
matrix, a softmax of bilinear scores, is trained with them. Bilinear scores are divided by the root of their width
(``word_graph``). Self-attention's hidden layer is as wide as that of the word graph, so that the two differ in nothing
but the graph; it pools the words themselves.

Scores between every two words of a text: additive, in blocks that stay in the cache, and bilinear.

``scores[i, j]`` is the strength of the connection from word j to word i (Gong et al. 2020, Eq. 6). The additive form is
w . tanh(a_i + b_j). Written with r = 1 / (1 + exp(2 a_i) exp(2 b_j)), tanh(a_i + b_j) is 1 - 2 r, and its slope
4 r (1 - r): the exponentials are taken once a word, and a pair of words costs one product and one division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ensue import kernels
from ensue.errors import SettingError
from ensue.nn.attention import masked_mean, masked_softmax
from ensue.nn.autograd import Context, apply, is_traced
from ensue.nn.centrality import Method, centrality, connections, damped
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


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context[list[_Block]], receiving: Tensor, giving: Tensor, vector: Tensor, mask: Tensor) -> Tensor:
        positions = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        # Length of a text = position of its last word, even if padding lies between.
        lengths, falling = (mask * positions).amax(1).sort(descending=True, stable=True)
        order = falling if (falling.diff() < 0).any() else None
        ctx.options = list(_blocks(lengths.tolist(), len(vector), GPU_BLOCK if mask.is_cuda else BLOCK))
        ctx.save_for_backward(receiving, giving, vector, order)
        scores = receiving.new_zeros(*mask.shape, len(positions))
        doubled = -2 * vector
        blocks = _sigmoids(ctx.options, *_sorted(order, receiving, giving))
        for (texts, rows, length), sigmoids in zip(ctx.options, blocks, strict=True):
            scores[texts, rows, :length] = sigmoids.sub_(0.5) @ doubled  # 1/2 goes first: a smaller sum rounds less
        # The inverse permutation restores the order of the texts.
        return scores if order is None else scores[order.argsort()]

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[list[_Block]], grad: Tensor) -> tuple[Tensor | None, ...]:
        receiving, giving, vector, order = ctx.saved_tensors
        (errors,) = _sorted(order, grad)
        to_vector = torch.zeros_like(vector)
        to_receiving = torch.zeros_like(receiving)
        to_giving = torch.zeros_like(giving)
        blocks = _sigmoids(ctx.options, *_sorted(order, receiving, giving))
        for (texts, rows, length), sigmoids in zip(ctx.options, blocks, strict=True):
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


class Pooled(NamedTuple):
    """One vector per text, and the weights of its words."""

    vector: Tensor
    """(batch, width)."""
    weights: Tensor
    """(batch, words) weights of the words: 0 at padding, rows of sum 1, or 0 where a text has no word."""
    graph: Tensor | None = None
    """(batch, words, words): entry (i, j) is how much of its weight word j hands to word i; columns of sum 1."""


def _normalize(norm: nn.LayerNorm, vector: Tensor, mask: Tensor) -> Tensor:
    """Return the LayerNorm of each text's vector; zeros where a text has no word."""
    normal: Tensor = norm(vector)
    return normal.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def _mix(weights: Tensor, words: Tensor) -> Tensor:
    """Return the weighted sum of the words (Eq. 3), (batch, dim)."""
    return (weights[:, None] @ words)[:, 0]


class _NormedPooling(nn.Module):
    """A pooling with a LayerNorm before and after it.

    Args:
        dim: width of the words.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.width = dim
        self.before = nn.LayerNorm(dim)
        self.after = nn.LayerNorm(dim)


class Max(_NormedPooling):
    """The largest value of each feature. A word's weight is the fraction of features that are largest there."""

    def forward(self, vectors: Tensor, mask: Tensor) -> Pooled:
        """Pool (batch, words, dim) vectors by a (batch, words) mask, words at least 1."""
        words = self.before(vectors)
        # Padding is never the maximum; a text without a word has only padding and gets zeros.
        hidden = words.masked_fill(~mask[..., None], torch.finfo(words.dtype).min)
        vector, positions = hidden.masked_fill(~mask.any(-1)[:, None, None], 0.0).max(1)
        # Count how many features have their maximum at each word.
        weights = torch.zeros_like(hidden[..., 0]).scatter_add_(1, positions, torch.ones_like(vector)) / self.width
        return Pooled(_normalize(self.after, vector, mask), weights * mask)


class Mean(_NormedPooling):
    """The mean of the words."""

    def forward(self, vectors: Tensor, mask: Tensor) -> Pooled:
        """Pool (batch, words, dim) vectors by a (batch, words) mask."""
        weights = masked_mean(mask, vectors.dtype)
        return Pooled(_normalize(self.after, _mix(weights, self.before(vectors)), mask), weights)


class SelfAttention(_NormedPooling):
    """Weights softmax(w . tanh(W h_i + b)): a word is weighed without a look at the others.

    Args:
        dim: width of the words.
        score_dim: width inside the tanh.
    """

    def __init__(self, dim: int, *, score_dim: int = 50) -> None:
        super().__init__(dim)
        self.hidden = nn.Linear(dim, score_dim)
        self.query = nn.Parameter(torch.empty(score_dim))
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)
        nn.init.xavier_uniform_(self.query[None])

    def forward(self, vectors: Tensor, mask: Tensor) -> Pooled:
        """Pool (batch, words, dim) vectors by a (batch, words) mask."""
        words = self.before(vectors)
        weights = masked_softmax(self.hidden(words).tanh() @ self.query, mask)
        return Pooled(_normalize(self.after, _mix(weights, words), mask), weights)


class DynamicRouting(nn.Module):
    """Routing by agreement (Sabour et al. 2017) from words to capsules, which are concatenated.

    Word i offers capsule k the vector tanh(W_k h_i + b_k), with one W_k for all places. A softmax over capsules (each
    word shares itself out) or, in reverse, over words (each capsule chooses) turns agreements into routing weights.

    Args:
        dim: width of the words, and of a capsule.
        reverse: softmax over words instead of capsules.
        capsules: number of capsules.
        iterations: rounds of routing, the first with equal weights.
    """

    def __init__(self, dim: int, *, reverse: bool = False, capsules: int = 5, iterations: int = 3) -> None:
        super().__init__()
        self.reverse = reverse
        self.capsules = capsules
        self.iterations = iterations
        self.width = capsules * dim
        self.before = nn.LayerNorm(dim)
        self.after = nn.LayerNorm(self.width)
        self.offer = nn.Linear(dim, self.width)
        nn.init.xavier_uniform_(self.offer.weight)
        nn.init.zeros_(self.offer.bias)

    def forward(self, vectors: Tensor, mask: Tensor) -> Pooled:
        """Pool (batch, words, dim) vectors by a (batch, words) mask; weights are means over the capsules."""
        if is_traced():
            offers = self.offer(self.before(vectors)).tanh() * mask[..., None]
        else:
            of_words = self.offer(self.before(vectors[mask])).tanh()  # a large product, so for the words alone
            offers = of_words.new_zeros(*mask.shape, self.width)
            # Scatter the offers of the words to their positions; padding keeps zeros.
            offers[mask] = of_words
        # (batch, words, capsules x dim) to (batch, capsules, words, dim).
        offers = offers.view(*mask.shape, self.capsules, -1).transpose(1, 2)
        real = mask[:, None]
        agreement = torch.zeros_like(offers[..., 0])  # (batch, capsules, words)
        for iteration in range(self.iterations):
            routing = masked_softmax(agreement, real) if self.reverse else agreement.softmax(1).masked_fill(~real, 0.0)
            capsules = _squash((routing[:, :, None] @ offers)[:, :, 0])
            if iteration < self.iterations - 1:
                # The agreement grows by the dot product of each offer and its capsule; the last round needs none.
                agreement = agreement + (offers @ capsules[..., None])[..., 0]
        shares = routing / routing.sum(-1, keepdim=True).masked_fill(~real.any(-1, keepdim=True), 1.0)
        return Pooled(_normalize(self.after, capsules.flatten(1), mask), shares.mean(1))


def _squash(vectors: Tensor) -> Tensor:
    """Return |s|² / (1 + |s|²) s / |s|: the same direction, with a length below 1."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return length / (1 + length.square()) * vectors


class Centrality(nn.Module):
    """Weights are the centralities of the words in their graph of attention.

    Args:
        dim: width of the words.
        score: ``"additive"`` or ``"bilinear"``, see ``word_graph``.
        method: method for the eigenvector and its gradient, see ``centrality``.
        score_dim: width inside the score.
        damping: probability that a step of the walk follows the graph; otherwise it jumps to a random word.

    Raises:
        SettingError: an unknown score; an unknown method at the first call.
    """

    def __init__(
        self,
        dim: int,
        *,
        score: Literal["additive", "bilinear"] = "additive",
        method: Method = "solve",
        score_dim: int = 50,
        damping: float = 1.0,
    ) -> None:
        super().__init__()
        if score not in ("additive", "bilinear"):
            raise SettingError(f"score is {score!r}; it must be additive or bilinear")
        self.width = dim
        self.method = method
        self.damping = damping
        self.before = nn.LayerNorm(dim)
        self.after = nn.LayerNorm(dim)
        self.score = (AdditiveScores if score == "additive" else BilinearScores)(dim, score_dim)

    def forward(self, vectors: Tensor, mask: Tensor) -> Pooled:
        """Pool (batch, words, dim) vectors by a (batch, words) mask, words at least 1."""
        words = self.before(vectors)
        graph, weights = word_graph(self.score(words, mask), mask, self.method, self.damping)
        return Pooled(_normalize(self.after, _mix(weights, words), mask), weights, graph)


def _compiled_word_graph(scores: Tensor, mask: Tensor, method: Method, damping: float = 1.0) -> tuple[Tensor, Tensor]:
    weights = scores.new_empty(mask.shape)
    graph = torch.empty_like(scores, memory_format=torch.contiguous_format)
    kernels.call(
        "word_graphs", lengths=mask.sum(1), scores=scores.contiguous(), weights=weights, graph=graph,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return graph, weights


def _suits_word_graph(scores: Tensor, mask: Tensor, method: Method, damping: float = 1.0) -> bool:
    if damping < 1:
        return False
    plain = is_float32_on_cpu(scores) and mask.is_cpu and scores.numel() > 0 and not torch.is_grad_enabled()
    return plain and method == "solve" and not bool((mask[:, 1:] > mask[:, :-1]).any())  # words precede padding


@kernels.compiled(_compiled_word_graph, when=_suits_word_graph)
def word_graph(scores: Tensor, mask: Tensor, method: Method, damping: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the word graph (the transition matrix) and the centralities.

    Args:
        scores: (batch, words, words) any finite numbers, also at padding.
        mask: (batch, words) bool.
        method: see :func:`ensue.nn.centrality.centrality`.
        damping: see :func:`ensue.nn.centrality.damped`.

    Returns:
        (batch, words, words) as from ``connections`` and ``damped``, and (batch, words) as from ``centrality``.
    """
    graph = connections(scores, mask)
    if damping < 1:
        graph = damped(graph, mask, damping)
    return graph, centrality(graph, mask, method=method)


Pooling = Max | Mean | SelfAttention | DynamicRouting | Centrality
"""Any of the poolings; all have ``width`` and the same call."""
POOLINGS: dict[str, Callable[..., Pooling]] = {
    "max": Max,
    "mean": Mean,
    "self-attention": SelfAttention,
    "routing": DynamicRouting,
    "reverse-routing": partial(DynamicRouting, reverse=True),
    "centrality": Centrality,
    "centrality-bilinear": partial(Centrality, score="bilinear"),
    "tokenrank": partial(Centrality, score="bilinear", damping=0.99),
}
"""The poolings by name; each is called with ``dim`` and its keywords."""
