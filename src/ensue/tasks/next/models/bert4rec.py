"""BERT4Rec: sequential recommendation with bidirectional encoders (Sun et al., CIKM 2019).

A history is read from both sides around masked events, whose items are predicted; to predict what comes next, a mask is
appended to the history.

===========  ==========================================================================================
Eqs. 1-2     ``EncoderLayer`` of :mod:`ensue.nn.transformer`: multi-head attention without a causal mask
Eqs. 3-6     the layer's feed-forward part (4 dim wide), residuals, dropout and layer norms
section 3.4  ``BERT4Rec.read``: item and position vectors
Eq. 7        ``BERT4Rec.read``: a layer with GELU before the shared item table, whose items have a bias
Eq. 8        ``BERT4Rec.loss``: cross-entropy of the masked items; a fraction of the events is masked
===========  ==========================================================================================

**Departures.** The feed-forward part of the blocks uses ReLU. Each training row is masked once per epoch, and its last
event alone in one row of ten, the authors' second kind of training sample.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.autograd import is_traced
from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ALL_IDS, ItemHead, Product, item_loss, start_normal
from ensue.nn.transformer import EncoderLayer, PackedRows
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.sasrec import START_STD, cut
from ensue.tasks.next.network import ItemNetwork, following_ids
from ensue.tasks.next.settings import BERT4RecSettings
from ensue.vocabulary import PADDING

MASK_LAST = 0.1
"""Probability that the last event of a training row is its only masked one."""


class BERT4Rec(ItemNetwork[BERT4RecSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, fraction of masked events.
        num_ids: rows of the item table, padding and unknown included.
    """

    weighs_targets = False

    def __init__(self, settings: BERT4RecSettings, num_ids: int) -> None:
        # The others hold the mask and the latest event.
        super().__init__(settings, reach=settings.max_length - 2)
        dim = settings.dim
        self.items = ItemHead(num_ids, dim, negatives=None)
        self.bias = nn.Parameter(torch.zeros(num_ids))
        self.mask = nn.Parameter(torch.empty(dim).normal_(std=START_STD))
        self.positions = nn.Embedding(settings.max_length, dim)
        self.blocks = nn.ModuleList(
            EncoderLayer(dim, settings.heads, 4 * dim, settings.dropout) for _ in range(settings.num_layers)
        )
        self.projection = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.dropout = Dropout(settings.dropout)
        start_normal(self.items, std=START_STD)
        nn.init.normal_(self.positions.weight, std=START_STD)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the state of a mask behind each target step, (targets, dim), and its weights, (batch, time, time)."""
        rows, steps = batch.target_mask.nonzero(as_tuple=True)
        # One position is for the mask, one for the latest event: max_length - 2 earlier events remain.
        starts = (steps - self.settings.max_length + 2).clamp(min=0)
        lengths = steps - starts + 1
        # Row i holds the events starts[i] to steps[i] of its history, then the mask.
        width = int(lengths.max()) + 1 if len(lengths) else 1
        # An exported graph takes rows of any length, not those of the batch that it is traced with.
        width = batch.ids.shape[1] + 1 if is_traced() else width
        columns = torch.arange(width, device=rows.device)
        positions = (starts[:, None] + columns).clamp(max=batch.ids.shape[1] - 1)
        is_event = columns < lengths[:, None]
        is_mask = columns == lengths[:, None]
        ids = batch.ids[rows[:, None], positions].masked_fill(~is_event, PADDING)
        states, weights = self.read(ids, is_event | is_mask, is_mask)
        if is_traced():  # one target a row, whose events are those of the row
            shown = (weights[is_mask] * is_event)[:, None, :-1] * batch.target_mask[..., None]
            return states[is_mask], shown / shown.sum(-1, keepdim=True).clamp(min=torch.finfo(shown.dtype).tiny)
        attributions = weights.new_zeros(batch.mask.shape + batch.mask.shape[1:])
        if weights.numel():
            # The weight of the mask itself, which is no event, is left out; columns beyond a row's events add 0.
            weights = weights[is_mask] * is_event
            attributions.index_put_((rows[:, None], steps[:, None], positions), weights, accumulate=True)
            attributions /= attributions.sum(-1, keepdim=True).clamp(min=torch.finfo(attributions.dtype).tiny)
        return states[is_mask], attributions

    def read(self, ids: Tensor, mask: Tensor, is_masked: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states behind Eq. 7's projection, (rows, time, dim), and the last block's weights.

        Args:
            ids: (rows, time).
            mask: (rows, time) True where a step is, events and masks.
            is_masked: (rows, time) True where the mask is read in place of an item.
        """
        rows = PackedRows.of(mask)
        vectors = torch.where(is_masked[..., None], self.mask, self.items(ids))
        steps = rows.pack(self.dropout(vectors + self.positions.weight[: ids.shape[1]]))
        visible = mask[:, None, :]
        weights = steps.new_empty(0)
        for block in self.blocks:
            assert isinstance(block, EncoderLayer)
            if self.training:
                steps = block(steps, rows, visible)
            else:
                steps, weights = block.weigh(steps, rows, visible)
        states = self.norm(functional.gelu(self.projection(steps))).to(self.bias.dtype)
        return rows.pad(states), weights.detach()

    def product(self, batch: Batch) -> Product:
        """Return the scores as a product."""
        return self.items.product(*self.encode(batch))._replace(bias=self.bias)

    def loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy of masked events in training, else of the targets; a mean in nats."""
        if not self.training:
            return item_loss(self.encode(batch)[0], self.items.rows(ALL_IDS), batch.targets, self.bias)
        # A history and the target of its last event, if that has one, cut into rows of max_length.
        lengths = batch.mask.sum(1, keepdim=True)
        last_targets = following_ids(batch).gather(1, lengths - 1)
        ids = functional.pad(batch.ids, (0, 1)).scatter(1, lengths, last_targets)
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths + (last_targets != PADDING)
        extended = Batch(ids, mask, torch.zeros_like(ids), mask, batch.targets[:0])
        pieces, _, _ = cut(extended, self.settings.max_length, shared=True)
        draws = torch.rand(pieces.ids.shape, device=ids.device)
        is_masked = (draws < self.settings.mask_fraction) & pieces.mask
        # Rows without a masked event, and a fraction of all, mask the last event alone.
        is_last = torch.arange(draws.shape[1], device=ids.device) == pieces.mask.sum(1, keepdim=True) - 1
        last_alone = ~is_masked.any(1) | (torch.rand(len(draws), device=ids.device) < MASK_LAST)
        is_masked = torch.where(last_alone[:, None], is_last, is_masked)
        states, _ = self.read(pieces.ids, pieces.mask, is_masked)
        return item_loss(states[is_masked], self.items.rows(ALL_IDS), pieces.ids[is_masked], self.bias)
