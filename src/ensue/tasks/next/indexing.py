"""When a predictor has an index of its items, and for which histories that is measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories
from ensue.nn.approximate import has_faiss
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.infer import multiplied
from ensue.tasks.next.item_index import LARGE, IndexFacts, ItemIndex, make_index
from ensue.tasks.next.model import Multiplies
from ensue.tasks.next.nearest import nearest
from ensue.tasks.next.sides import Sides
from ensue.tasks.next.state import NextState
from ensue.training.distributed import broadcast, rank_and_size, share
from ensue.vocabulary import FIRST

QUERIES = 256
"""Histories for which an index is measured."""


def index_items(state: NextState, *, together: bool = False) -> None:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.index_items`; ``together`` if every rank calls it."""
    state.index = None
    state.metadata.index = None
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

    state.index = _of_first_rank(lambda: make_index(product, len(state.vocabulary), total), alone=not together)
    state.metadata.index = state.index.facts


def _of_first_rank(make: Callable[[], ItemIndex], *, alone: bool) -> ItemIndex:
    """What the first rank makes with the threads of all ranks of its machine, on every rank; or on this one alone."""
    (rank, world), made = rank_and_size(), None
    if alone or world == 1:
        return make()
    if rank == 0:
        threads = torch.get_num_threads()
        torch.set_num_threads(threads * int(os.environ.get("LOCAL_WORLD_SIZE", 1)))  # the others wait
        made = make()
        torch.set_num_threads(threads)
    data = bytearray() if made is None else bytearray(made.to_bytes())
    size, facts = share((len(data), {} if made is None else asdict(made.facts)))
    sent = broadcast(torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(size, dtype=torch.uint8))
    return ItemIndex.from_bytes(sent.numpy().tobytes(), IndexFacts(**facts)) if made is None else made


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
