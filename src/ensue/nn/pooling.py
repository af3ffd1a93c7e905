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
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ensue import kernels
from ensue.errors import SettingError
from ensue.nn.attention import masked_mean, masked_softmax
from ensue.nn.autograd import is_traced
from ensue.nn.centrality import Method, centrality, connections, damped
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.word_graph import AdditiveScores, BilinearScores


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
