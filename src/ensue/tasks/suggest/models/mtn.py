"""MTN: Multiresolution Transformer Networks (2019), recurrence is not essential for modeling hierarchical structure.

Given the queries of a session so far, write the next one. Attention within each query, then masked attention from query
to query, whose result goes back to the tokens; a decoder reads those.

====================  ==========================================================================================
query encoder         Prop. 2: ``MTN.query_layers`` over the tokens of each query
query projection      Prop. 4: ``Projection``, one vector a query: a weighted sum over the positions of its tokens
session encoder       Prop. 4: ``Level``, positions added, masked attention: row i knows queries 1 to i
back to the tokens    Prop. 4: ``MTN._read``, layer norm of token + its query's session vector
decoder               Prop. 3: ``QueryWriter``, over the tokens of the last query, or of all so far
k levels              section 4: ``MTN.levels``, one masked encoder upon another
====================  ==========================================================================================

A query is encoded once and all the queries that were followed by another are targets in one pass: row i of the masked
encoders never sees a later query, so the tokens after it are the same as if the session ended there.

More levels keep this form. At each level a row still stands for one query, and sees itself and the *last* row of every
earlier unit: of queries at the session level, of sessions at the user level. A closed unit's last row has read all of
it, so it stands for the unit. On the way down each level's rows are added to those below, with a layer norm.

The defaults of the settings are the paper's best, which ``mtn-paper`` has: 3 + 2 + 3 layers, words 300 wide, 512
inside, 1,024 in the feed-forward parts, 8 heads, dropout 0.1. ``SCHEDULE`` is its schedule, that of Vaswani et al.
2017: Adam (0.9, 0.98), 4,000 steps of warm-up, then width^-0.5 x step^-0.5; 7e-4 is its top for width 512.

**Departures.** Model ``mtn`` is smaller, for a CPU: words and vectors 128 wide, 256 in the feed-forward parts, 4 heads,
dropout 0.2, one table for words and output, 300 steps of warm-up (``ensue.tasks.suggest.catalogue``). Label smoothing
of 0.1 is constant; the paper was best with smoothing after two or after five epochs, and names no amount. The layer
norm after a session's vector is added to the tokens is printed in the supplement alone. Batches hold 64 sessions, not
as many as fit into memory. Positions beyond the longest query share the last weight of the projection. What stands for
a unit above the query, and the way down through more than two levels, are not in the paper. Adam's epsilon is 1e-8, not
1e-9. ``copy``, ``tied`` and ``reads="all"`` are ours: Prop. 4 can be read either way, ``last`` is the plain reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ensue.nn.attention import band, masked_mean
from ensue.nn.autograd import DerivedCache, is_traced, parameters_of
from ensue.nn.dropout import Dropout
from ensue.nn.incremental import PackedEncoder
from ensue.nn.transformer import EncoderLayer, PackedRows, sinusoids
from ensue.tasks.suggest.batch import QueryBatch, front_order
from ensue.tasks.suggest.model import QueryNetwork
from ensue.tasks.suggest.models.words import TokenTable
from ensue.tasks.suggest.models.writer import QueryWriter, WriterMemory
from ensue.tasks.suggest.settings import MTNSettings


class Projection(nn.Module):
    """A query's tokens as one vector: their sum, weighted by position, or their mean.

    Args:
        longest: positions with a weight of their own.
        learned: whether there are weights.
    """

    def __init__(self, longest: int, *, learned: bool) -> None:
        super().__init__()
        self.weights = (
            nn.Parameter(torch.full((longest,), 0.5)) if learned else None
        )  # four words give one of their size

    def weigh(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        """(…, width) the weight of each token, 0 at padding."""
        if self.weights is None:
            return masked_mean(mask, dtype)
        # Positions beyond the last weight share it.
        positions = torch.arange(mask.shape[-1], device=mask.device).clamp(max=len(self.weights) - 1)
        return self.weights[positions] * mask

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(rows, width, dim), (rows, width) to (rows, dim)."""
        return (self.weigh(mask, tokens.dtype)[:, None] @ tokens)[:, 0]


def visible(batch: QueryBatch, levels: int) -> list[Tensor]:
    """Which rows each level's rows see: (batch, turns, turns) bool for the session level and those above.

    A row sees itself, and the last row of every earlier unit that belongs to the same unit above.
    """
    rows, turns = batch.lengths.shape
    device = batch.lengths.device
    row = torch.zeros(rows, turns, dtype=torch.long, device=device)
    # From fine to coarse: each query is a unit of its own, then given units, then one unit for all.
    coarser = [] if batch.units is None else list(batch.units.unbind(1))[: levels - 1]
    units = [row + torch.arange(turns, device=device), *coarser] + [row] * (levels - len(coarser))
    causal, diagonal = (band(turns, reach=reach, own=reach == 1, device=device) for reach in (None, 1))
    masks = []
    for unit, upper_unit in pairwise(units):
        # A row closes its unit if the next row is of another one; the last row always does.
        closed = torch.cat([unit[:, :-1] != unit[:, 1:], torch.ones_like(unit[:, :1], dtype=torch.bool)], dim=1)
        # Seen are rows before this one that close another unit; below, only those of the same upper unit.
        earlier = causal & (unit[:, :, None] != unit[:, None, :]) & closed[:, None, :]
        masks.append(earlier & (upper_unit[:, :, None] == upper_unit[:, None, :]) | diagonal)
    return masks


class _MTNRead(NamedTuple):
    tokens: Tensor  # (tokens, dim) with their session's vector
    rows: PackedRows  # a row a query
    number: Tensor  # (batch, turns) where among the queries each stands
    seen: Tensor  # (batch, turns, turns) which queries of its session each knows
    rollout: Tensor | None  # (batch, turns, turns) how much each query's vector leaned on each query


class MTN(QueryNetwork):
    """The network over token ids; see the module's table for the equations.

    Args:
        settings: sizes and variants.
        num_ids: tokens, the special ones included.
    """

    writer: QueryWriter

    def __init__(self, settings: MTNSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        query, *upper, last = settings.layers()
        sizes = settings.dim, settings.heads, settings.wide, settings.dropout
        words = TokenTable(num_ids, settings.embedding, settings.dim, tied=settings.tied, smoothing=settings.smoothing)
        self.writer = QueryWriter(words, *sizes, layers=last, copy=settings.copy)
        self.query_layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(query))
        self.project = Projection(settings.longest, learned=settings.projection == "learned")
        self.levels = nn.ModuleList(nn.ModuleList(EncoderLayer(*sizes) for _ in range(layers)) for layers in upper)
        self.added = nn.ModuleList(nn.LayerNorm(settings.dim) for _ in upper)  # to the tokens, then upwards
        self.drop = Dropout(settings.dropout)
        self.kept = DerivedCache(self._fused)

    @torch.no_grad()
    def attributions(self, batch: QueryBatch, candidates: Tensor) -> Tensor:
        """Return attributions to earlier words: the attention of the decoder's last layer.

        Half of what a token holds is its query's session vector: that half goes to the queries the vector leaned on
        (attention rollout, Abnar & Zuidema 2020: each layer is half what it read, half itself), and there to the words
        by the size of their weight in the projection.
        """
        read = self._read(batch, batch.last, weigh=True)
        assert read.rollout is not None
        direct = self.attend(self._gather(batch, batch.last, read), batch, candidates)
        # A word's share of its query's vector is the size of its weight in the projection.
        word_weights = self.project.weigh(batch.mask, direct.dtype).abs()
        word_weights = word_weights / word_weights.sum(2, keepdim=True).clamp(min=torch.finfo(word_weights.dtype).tiny)
        # (rows, tokens, turns) attention to each query, sent on to the queries in its session vector, then to words.
        far = (direct.sum(3) @ read.rollout)[..., None] * word_weights[:, None]
        return (direct + far) / 2

    def remember(self, batch: QueryBatch, ends: Tensor) -> WriterMemory:
        """Return the memory of the last query of each end, or of all queries up to it."""
        return self._gather(batch, ends, self._read(batch, ends))

    def _read(self, batch: QueryBatch, ends: Tensor, *, weigh: bool = False) -> _MTNRead:
        """Encode the queries up to the last end of each row, each once."""
        # A reversed running sum marks all queries at or before an end.
        is_read = ends.long().flip(1).cumsum(1).flip(1) > 0
        row, turn = is_read.nonzero(as_tuple=True)
        mask = batch.mask[row, turn]
        rows = PackedRows.of(mask)
        tokens = self.writer.look(batch.words[row, turn], rows)
        compiled = None
        if not (weigh or self.training or torch.is_grad_enabled()):
            compiled = self.kept.get(parameters_of(self.query_layers) + parameters_of(self.levels))
        tokens = _encode(compiled[0] if compiled else None, self.query_layers, tokens, rows, mask[:, None])
        vectors = tokens.new_zeros(*is_read.shape, self.settings.dim)
        # Back from one row per query to (batch, turns, dim), with zeros where no query is.
        vectors = vectors.index_put((row, turn), self.project(rows.pad(tokens), mask).to(tokens.dtype))
        seen = visible(batch, len(self.levels))
        session, rollout = self._climb(vectors, seen, compiled, weigh=weigh)
        # Each token of a query gets the vector of its session up to that query.
        session = session[row, turn][:, None].expand(-1, rows.length, -1)
        tokens = self.added[0](tokens + rows.pack(session))
        return _MTNRead(tokens, rows, is_read.flatten().long().cumsum(0).view(is_read.shape) - 1, seen[0], rollout)

    def _fused(self) -> list[PackedEncoder]:
        stacks = (self.query_layers, *self.levels)
        return [PackedEncoder(cast("Iterable[EncoderLayer]", layers)) for layers in stacks]

    def _climb(
        self, vectors: Tensor, seen: list[Tensor], compiled: list[PackedEncoder] | None, *, weigh: bool
    ) -> tuple[Tensor, Tensor | None]:
        """All the masked encoders, and the way down again: (batch, turns, dim)."""
        states = []
        rollouts = []
        # Attention rollout starts at the identity: a query's vector consists of itself.
        rollout = torch.eye(vectors.shape[1], dtype=vectors.dtype, device=vectors.device) if weigh else None
        codes = sinusoids(vectors.shape[1], self.settings.dim, vectors.dtype, vectors.device)
        rows = PackedRows(*vectors.shape[:2])
        for number, (layers, mask) in enumerate(zip(self.levels, seen, strict=True), 1):
            # A row's position is the number of rows that it sees, itself not counted.
            items = rows.pack(self.drop(vectors + codes[mask.sum(2) - 1]))
            if rollout is None:
                items = _encode(compiled[number] if compiled else None, cast(nn.ModuleList, layers), items, rows, mask)
            else:
                for layer in cast(nn.ModuleList, layers):
                    items, weights = cast(EncoderLayer, layer).weigh(items, rows, mask)
                    rollout = (rollout + weights @ rollout) / 2
            vectors = rows.pad(items)
            states.append(vectors)
            rollouts.append(rollout)
        # On the way down the coarser level is added to each finer one.
        for number in range(len(states) - 2, -1, -1):
            vectors = self.added[number + 1](states[number] + vectors)
            rollout = None if rollout is None else (cast(Tensor, rollouts[number]) + rollout) / 2
        return vectors, None if rollout is None else rollout.expand(vectors.shape[0], -1, -1)

    def _gather(self, batch: QueryBatch, ends: Tensor, read: _MTNRead) -> WriterMemory:
        """A row for each end of a context: its tokens, or those of its session so far."""
        row, turn = ends.nonzero(as_tuple=True)
        _, turns, width = batch.words.shape
        positions = torch.arange(turns * width, device=row.device).view(turns, width)
        keys = self.writer.remember(read.tokens, read.rows)
        if self.settings.reads == "last":
            if len(row) < len(keys):  # in training each query is asked for its next
                keys = keys[read.number[row, turn]]
            return WriterMemory(keys, batch.mask[row, turn], batch.words[row, turn], positions[turn])
        mask = (batch.mask[row] & read.seen[row, turn][:, :, None]).flatten(1)
        longest = max(1, int(mask.sum(1).max())) if len(mask) else 1
        if is_traced():  # an exported graph keeps padding at the end, for any number of tokens
            longest = mask.shape[1]
        order = front_order(mask)[:, :longest]
        # The tokens that an end sees stand side by side: the keys of token (turn, place) are at its query, at place.
        queries = read.number[row].clamp(min=0).gather(1, order // width)
        # (queries, layers, 2, heads, width, d) to one row per token, gathered, and back.
        by_token = keys.permute(0, 4, 1, 2, 3, 5).flatten(0, 1)
        keys = by_token[queries * width + order % width].permute(0, 2, 3, 4, 1, 5)
        mask = mask.gather(1, order)
        return WriterMemory(
            keys, mask, batch.words[row].flatten(1).gather(1, order) * mask, order.masked_fill(~mask, -1)
        )


def _encode(
    compiled: PackedEncoder | None, layers: nn.ModuleList, items: Tensor, rows: PackedRows, mask: Tensor
) -> Tensor:
    """All layers; see :meth:`EncoderLayer.forward`."""
    if compiled is not None and compiled.suits(items):
        return compiled.encode(items, rows, mask)
    for layer in layers:
        items = layer(items, rows, mask)
    return items
