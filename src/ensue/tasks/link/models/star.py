"""The Star-Transformer with adaptive entmax: a ring of neighbours, and a relay that reads them all.

Danovitch, Linking social media posts to news with Siamese Transformers, ITCSE 2020, section 3.4-3.5, after Guo et al.,
Star-Transformer, NAACL 2019. Time and memory are linear in the length of a text: a ring is a handful of shifted
products, and the relay's one query is carried to the nodes instead of the nodes to it.

=====================  ============================================================================
C_i, h_i of 3.5        ``Ring``: a token attends over itself, c neighbours a side, its embedding, the relay
s of 3.5               ``Star``: the relay attends over itself and all nodes
alpha-entmax of 3.4    one learned alpha a head in each, in ``ensue.nn.normalisers``
ASEntmax's scale       with ``scaled``, in each too: ``Scales`` in ``ensue.nn.normalisers``
(max(H) + s) / 2       ``AST``
=====================  ============================================================================

What the paper leaves open is taken from the author's earlier program and the Star-Transformer's own: a LayerNorm on the
nodes before they attend, LeakyReLU after, no residual, scores divided by the square root of a head's width.

**Departures.** Section 3.5 prints C_i = [h_{i-c}; ...; h_{i+c}; s] and s := MHA(H, s, s). Here, as in the author's
program and in Guo et al., the token's own embedding e_i is among the keys too, and the relay is among its own. As
printed, the arguments of the attention make the context the query; here a node queries its context, and the relay the
nodes. Padding never counts: neither in the mean that the relay starts from, nor in a window at the
end of a text, nor in the maximum.

With ``residual``, which the paper does not have, a text starts as the mean of its words' vectors, and attention learns
to weigh them: a ring adds to its tokens, and adds nothing at first; the relay asks for nothing, so that it attends
evenly, and hands on what it attends to; the maximum counts by a number that starts at 0. No LeakyReLU then, which
would halve what vectors on either side of 0 say.

``sparse`` and ``relay`` take apart what the paper puts together: without the first all attention is softmax; without
the second words attend to their neighbours alone, and the mean of the nodes stands where the relay stood.

``scaled`` multiplies all scores by the learned temperature of ASEntmax, which is not in the paper. Its query is what
W_Q reads: the normalised node in a ring, the relay in a star. A window has at most 2 c + 3 keys; a star has one per
word, and the relay.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.errors import SettingError
from ensue.nn import fused_window
from ensue.nn.attention import masked_mean
from ensue.nn.normalisers import Alphas, Scales, entmax
from ensue.tasks.link.batches import DistinctWords

_SLOPE = 0.01  # of LeakyReLU below 0


class Ring(nn.Module):
    """Each token attends over its window: itself, ``neighbours`` a side, its embedding and the relay.

    Args:
        dim: width of the tokens.
        heads: number of heads; divides ``dim``.
        neighbours: on each side.
        residual: whether what it makes is added to the tokens, at first nothing.
        sparse: whether weights are by entmax with a learned alpha a head, or by softmax.
        relay: whether tokens attend to it.
        scaled: whether scores are multiplied by a learned temperature.
    """

    summing: Tensor

    def __init__(
        self,
        dim: int,
        heads: int,
        neighbours: int,
        *,
        residual: bool = False,
        sparse: bool = True,
        relay: bool = True,
        scaled: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.neighbours = neighbours
        self.residual = residual
        self.relay = relay
        self.norm = nn.LayerNorm(dim)
        self.inward = _projections(dim)
        self.alphas = Alphas(heads) if sparse else None
        self.scales = Scales(dim, heads) if scaled else None
        summing = torch.eye(heads).repeat_interleave(dim // heads, 0)
        self.summing = nn.Buffer(summing, persistent=False)  # (dim, heads): sums the features of each head
        if residual:
            nn.init.zeros_(self.inward.weight[2 * dim :])

    def forward(self, words: DistinctWords, nodes: Tensor | None, relay: Tensor) -> Tensor:
        """One step.

        Args:
            words: the embeddings.
            nodes: (rows, length, dim), 0 at padding; ``None``: the embeddings.
            relay: (rows, dim).

        Returns:
            (rows, length, dim), 0 at padding.
        """
        key_value = self.inward.weight[self.dim :]  # W_K over W_V
        each = functional.linear(words.vectors, key_value)
        if nodes is None:
            each = torch.cat([each, self.inward(self.norm(words.vectors))], 1)
        last = functional.linear(relay, key_value)
        attend = self._attend_compiled if fused_window.fits(each) else self._attend
        mixed = attend(words, each, nodes, last)
        if not self.residual:
            return functional.leaky_relu(mixed, _SLOPE)
        return mixed + (words.spread(words.vectors) * words.mask[..., None] if nodes is None else nodes)

    def _attend_compiled(self, words: DistinctWords, each: Tensor, nodes: Tensor | None, last: Tensor) -> Tensor:
        """Return the attention of :meth:`_attend`, by a compiled function."""
        firsts, node_projections = torch.tensor_split(each, [2 * self.dim], 1)
        node_projections = node_projections if nodes is None else self.inward(self.norm(nodes)).flatten(0, 1)
        queries, *nears = node_projections.chunk(3, 1)
        index = words.places if nodes is None else None
        windows = fused_window.FusedWindows(words.places, index, words.mask, self.heads, self.neighbours)
        keys, values = zip(nears, firsts.chunk(2, 1), last.chunk(2, 1) if self.relay else (None, None), strict=True)
        weights = self._normalised(fused_window.window_products(windows, queries, *keys), words, nodes)
        return fused_window.window_sums(windows, weights, *values)

    def _attend(self, words: DistinctWords, each: Tensor, nodes: Tensor | None, last: Tensor) -> Tensor:
        """(rows, length, dim) from what each distinct word gives, and the (rows, 2 dim) key and value of the relay.

        A word gives the key and the value of its embedding and, where they are the nodes, a query, a key and a value.
        """
        firsts, node_projections = torch.tensor_split(words.spread(each), [2 * self.dim], 2)
        node_projections = node_projections if nodes is None else self.inward(self.norm(nodes))
        queries, nears = torch.split(node_projections, [self.dim, 2 * self.dim], 2)
        contexts = [*self._shifts(nears), firsts, *([last[:, None]] if self.relay else [])]
        scores = torch.stack([(queries * context[..., : self.dim]) @ self.summing for context in contexts])
        weights = self._normalised(scores.movedim(0, -1), words, nodes)
        mixed = queries.new_zeros(*queries.shape[:2], self.heads, self.dim // self.heads)
        for index, context in enumerate(contexts):
            mixed = mixed + weights[..., index, None] * _by_head(context[..., self.dim :], self.heads)
        return mixed.flatten(2)

    def _normalised(self, scores: Tensor, words: DistinctWords, nodes: Tensor | None) -> Tensor:
        """(rows, length, heads, keys): neighbours from left to right with the token among them, embedding, relay."""
        mask = words.mask
        neighbour_masks = [shifted & mask for shifted in self._shifts(mask)]
        seen = torch.stack([*neighbour_masks, *([mask] * (scores.shape[-1] - len(neighbour_masks)))])[..., None]
        scores = scores * (self.dim // self.heads) ** -0.5
        if self.scales is not None:
            # Projected once per distinct word where the words are the nodes.
            projected = self.scales.projection(self.norm(words.vectors if nodes is None else nodes))
            projected = words.spread(projected) if nodes is None else projected
            scores = scores * self.scales(projected, seen.sum(0)[..., 0])[..., None]
        return entmax(scores, _alpha(self.alphas), seen.movedim(0, -1))

    def _shifts(self, tokens: Tensor) -> list[Tensor]:
        """Return the neighbours of each token, from c positions before to c positions after it; 0 beyond the ends."""
        reach = self.neighbours
        length = tokens.shape[1]
        padded = functional.pad(tokens, (0, 0) * (tokens.dim() - 2) + (reach, reach))
        return [padded[:, low : low + length] for low in range(2 * reach + 1)]


class Star(nn.Module):
    """The relay attends over itself and all nodes.

    With one query a row, (W_K n) . q is n . (W_K' q), and the weighted sum of W_V n is W_V of the weighted sum: no node
    is projected.

    Args:
        dim: width of the nodes.
        heads: number of heads; divides ``dim``.
        residual: whether it starts as an even mean, and lets it through as it is.
        sparse: as of :class:`Ring`.
        scaled: as of :class:`Ring`.
    """

    def __init__(
        self, dim: int, heads: int, *, residual: bool = False, sparse: bool = True, scaled: bool = False
    ) -> None:
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.residual = residual
        self.inward = _projections(dim)
        self.alphas = Alphas(heads) if sparse else None
        self.scales = Scales(dim, heads) if scaled else None
        if residual:
            nn.init.zeros_(self.inward.weight[:dim])
            nn.init.eye_(self.inward.weight[2 * dim :])

    def forward(self, nodes: Tensor, relay: Tensor, mask: Tensor) -> Tensor:
        """Return the next relay, (rows, dim).

        Args:
            nodes: (rows, length, dim).
            relay: (rows, dim).
            mask: (rows, length) bool.
        """
        query, key, value = self.inward.weight.view(3, self.heads, -1, self.dim)  # each (heads, dim / heads, dim)
        probes = torch.einsum("rk,hdk,hdm->rhm", relay, query, key) * (self.dim // self.heads) ** -0.5
        scores = torch.cat([probes @ relay[..., None], probes @ nodes.transpose(1, 2)], 2)
        seen = torch.cat([mask.any(1, keepdim=True), mask], 1)[:, None]
        if self.scales is not None:
            scores = scores * self.scales(self.scales.projection(relay), seen.sum(2)[:, 0])[..., None]
        weights = entmax(scores, _alpha(self.alphas), seen)
        mixed = weights[..., :1] * relay[:, None] + weights[..., 1:] @ nodes
        values = torch.einsum("rhm,hdm->rhd", mixed, value).flatten(1)
        return values if self.residual else functional.leaky_relu(values, _SLOPE)


class Even(nn.Module):
    """The mean of the nodes in the place of a relay that attends; steps as of :class:`Star`.

    Args:
        residual: as of :class:`Star`.
    """

    def __init__(self, *, residual: bool = False) -> None:
        super().__init__()
        self.residual, self.alphas = residual, None

    def forward(self, nodes: Tensor, relay: Tensor, mask: Tensor) -> Tensor:
        """Return the mean of the nodes, (rows, dim); the former relay is not used."""
        means = (masked_mean(mask, nodes.dtype)[:, None] @ nodes)[:, 0]
        return means if self.residual else functional.leaky_relu(means, _SLOPE)


class AST(nn.Module):
    """A text as (max(H) + s) / 2; with ``residual`` as s + m max(H), with a learned m that starts at 0.

    Args:
        dim: width of the words' vectors, and of the text's.
        heads: number of heads.
        neighbours: c, on each side.
        cycles: T, of a ring and a star step each, with parameters of their own.
        residual: whether it starts as the mean of the words' vectors.
        sparse: whether attention is by entmax, with a learned alpha a head; by softmax if not.
        relay: whether there is a relay that words attend to, and that attends to them; the mean of the nodes if not.
        scaled: whether scores are multiplied by the learned temperature of ASEntmax.

    Raises:
        SettingError: heads that do not divide the width.
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int = 6,
        neighbours: int = 1,
        cycles: int = 1,
        residual: bool = False,
        sparse: bool = True,
        relay: bool = True,
        scaled: bool = False,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise SettingError(f"heads is {heads}, which does not divide the {dim} numbers of a word's vector")
        self.width = dim
        self.rings = nn.ModuleList(
            Ring(dim, heads, neighbours, residual=residual, sparse=sparse, relay=relay, scaled=scaled)
            for _ in range(cycles)
        )
        self.stars = nn.ModuleList(
            Star(dim, heads, residual=residual, sparse=sparse, scaled=scaled) if relay else Even(residual=residual)
            for _ in range(cycles)
        )
        self.maximum = nn.Parameter(torch.zeros(())) if residual else None
        """m."""

    def forward(self, words: DistinctWords) -> Tensor:
        """(rows, dim); 0 for a text without a word."""
        nodes: Tensor | None = None
        relay = words.mean()
        for ring, star in zip(self.rings, self.stars, strict=True):
            nodes = ring(words, nodes, relay)
            relay = star(nodes, relay, words.mask)
        assert nodes is not None
        maxima = nodes.masked_fill(~words.mask[..., None], torch.finfo(nodes.dtype).min).max(1).values
        maxima = maxima * words.mask.any(1, keepdim=True)
        return (maxima + relay) / 2 if self.maximum is None else relay + self.maximum * maxima

    def alphas(self) -> dict[str, list[float]]:
        """The learned alpha of each head (Fig. 3), ring and star of each cycle; none by softmax."""
        steps = {"ring": self.rings, "star": self.stars}
        return {
            f"{name} {cycle}": step.alphas().tolist()  # type: ignore[operator]
            for name, modules in steps.items()
            for cycle, step in enumerate(modules, 1)
            if step.alphas is not None
        }


def _by_head(vectors: Tensor, heads: int) -> Tensor:
    """(…, dim) to (…, heads, dim / heads)."""
    return vectors.view(*vectors.shape[:-1], heads, -1)


def _projections(dim: int) -> nn.Linear:
    """W_Q over W_K over W_V, each with Glorot's start; as in the paper, without biases."""
    layer = nn.Linear(dim, 3 * dim, bias=False)
    for matrix in layer.weight.chunk(3):
        nn.init.xavier_uniform_(matrix)
    return layer


def _alpha(alphas: Alphas | None) -> float | Tensor:
    """(heads, 1), or that of softmax."""
    return 1.0 if alphas is None else alphas()[:, None]
