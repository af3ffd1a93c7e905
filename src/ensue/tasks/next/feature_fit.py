"""Fitting of item features: the network is frozen, and the features of an item learn to stand in for its rows.

Every step draws a part of the trained items and scores them as if they were new: the rows that the network has for them
are computed from their tokens, and their counts are those of an item without events. The embeddings of the tokens are
fitted by the network's own loss, on the latest histories, because new items will be chosen next to those of today.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from math import ceil

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Adam
from torch.optim.lr_scheduler import OneCycleLR

from ensue.data.histories import Histories
from ensue.learning.state import module_of
from ensue.nn.item_head import ItemLayer, ItemTable
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.item_features import KnownItems, embed_tokens
from ensue.tasks.next.model import Network
from ensue.tasks.next.state import NextState
from ensue.tasks.next.update import new_rows
from ensue.vocabulary import FIRST, UNKNOWN

SIMULATED = 0.2
"""Fraction of the trained items that a step scores as if they were new."""
MAX_SIMULATED = 20_000
"""Number of these items at most."""
LATEST = 1 / 3
"""Fraction of the histories that are learned from: the latest ones, where histories have times."""
EPOCHS = 6
MIN_STEPS = 200
MAX_STEPS = 3000
"""Epochs over these histories; the number of steps stays between the two others, and is never above that of the
network's own training."""
START = 0.1
"""Standard deviation of the embeddings at the start and learning rate at its highest, as a fraction of the standard
deviation of the rows that they are to replace."""


class _Loss(nn.Module):
    """The loss of a network as a module, so that ``functional_call`` can replace tensors of the network.

    Args:
        network: the network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean loss of a batch, in nats."""
        assert isinstance(self.network, Network)
        return self.network.loss(batch)


def fit_features(state: NextState, known: KnownItems, data: Histories) -> None:
    """Fit the features of the item table to the trained network of a predictor.

    Args:
        state: a trained predictor.
        known: its item table, whose ``embeddings`` are set.
        data: training data.
    """
    assert state.metadata.training is not None
    batch_size, network_steps = (state.metadata.training[key] for key in ("batch_size", "steps"))
    # A frozen copy: only the embeddings of tokens are trained.
    module = deepcopy(module_of(state.network)).train().requires_grad_(False)
    for layer in module.modules():
        if isinstance(layer, ItemTable | ItemLayer):
            layer.sparse = False  # their rows are computed, and so have dense gradients
    item_ids = torch.tensor([state.vocabulary.id(item) for item in known.items.ids])
    is_trained = item_ids != UNKNOWN
    trained_items = known.items.filter(pl.Series(is_trained.numpy()))
    tokens, weights = (torch.from_numpy(table).to(state.device) for table in known.encoder.encode(trained_items))
    trained_ids = item_ids[is_trained].to(state.device)
    # All rows of the counts of new items are the same.
    constants = {name: float(rows.max()) for name, rows in new_rows(state, 0).items()}
    parameters = {name: rows.detach() for name, rows in module.named_parameters() if name in constants}
    counts = {name: rows for name, rows in module.named_buffers() if name in constants}
    torch.manual_seed(state.seed)
    scales = {name: START * float(rows[FIRST:].std(correction=0)) for name, rows in parameters.items()}
    embeddings = {
        name: scales[name] * torch.randn(known.encoder.num_tokens, rows[0].numel(), device=state.device)
        for name, rows in parameters.items()
    }
    windows = Windows(_latest(data.encode(state.vocabulary, drop_unknown=True)), state.network.reach)
    num_steps = min(max(EPOCHS * ceil(len(windows) / batch_size), MIN_STEPS), MAX_STEPS, network_steps)
    optimizer = Adam([{"params": [rows.requires_grad_()]} for rows in embeddings.values()])
    scheduler = OneCycleLR(optimizer, [max(scale, 1e-12) for scale in scales.values()], num_steps, pct_start=0.1)
    batches = _batches(windows, batch_size, state.seed)
    num_simulated = min(ceil(SIMULATED * len(trained_ids)), MAX_SIMULATED)
    loss = _Loss(module)
    for _ in range(num_steps):
        simulated_rows = torch.randperm(len(trained_ids), device=state.device)[:num_simulated]
        ids = trained_ids[simulated_rows]
        # Simulated items get the counts of items without events.
        replaced = {f"network.{name}": rows.index_fill(0, ids, constants[name]) for name, rows in counts.items()}
        for name, rows in parameters.items():
            simulated = embed_tokens(embeddings[name], tokens[simulated_rows], weights[simulated_rows])
            replaced[f"network.{name}"] = rows.index_copy(0, ids, simulated.view(-1, *rows.shape[1:]))
        optimizer.zero_grad()
        torch.autograd.backward(functional_call(loss, replaced, (next(batches).to(state.device),)))
        optimizer.step()
        scheduler.step()
    known.embeddings = {name: rows.detach().cpu().numpy() for name, rows in embeddings.items()}


def _latest(data: Histories) -> Histories:
    """Return the latest histories by their last event; all of them where they have no times."""
    if not data.timed:
        return data
    order = np.argsort(data.times[data.offsets[1:] - 1], kind="stable")
    return data.select(np.sort(order[-ceil(LATEST * len(data)) :]))


def _batches(windows: Windows, batch_size: int, seed: int) -> Iterator[Batch]:
    """Yield the batches of one epoch after another, without end."""
    for epoch in count():
        for index in windows.plan(batch_size, (seed, epoch)):
            yield windows.batch(index).to("cpu")
