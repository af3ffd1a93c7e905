"""When a predictor has an index of its items, and for which histories that is measured."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories
from ensue.nn.approximate import has_faiss
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.infer import multiplied
from ensue.tasks.next.item_index import LARGE, ItemIndex, make_index
from ensue.tasks.next.model import Multiplies
from ensue.tasks.next.nearest import Sides, nearest
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST

QUERIES = 256
"""Histories for which an index is measured."""


def index_items(state: NextState) -> None:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.index_items`."""
    state.index = None
    state.metadata.unset("index")
    if not indexes(state):
        return
    histories = _asked(state)
    product = multiplied(state, Windows(histories, state.network.reach, last_only=True), np.arange(len(histories)))
    product = product._replace(cells=None, lately=None)
    counts = state.counting["popularity"].totals
    every, none = torch.arange(len(histories)), torch.zeros(len(histories), 0, dtype=torch.int64)
    sides = Sides(product=product, rows=every, counts=counts, seen=none)

    def total(index: ItemIndex) -> Tensor:
        return nearest(index, sides, 1, (), [0] * len(histories)).totals

    state.index = make_index(product, len(state.vocabulary), total)
    state.metadata.index = asdict(state.index.facts)


def indexes(state: NextState) -> bool:
    """Whether this predictor has an index once it is trained."""
    return indexable(state) and has_faiss()


def indexable(state: NextState) -> bool:
    """Whether an index is worth its while, and possible."""
    large = len(state.vocabulary) - FIRST >= LARGE
    return large and isinstance(state.network, Multiplies) and state.device.type == "cpu"


def _asked(state: NextState) -> Histories:
    """Histories that were learned; where none are kept, of one value each, drawn by how often those occur."""
    drawn = state.reservoir.draw(QUERIES, 0)
    if len(drawn):
        return drawn
    totals = state.counting["popularity"].totals.double().numpy()
    ids = np.random.default_rng(0).choice(len(totals), QUERIES, p=totals / totals.sum())
    return Histories(ids.astype(np.int32), np.arange(QUERIES + 1), state.vocabulary)
