"""The Transformer decoder that MTN and its two plain rivals share: it writes a query, token by token.

Vaswani et al., NeurIPS 2017. What it reads is a :class:`WriterMemory`, one row a session; which encoder made it is not
its business. Several rows that are written (beams, candidates) may stand side by side for one row of the memory.

With ``copy`` a token is written or copied (See, Liu & Manning, ACL 2017, Eqs. 8-9): p(w) = g p_vocabulary(w) + (1 - g)
x the attention of the last layer on places where w stands. The gate g is read from the last state, which holds the
context already. Label smoothing then touches p_vocabulary alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.autograd import DerivedCache, parameters_of
from ensue.nn.dropout import Dropout
from ensue.nn.incremental import Folded, IncrementalDecoder
from ensue.nn.transformer import DecoderLayer, PackedRows, sinusoids
from ensue.tasks.suggest.batch import PADDING, select
from ensue.tasks.suggest.models.words import TokenTable


class WriterMemory(NamedTuple):
    """Encoded queries so far as keys and values, one row per session.

    Attributes:
        keys: (rows, layers, 2, heads, source, dim / heads) keys beside values.
        mask: (rows, source) True where a token stands.
        words: (rows, source) which.
        positions: (rows, source) where in the row's (turns x width) tokens; -1 for what was put in between.
    """

    keys: Tensor
    mask: Tensor
    words: Tensor
    positions: Tensor

    def vectors(self) -> Tensor:
        """Return (rows, dim) the mean over the tokens of the values that the decoder's last layer attends to."""
        # (rows, heads, source, dim / heads) to (rows, source, dim)
        values = self.keys[:, -1, 1].transpose(1, 2).flatten(2)
        weights = self.mask / self.mask.sum(1, keepdim=True).clamp(min=1)
        return (weights[..., None] * values).sum(1)


class WriterState(NamedTuple):
    """Decoder state.

    The rows of a source share a tree of tokens, each stored once.

    Attributes:
        steps: the decoder as it reads one token at a time.
        memory: a layer each, how the memory is attended to.
        same: (sources, length, length) 1 where two places of the memory hold the same token; ``None`` without copying.
        layers: a layer each, (2, sources x heads, tokens, dim / heads) keys and values of what was read.
        seen: (sources, rows / sources, tokens) 0 for the tokens that a row has read, its path in the tree; else -inf.
        position: the position of the next token.
    """

    steps: IncrementalDecoder
    memory: tuple[Folded, ...]
    same: Tensor | None
    layers: tuple[Tensor, ...]
    seen: Tensor
    position: int = 0

    def select(self, index: Tensor) -> WriterState:
        """Rows picked, repeated or put in order, as many for each source; none leaves its source."""
        sources, _, tokens = self.seen.shape
        # (sources, rows) are flat in the index; as many rows per source stay.
        seen = self.seen.flatten(0, 1).index_select(0, index)
        return self._replace(seen=seen.view(sources, len(index) // max(1, sources), tokens))

    def of_sources(self, index: Tensor, _: int) -> WriterState:
        """Return the state of some of the sources."""
        return self._replace(
            memory=tuple(select(fold, index) for fold in self.memory),
            same=None if self.same is None else self.same.index_select(0, index),
            # Sources x heads are one axis: the sources are picked, and the heads of each stay side by side.
            layers=tuple(
                past.view(2, len(self.seen), -1, *past.shape[2:]).index_select(1, index).flatten(1, 2)
                for past in self.layers
            ),
            seen=self.seen.index_select(0, index),
        )


class QueryWriter(nn.Module):
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
        self, words: TokenTable, dim: int, heads: int, wide: int, dropout: float, *, layers: int, copy: bool
    ) -> None:
        super().__init__()
        self.words = words
        self.dim = dim
        embedding = words.table.embedding_dim
        self.widen = nn.Identity() if embedding == dim else nn.Linear(embedding, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, wide, dropout) for _ in range(layers))
        self.gate = nn.Linear(dim, 1) if copy else None
        self.drop = Dropout(dropout)
        self.kept = DerivedCache(self._steps)
        self.widened = DerivedCache(lambda: cast(Tensor, self.widen(self.words.table.weight)))

    def look(self, ids: Tensor, rows: PackedRows) -> Tensor:
        """Tokens times sqrt(dim) and the codes of their positions.

        Args:
            ids: (rows, length).
            rows: which of them count.

        Returns:
            (tokens, dim).
        """
        positions = torch.arange(ids.shape[0] * ids.shape[1], device=ids.device) if rows.places is None else rows.places
        return self._look(ids.flatten()[positions], positions % rows.length, rows.length)

    def _look(self, ids: Tensor, positions: Tensor | int, length: int) -> Tensor:
        """(tokens,) ids at their positions, all below ``length``, to (tokens, dim)."""
        codes = sinusoids(length, self.dim, self.words.table.weight.dtype, ids.device)[positions]
        return cast(Tensor, self.drop(self.widen(self.words(ids)) * self.dim**0.5 + codes))

    def remember(self, tokens: Tensor, rows: PackedRows) -> Tensor:
        """The keys of a memory from the encoder's (tokens, dim)."""
        return torch.stack([cast(DecoderLayer, layer).other.keys_values(tokens, rows) for layer in self.layers], dim=1)

    def states(
        self, memory: WriterMemory, read: Tensor, rows: PackedRows, *, weigh: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The last layer at each token of (rows, length) ids.

        Returns:
            (tokens, dim); (rows, length, source) attention of the last layer, mean over heads.
        """
        vectors = self.look(read, rows)
        weights = None
        for number, layer in enumerate(self.layers):
            last = weigh and number == len(self.layers) - 1
            vectors, weights = layer(vectors, rows, memory.keys[:, number], memory.mask, weigh=last)
        return vectors, weights

    def loss(self, memory: WriterMemory, read: Tensor, targets: Tensor) -> Tensor:
        """The mean over all tokens of ``targets`` that are not padding, in nats."""
        is_token = targets != PADDING
        copying = self.gate is not None
        vectors, weights = self.states(memory, read, PackedRows.of(is_token), weigh=copying)
        if weights is None:
            return self.words.loss(vectors, targets[is_token])
        written = self.words.log_likelihood(vectors, targets[is_token])
        share = self.words.smoothing
        mixed = self._mixed(written, self._copied(memory, weights, targets), vectors)
        # The part that is spread evenly is the vocabulary's alone: a share of -log p has no lower bound otherwise.
        log_shares = (1 - share) * mixed + share * written
        return self.words.smooth(vectors, targets[is_token]) - log_shares.sum() / max(1, len(log_shares))

    def likelihood(self, memory: WriterMemory, read: Tensor, targets: Tensor) -> Tensor:
        """(rows, length) log-probability of each token of ``targets``; 0 at padding."""
        is_token = targets != PADDING
        vectors, weights = self.states(memory, read, PackedRows.of(is_token), weigh=self.gate is not None)
        if weights is None:
            log_shares = self.words.log_likelihood(vectors, targets[is_token])
        else:
            written = self.words.log_likelihood(vectors, targets[is_token])
            log_shares = self._mixed(written, self._copied(memory, weights, targets), vectors)
        return vectors.new_zeros(targets.shape).masked_scatter(is_token, log_shares)

    def _copied(self, memory: WriterMemory, weights: Tensor, targets: Tensor) -> Tensor:
        """(tokens,) what attention gives each token of ``targets`` in the source; weights (rows, length, source)."""
        rows = len(targets) // max(1, len(memory.words))
        # (sources, rows, tokens, source length) True where the target stands in the memory.
        same = memory.words[:, None, None] == targets.view(len(memory.words), rows, targets.shape[1], 1)
        copied: Tensor = (weights * same.view(weights.shape)).sum(2)[targets != PADDING]
        return copied

    def _mixed(self, written: Tensor, copied: Tensor, vectors: Tensor) -> Tensor:
        """log(g x written + (1 - g) x copied), from the logarithm of the one and the other as it is."""
        assert self.gate is not None
        # One gate per token, for one or for many words.
        gate = self.gate(vectors).view(-1, *[1] * (written.dim() - 1))
        return torch.logaddexp(written + functional.logsigmoid(gate), _log(copied) + functional.logsigmoid(-gate))

    def start(self, memory: WriterMemory) -> WriterState:
        """Nothing is written yet."""
        sources, _, _, heads, _, width = memory.keys.shape
        empty = memory.keys.new_empty(2, sources * heads, 0, width)
        steps = self.kept.get(parameters_of(self.layers))
        folded = steps.fold(memory.keys, memory.mask)
        none = memory.keys.new_zeros(len(memory.keys), 1, 0)
        same = None
        if self.gate is not None:
            # Attention on all places of one word is added up by a product with this table.
            same = (memory.words[:, :, None] == memory.words[:, None]) & memory.mask[:, :, None]
            same = same.to(memory.keys.dtype)
        return WriterState(steps, folded, same, tuple(empty for _ in self.layers), none)

    def inputs(self) -> Tensor:
        """Return (ids, dim) the vectors of the tokens, without their positions."""
        table = self.words.table.weight
        if isinstance(self.widen, nn.Identity):
            return table.detach()
        return self.widened.get((table, *self.widen.parameters()))

    def gate_vector(self) -> Tensor | None:
        """Return (dim + 1,) the weights of the gate and its bias; ``None`` without copying."""
        return None if self.gate is None else torch.cat([self.gate.weight.detach()[0], self.gate.bias.detach()])

    def _steps(self) -> IncrementalDecoder:
        return IncrementalDecoder([cast(DecoderLayer, layer) for layer in self.layers])

    @torch.no_grad()
    def step(self, memory: WriterMemory, state: WriterState, tokens: Tensor) -> tuple[Tensor, WriterState]:
        """Read one token a row: (rows, ids) log-probabilities of the next, and the state after it. Has no gradient."""
        sources, beams, _ = state.seen.shape
        itself = _alone(beams, state.seen.dtype, tokens.device).expand(sources, -1, -1)
        # The new tokens are behind all others: each row sees its path, and of the new ones its own.
        seen = torch.cat([state.seen, itself], dim=2)
        vectors = self._look(tokens, state.position, state.position + 1).view(sources, beams, self.dim)
        copying = self.gate is not None
        vectors, layers, weights = state.steps.step(vectors, state.memory, state.layers, seen, weigh=copying)
        vectors = vectors.flatten(0, 1)
        state = state._replace(layers=layers, seen=seen, position=state.position + 1)
        written = self.words.log_probabilities(vectors)
        if weights is None or self.gate is None or state.same is None:
            return written, state
        # Only words that stand in the source gain by copying: no table of all of them is made for it.
        copied = (weights.mean(2) @ state.same).flatten(0, 1)
        words = memory.words
        words = words.expand(beams, -1) if sources == 1 else words.repeat_interleave(beams, 0)
        gate = self.gate(vectors)
        # Words in the source gain by copying; all others keep their part by the gate.
        mixed = torch.logaddexp(
            written.gather(1, words) + functional.logsigmoid(gate), _log(copied) + functional.logsigmoid(-gate)
        )
        return written.add_(functional.logsigmoid(gate)).scatter_(1, words, mixed), state

    def attention(self, memory: WriterMemory, read: Tensor) -> Tensor:
        """(rows, length, source) attention of the last layer at each token, the mean over the heads."""
        weights = self.states(memory, read, PackedRows(*read.shape), weigh=True)[1]
        assert weights is not None
        return weights


@lru_cache(maxsize=64)
def _alone(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(rows, rows) 0 where a row sees itself, -inf elsewhere."""
    with torch.inference_mode(False):
        return torch.full((rows, rows), -torch.inf, dtype=dtype, device=device).fill_diagonal_(0.0)


def _log(shares: Tensor) -> Tensor:
    """The logarithm, -inf of 0, with a gradient of 0 there."""
    return shares.clamp(min=torch.finfo(shares.dtype).tiny).log().masked_fill(shares <= 0, -torch.inf)
