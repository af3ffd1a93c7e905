"""HSTU: hierarchical sequential transduction units (Zhai et al., ICML 2024).

A causal encoder without softmax: pointwise attention by SiLU, gated by a fourth projection, whose scores know how many
events and how much time lie between two events.

=========  ==========================================================================================
Eq. 1      ``HSTUBlock``: U, V, Q, K = split(silu(f1(norm(x))))
Eq. 2      ``HSTUBlock``: A V = silu(Q K' + bias by position and time) V, over the number of events
Eq. 3      ``HSTUBlock``: Y = f2(norm(A V) * U), added to x
section 3  ``HSTUBlock.by_time``: a learned number per bucket of log2 of the seconds between two events
program    ``CosineHead``: scores are cosines over a temperature of 0.05, as in the authors' program
=========  ==========================================================================================

The block's weights may be negative; as attributions, their absolute values are normalised to sum 1.

**Departures.** Sums are divided by the number of events that a step attends to, not by the maximum length, so that no
answer depends on padding. Events without times share the bucket of 0 seconds. There is no action token: an event is an
item. The loss is a softmax over shared negatives drawn by the square root of the counts; the authors draw 128 uniformly
per target. They are 50 wide on MovieLens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import absolute_shares, band
from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ItemHead
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.sasrec import SASRec
from ensue.tasks.next.settings import SASRecSettings

NUM_BUCKETS = 32
"""Buckets of the time between two events: below 1 second, 2, 4, … up to 2^31 seconds."""

TEMPERATURE = 0.05
"""Cosines are divided by it."""


class CosineHead(ItemHead):
    """An item table whose vectors are read as they are, and compared in length 1."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of some ids, (…, dim)."""
        return self._look_up(self.weight, ids)

    def _scaled(self, vectors: Tensor) -> Tensor:
        """Return vectors in the length in which they are compared."""
        return functional.normalize(vectors, dim=-1)


class HSTUBlock(nn.Module):
    """Pointwise attention and its gate, Eqs. 1-3.

    Args:
        settings: sizes and dropout rate.
    """

    def __init__(self, settings: SASRecSettings) -> None:
        super().__init__()
        dim = settings.dim
        self.heads = settings.heads
        self.projection = nn.Linear(dim, 4 * dim)
        self.output = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.by_distance = nn.Parameter(torch.zeros(settings.max_length))
        self.by_time = nn.Parameter(torch.zeros(NUM_BUCKETS))
        self.dropout = Dropout(settings.dropout)

    def forward(self, events: Tensor, mask: Tensor, buckets: Tensor) -> tuple[Tensor, Tensor]:
        """Return (rows, time, dim) vectors, and the weights, (rows, time, time), a mean over the heads.

        Args:
            events: (rows, time, dim).
            mask: (rows, time, time) True where a step may attend to another.
            buckets: (rows, time, time) the bucket of the time between them.
        """
        rows, time, dim = events.shape
        gates, values, queries, keys = functional.silu(self.projection(self.norm1(events))).chunk(4, dim=2)
        # (rows, time, dim) to (rows, heads, time, dim / heads).
        heads = [projected.view(rows, time, self.heads, -1).transpose(1, 2) for projected in (values, queries, keys)]
        steps = torch.arange(time, device=events.device)
        # Biases by distance in events and by bucket of the time between them are added.
        bias = self.by_distance[(steps[:, None] - steps).clamp(min=0)] + self.by_time[buckets]
        scores = heads[1] @ heads[2].transpose(-1, -2) + bias[:, None]
        # Pointwise attention has no softmax: weights are divided by the number of visible events.
        num_visible = mask.sum(-1, keepdim=True).clamp(min=1)
        weights = functional.silu(scores) * (mask / num_visible)[:, None]
        mixed = (weights @ heads[0]).transpose(1, 2).reshape(rows, time, dim)
        return events + self.dropout(self.output(self.norm2(mixed) * gates)), weights.mean(1)


class HSTU(SASRec):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    block = HSTUBlock
    table = CosineHead

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return unit vectors over the temperature, (targets, dim), and the weights, (batch, time, time)."""
        queries, weights = super().encode(batch)
        return functional.normalize(queries, dim=-1) / TEMPERATURE, weights

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the states, (rows, time, dim), and the shares of the last block's |weights|, (rows, time, time)."""
        mask = band(batch.ids.shape[1], reach=None, own=True, device=batch.ids.device) & batch.mask[:, None, :]
        seconds = (batch.times[:, :, None] - batch.times[:, None, :]).clamp(min=0)
        # Logarithmic buckets: each doubles the time between two events.
        buckets = (seconds + 1).log2().floor().long().clamp(max=NUM_BUCKETS - 1)
        events = self.embed(batch.ids)
        weights = events.new_empty(0)
        for block in self.blocks:
            events, weights = block(events, mask, buckets)
        weights = events.new_empty(0) if self.training else absolute_shares(weights, batch.mask)
        return self.norm(events), weights
