"""The Transformer decoder that MTN and its two plain rivals share: it writes a query, token by token.

Vaswani et al., NeurIPS 2017. What it reads is a :class:`Memory`, one row a session; which encoder made it is not its
business. Several rows that are written (beams, candidates) may stand side by side for one row of the memory.

With ``copy`` a token is written or copied (See, Liu & Manning, ACL 2017, Eqs. 8-9): p(w) = g p_vocabulary(w) + (1 - g)
x the attention of the last layer on places where w stands. The gate g is read from the last state, which holds the
context already. Label smoothing then touches p_vocabulary alone.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.dropout import Dropout
from ensue.nn.transformer import DecoderLayer, Rows, sinusoids
from ensue.suggest.batch import PADDING
from ensue.suggest.words import Words


class Memory(NamedTuple):
    """What was typed so far, ready to be attended to; one row a session.

    Attributes:
        keys: (rows, layers, 2, heads, source, dim / heads) keys beside values.
        mask: (rows, source) True where a token stands.
        words: (rows, source) which.
        places: (rows, source) where in the row's (turns x width) tokens; -1 for what was put in between.
    """

    keys: Tensor
    mask: Tensor
    words: Tensor
    places: Tensor


class State(NamedTuple):
    """Where the writing stands: (rows, 2, heads, steps, dim / heads) a layer."""

    layers: tuple[Tensor, ...]

    @property
    def steps(self) -> int:
        """Tokens read so far."""
        return self.layers[0].shape[3] if self.layers else 0

    def select(self, index: Tensor) -> State:
        """Rows picked, repeated or put in order."""
        return State(tuple(layer.index_select(0, index) for layer in self.layers))


class Writer(nn.Module):
    """The words, their positions, decoder layers, and the output.

    Args:
        words: both ends; the encoder reads tokens from it too.
        dim: width.
        heads: of the attentions.
        wide: width of the feed-forward parts.
        dropout: share of the units dropped, of what enters and of what each part adds.
        layers: how many; at least 1.
        copy: whether tokens can be copied.
    """

    def __init__(
        self, words: Words, dim: int, heads: int, wide: int, dropout: float, *, layers: int, copy: bool
    ) -> None:
        super().__init__()
        self.words, self.dim = words, dim
        embedding = words.table.embedding_dim
        self.widen = nn.Identity() if embedding == dim else nn.Linear(embedding, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, wide, dropout) for _ in range(layers))
        self.gate = nn.Linear(dim, 1) if copy else None
        self.drop = Dropout(dropout)

    def look(self, ids: Tensor, rows: Rows, first: int = 0) -> Tensor:
        """Tokens times sqrt(dim) and the codes of their positions, counted from ``first``.

        Args:
            ids: (rows, length).
            rows: which of them count.
            first: position of the first column.

        Returns:
            (tokens, dim).
        """
        table = self.words.table.weight
        codes = sinusoids(first + rows.length, self.dim, table.dtype, ids.device)[first:]
        if rows.places is None:
            vectors = self.widen(self.words(ids)) * self.dim**0.5 + codes
            return cast(Tensor, self.drop(vectors.flatten(0, 1)))
        tokens, places = ids.flatten()[rows.places], rows.places % rows.length
        return cast(Tensor, self.drop(self.widen(self.words(tokens)) * self.dim**0.5 + codes[places]))

    def remember(self, tokens: Tensor, rows: Rows) -> Tensor:
        """The keys of a memory from the encoder's (tokens, dim)."""
        return torch.stack([cast(DecoderLayer, layer).other.keys_values(tokens, rows) for layer in self.layers], dim=1)

    def states(
        self, memory: Memory, read: Tensor, rows: Rows, past: State | None = None, *, weigh: bool = False
    ) -> tuple[Tensor, State, Tensor | None]:
        """The last layer at each token of (rows, length) ids.

        Returns:
            (tokens, dim); the state after them; (rows, length, source) attention of the last layer, mean over heads.
        """
        vectors, weights = self.look(read, rows, past.steps if past else 0), None
        kept = []
        for number, layer in enumerate(self.layers):
            before = past.layers[number] if past else None
            last = weigh and number == len(self.layers) - 1
            vectors, after, weights = layer(vectors, rows, memory.keys[:, number], memory.mask, before, weigh=last)
            kept.append(after)
        return vectors, State(tuple(kept)), weights

    def loss(self, memory: Memory, read: Tensor, said: Tensor) -> Tensor:
        """The mean over all tokens of ``said`` that are not padding, in nats."""
        there, copying = said != PADDING, self.gate is not None
        vectors, _, weights = self.states(memory, read, Rows.of(there), weigh=copying)
        if weights is None:
            return self.words.loss(vectors, said[there])
        likelihood = self._mixed_likelihood(memory, vectors, weights, said)
        return self.words.smooth(vectors, said[there]) - likelihood.sum() / max(1, len(likelihood))

    def likelihood(self, memory: Memory, read: Tensor, said: Tensor) -> Tensor:
        """(rows, length) log-probability of each token of ``said``; 0 at padding."""
        there, copying = said != PADDING, self.gate is not None
        vectors, _, weights = self.states(memory, read, Rows.of(there), weigh=copying)
        if weights is None:
            found = self.words.log_likelihood(vectors, said[there])
        else:
            found = self._mixed_likelihood(memory, vectors, weights, said)
        return vectors.new_zeros(said.shape).masked_scatter(there, found)

    def _mixed_likelihood(self, memory: Memory, vectors: Tensor, weights: Tensor, said: Tensor) -> Tensor:
        """(tokens,) the logarithm of the mixture; (tokens, dim), (rows, length, source), (rows, length)."""
        assert self.gate is not None
        there, sources = said != PADDING, len(memory.words)
        same = memory.words[:, None, None] == said.view(sources, len(said) // max(1, sources), said.shape[1], 1)
        copied = (weights * same.view(weights.shape)).sum(2)[there]
        gate = self.gate(vectors)[:, 0]
        written = self.words.log_likelihood(vectors, said[there]) + functional.logsigmoid(gate)
        return torch.logaddexp(written, _log(copied) + functional.logsigmoid(-gate))

    def start(self, memory: Memory) -> State:
        """Nothing is written yet."""
        heads, width = memory.keys.shape[3], memory.keys.shape[5]
        empty = memory.keys.new_zeros(len(memory.keys), 2, heads, 0, width)
        return State(tuple(empty for _ in self.layers))

    def step(self, memory: Memory, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token a row: (rows, ids) log-probabilities of the next, and the state after it."""
        rows, copying = Rows(len(tokens), 1), self.gate is not None
        vectors, state, weights = self.states(memory, tokens[:, None], rows, state, weigh=copying)
        written = self.words.log_probabilities(vectors)
        if weights is None or self.gate is None:
            return written, state
        gate = self.gate(vectors)
        words = memory.words.repeat_interleave(len(tokens) // max(1, len(memory.words)), 0)
        copied = torch.zeros_like(written).scatter_add(1, words, weights[:, 0].to(written.dtype))
        return torch.logaddexp(
            written + functional.logsigmoid(gate), _log(copied) + functional.logsigmoid(-gate)
        ), state

    def lean(self, memory: Memory, read: Tensor) -> Tensor:
        """(rows, length, source) attention of the last layer at each token, the mean over the heads."""
        weights = self.states(memory, read, Rows(*read.shape), weigh=True)[2]
        assert weights is not None
        return weights


def _log(shares: Tensor) -> Tensor:
    """The logarithm, -inf of 0, with a gradient of 0 there."""
    return shares.clamp(min=torch.finfo(shares.dtype).tiny).log().masked_fill(shares <= 0, -torch.inf)
