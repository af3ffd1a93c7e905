"""A model of one's own for task ``next``: the latest events decide, the latest of all most.

    ensue fit next clicks.csv -o mine --model examples/models/latest.py:Latest --set dim=32
    ensue evaluate mine test.csv --model examples/models/latest.py:Latest

A session is the weighted sum of the vectors of its last events, w_a ~ softmax(g_a) with a learned g for each age a; the
score of an item is its product with that sum.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.item_head import Output
from ensue.schedule import Schedule
from ensue.tasks.next.batch import Batch
from ensue.vocabulary import FIRST


@dataclass(frozen=True)
class LatestSettings:
    """Settings of the model."""

    dim: int = 64
    """Width of the items."""
    ages: int = 5
    """How many of the latest events count."""


class Latest(nn.Module):
    """Sessions: the latest events, weighed by their age."""

    SETTINGS = LatestSettings()
    SCHEDULE = Schedule(epochs=10, batch_size=128, learning_rate=5e-3, weight_decay=0.0, monitor="mrr", patience=3)

    def __init__(self, settings: LatestSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        self.items = nn.Embedding(num_ids, settings.dim, padding_idx=0)
        self.by_age = nn.Parameter(torch.zeros(settings.ages))

    @property
    def reach(self) -> int:
        """How many earlier events can change an answer."""
        return self.settings.ages - 1

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids) of what follows, and the weights (batch, time, time) of the events before."""
        num_steps = batch.ids.shape[1]
        steps = torch.arange(num_steps, device=batch.ids.device)
        ages = steps[:, None] - steps  # (time, time): 0 for the step itself, 1 for the one before
        gates = self.by_age[ages.clamp(0, self.settings.ages - 1)]
        seen = (ages >= 0) & (ages < self.settings.ages) & batch.mask[:, None]
        weights = torch.where(seen, gates, -torch.inf).softmax(-1).nan_to_num()
        states = (weights @ self.items(batch.ids))[batch.target_mask]
        return Output(states @ self.items.weight.T, (weights,))

    def loss(self, batch: Batch) -> Tensor:
        """The mean over the batch's targets, in nats."""
        # Padding and unknown (ids 0 and 1) never come: they take no share of the softmax.
        return functional.cross_entropy(self(batch).scores[:, FIRST:], batch.targets - FIRST)

    def grow(self, num_ids: int) -> "Latest":
        """The same model with room for more ids; old ids keep their rows."""
        grown = Latest(self.settings, num_ids)
        grown.by_age.data.copy_(self.by_age)
        grown.items.weight.data[: len(self.items.weight)] = self.items.weight
        return grown
