"""SASRec: self-attentive sequential recommendation (Kang & McAuley, ICDM 2018).

Item vectors and learned position vectors are added, causal self-attention blocks follow, and the vector of the latest
event is compared with the same item table.

==========  ==========================================================================================
Eq. 1       ``SASRec.embed``: item vectors, times sqrt(dim) as in the authors' program, plus positions
Eqs. 2-4    ``Attention`` of :mod:`ensue.nn.transformer` under a causal mask
Eq. 5       ``FeedForward`` of :mod:`ensue.nn.transformer`, as wide as the vectors
Eq. 6       ``SASRecBlock``: x + dropout(g(norm(x))) around both parts
Eq. 7       ``SASRec.encode`` and the item head: scores by the shared table
Eq. 8       ``SASRec.loss`` with ``bce``: binary cross-entropy, one item outside the session per target
==========  ==========================================================================================

Positions are counted from the first event that is read. A history of at most ``max_length`` events is therefore read in
one pass for all of its targets; of a longer one, each later target reads its own latest ``max_length`` events. In
training a long history is cut into pieces of ``max_length`` events instead, the last piece full.

**Departures.** The authors train on the latest ``max_length`` events of a user alone, and pad on the left, so their
positions count from the end of a training sequence; here no position depends on later events. Their program normalises
queries alone, and adds both parts to the normalised vectors; here Eq. 6 holds as printed. The other losses, ``sampled``
(softmax over shared negatives) and ``ce`` (over all items), are not in the paper. Early stopping monitors the MRR of
held-out histories.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import band
from ensue.nn.autograd import is_traced
from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ItemHead, start_normal
from ensue.nn.sampling import draw_unseen
from ensue.nn.transformer import Attention, FeedForward, PackedRows
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork, session_ids
from ensue.tasks.next.settings import SASRecSettings

START_STD = 0.02
"""Standard deviation of the item and position vectors before training."""


def cut(batch: Batch, length: int, *, shared: bool) -> tuple[Batch, Tensor, Tensor]:
    """Cut the rows of a batch into rows of at most ``length`` events, with the same targets in the same order.

    Args:
        batch: rows of any length.
        length: maximum number of events per new row.
        shared: whether targets share rows of ``length`` events, counted from the end of a row; else each target beyond
            the first ``length`` events has a row of its latest ``length`` events.

    Returns:
        The new batch; (targets,) the new row of each target; (targets,) the step at which this row begins.
    """
    rows, steps = batch.target_mask.nonzero(as_tuple=True)
    if shared:
        # 7 events in pieces of 3 begin at -2, 1 and 4; the first piece then begins at 0 and has 1 target of its own.
        lengths = batch.mask.sum(1)[rows]
        starts = lengths - length * ((lengths - steps - 1) // length + 1)
    else:
        starts = steps - length + 1
    starts = starts.clamp(min=0)
    # Targets of one piece follow each other; a piece begins wherever the row or its start changes.
    begins = torch.ones_like(rows, dtype=torch.bool)
    begins[1:] = (rows.diff() != 0) | (starts.diff() != 0)
    owners = begins.cumsum(0) - 1
    rows, starts_of_pieces = rows[begins], starts[begins]
    width = min(length, batch.ids.shape[1])
    positions = starts_of_pieces[:, None] + torch.arange(width, device=rows.device)
    is_event = positions < batch.ids.shape[1]
    # (rows, 1) and (rows, width): row i of the new batch gathers its events from row rows[i] of the old one.
    index = rows[:, None], positions.clamp(max=batch.ids.shape[1] - 1)
    mask = batch.mask[index] & is_event
    target_mask = torch.zeros_like(mask)
    target_mask[owners, steps - starts] = True
    ids = batch.ids[index].masked_fill(~mask, 0)
    return Batch(ids, mask, batch.times[index], target_mask, batch.targets), owners, starts


class SASRecBlock(nn.Module):
    """Causal self-attention and a feed-forward part, each with a layer norm before it and a residual, Eq. 6.

    Args:
        settings: sizes and dropout rate.
    """

    def __init__(self, settings: SASRecSettings) -> None:
        super().__init__()
        self.attention = Attention(settings.dim, settings.heads)
        self.feed_forward = FeedForward(settings.dim, settings.dim)
        self.norm1 = nn.LayerNorm(settings.dim)
        self.norm2 = nn.LayerNorm(settings.dim)
        self.dropout = Dropout(settings.dropout)

    def forward(self, events: Tensor, rows: PackedRows, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return (events, dim) vectors, and the attention weights, (rows, length, length), a mean over the heads.

        Args:
            events: (events, dim).
            rows: positions of the events in their rows.
            mask: (length, length) the steps that each step may attend to.
        """
        attended, weights = self_attention(self.attention, self.norm1(events), rows, mask)
        events = events + self.dropout(attended)
        return events + self.dropout(self.feed_forward(self.norm2(events))), weights


def self_attention(attention: Attention, events: Tensor, rows: PackedRows, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return :meth:`Attention.weigh`; in training without the weights, which is faster, as an empty tensor."""
    queries, keys_values = attention.project(events, rows)
    if attention.training:
        return attention.mix(queries, keys_values, mask, rows), events.new_empty(0)
    mixed, weights = attention.weigh(queries, keys_values, mask, rows)
    return mixed, weights.detach()


class SASRec(ItemNetwork[SASRecSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    block: type[nn.Module] = SASRecBlock
    table: type[ItemHead] = ItemHead

    def __init__(self, settings: SASRecSettings, num_ids: int) -> None:
        super().__init__(settings, reach=settings.max_length - 1)
        self.items = self.table(num_ids, settings.dim, negatives=settings.drawn, sparse=settings.loss != "ce")
        self.positions = nn.Embedding(settings.max_length, settings.dim)
        self.blocks = nn.ModuleList(self.block(settings) for _ in range(settings.num_layers))
        self.norm = nn.LayerNorm(settings.dim)
        self.dropout = Dropout(settings.dropout)
        start_normal(self.items, std=START_STD)
        nn.init.normal_(self.positions.weight, std=START_STD)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the query vectors, (targets, dim), and the weights of the last block, (batch, time, time)."""
        if is_traced():
            # An exported graph gets the latest max_length events at most, so nothing is cut.
            states, weights = self.read(batch)
            return states[batch.target_mask], weights * batch.target_mask[..., None]
        pieces, owners, starts = cut(batch, self.settings.max_length, shared=self.training)
        states, weights = self.read(pieces)
        queries = states[pieces.target_mask]
        if not weights.numel():
            return queries, weights
        row, step = batch.target_mask.nonzero(as_tuple=True)
        attributions = weights.new_zeros(batch.mask.shape + batch.mask.shape[1:])
        # Column j of a piece is step starts + j of its row; columns beyond the row's end have weight 0.
        columns = starts[:, None] + torch.arange(weights.shape[2], device=row.device)
        index = row[:, None], step[:, None], columns.clamp(max=batch.ids.shape[1] - 1)
        attributions.index_put_(index, weights[owners, step - starts], accumulate=True)
        return queries, attributions

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the states of rows of at most ``max_length`` events, (rows, time, dim), and the last block's weights.

        The weights, (rows, time, time), are a mean over the heads; they are empty in training.
        """
        rows = PackedRows.of(batch.mask)
        events = rows.pack(self.embed(batch.ids))
        mask = band(batch.ids.shape[1], reach=None, own=True, device=batch.ids.device)
        weights = events.new_empty(0)
        for block in self.blocks:
            events, weights = block(events, rows, mask)
        return rows.pad(self.norm(events)), weights

    def embed(self, ids: Tensor) -> Tensor:
        """(rows, time) ids to (rows, time, dim) vectors of items and positions."""
        vectors = self.items(ids) * self.settings.dim**0.5 + self.positions.weight[: ids.shape[1]]
        return self.dropout(vectors)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss that the settings name, a mean over the targets in nats."""
        queries, _ = self.encode(batch)
        if self.settings.loss != "bce":
            return self.items.loss(queries, batch.targets, weights=batch.weights, shown=batch.negatives)
        negatives = draw_unseen(session_ids(batch), self.items.num_embeddings, 1)[:, 0]
        # One negative outside the session per target, as in the paper.
        scores = (queries * self.items.rows(batch.targets)).sum(1)
        negative_scores = (queries * self.items.rows(negatives)).sum(1)
        losses = functional.logsigmoid(scores) + functional.logsigmoid(-negative_scores)
        if batch.weights is not None:
            losses = losses * batch.weights
        return -losses.sum() / max(1, len(scores))
