"""Updates of a trained predictor: new values and items get rows, new histories are counted and trained on.

:func:`learn` takes a few optimiser steps on histories some of whose events are old, as a stream brings them.
:func:`passes` trains on whole new histories in one pass, mixed with as many stored ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.data.histories import Histories, Ids, Index, concat_histories
from ensue.errors import SettingError
from ensue.lazy import lazy, torch
from ensue.learning.life import NO_TRAINING, train_update
from ensue.learning.state import module_of
from ensue.metrics import Floats
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.dataset import Windows, distinct, history_hashes, repeats
from ensue.tasks.next.item_features import KnownItems, embed_tokens
from ensue.tasks.next.model import NextModel, Observes, Places, Remembers
from ensue.tasks.next.reservoir import Reservoir
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import require_targets
from ensue.training.report import Report
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ensue.training import loop
else:
    nn = lazy("torch.nn")
    loop = lazy("ensue.training.loop")

BLOCK = 4096
"""Rows of new ids are drawn in blocks of this size, each from a separate seed."""
SPARE = 8
"""A table that has to grow gets room for one part in this many more, so that it is seldom copied."""


def add_values(state: NextState, values: Iterable[str]) -> None:
    """Give new values the next ids: counts start at 0, weights at random, the optimiser's moments at 0.

    What a new id starts from depends on the predictor's seed and on the id, not on with which others it came; a model
    that weighs what came lately puts it near that (``place``).
    """
    old = first = len(state.vocabulary)
    if not state.vocabulary.add(values):
        return
    num_ids = len(state.vocabulary)
    state.counting = {name: module.grow(num_ids) for name, module in state.counting.items()}
    if state.schedule is None:
        state.model = state.counting[state.model_name]
        return
    network = state.network
    if isinstance(network, Remembers):
        network.memory = network.memory.grow(num_ids)
    while old < num_ids:
        # The rows of an id depend only on its block and the seed, not on the order of arrival.
        block, offset = divmod(old, BLOCK)
        stop = min(num_ids, (block + 1) * BLOCK)
        for name, rows in new_rows(state, block).items():
            _lengthen(state, name, rows[offset : offset + stop - old])
        old = stop
    for module in module_of(network).modules():
        if isinstance(module, nn.Embedding):
            module.num_embeddings = len(module.weight)
        elif isinstance(module, nn.Linear):
            module.out_features = len(module.weight)
    if isinstance(network, Places):
        network.place(first)
    state.count_negatives()


def add_items(state: NextState, known: KnownItems) -> None:
    """Give all items of a table ids, and those without events the rows that are computed from their tokens.

    A baseline gets the table alone: an item without events is never an answer of counts.
    """
    state.known_items = known
    if state.schedule is None:
        return
    add_values(state, known.items.ids.to_list())
    state.metadata.values = len(state.vocabulary) - FIRST
    ids = np.array([state.vocabulary.id(item) for item in known.items.ids])
    # Items with events keep their trained rows; only those without get computed ones.
    is_new = state.counting["popularity"].totals[ids] == 0
    tokens = [torch.from_numpy(cells) for cells in known.encoder.encode(known.items.filter(pl.Series(is_new)))]
    parameters = dict(module_of(state.network).named_parameters())
    for name, embedding in known.embeddings.items():
        table = parameters[name].data
        rows = embed_tokens(torch.from_numpy(embedding), *tokens).view(-1, *table.shape[1:])
        table[torch.from_numpy(ids[is_new]).to(table.device)] = rows.to(table)


def new_rows(state: NextState, block: int) -> dict[str, Tensor]:
    """Return the rows of a block of ids by the name of their tensor, as ``grow`` initialises them."""
    if state.new_rows is None or state.new_rows[0] != block:
        seeds = np.random.SeedSequence([state.seed, block]).generate_state(1, np.uint64)
        torch.manual_seed(int(seeds[0] >> np.uint64(1)))
        smallest: NextModel = MODELS[state.model_name].make(state.settings, FIRST + 1)
        old, grown = (module_of(model).state_dict() for model in (smallest, smallest.grow(FIRST + 1 + BLOCK)))
        # Tensors whose shape depends on the number of ids have one row per id.
        longer = {name for name in grown if grown[name].shape != old[name].shape}
        state.new_rows = (block, {name: grown[name][FIRST + 1 :].to(state.device) for name in longer})
    return state.new_rows[1]


def _lengthen(state: NextState, name: str, rows: Tensor) -> None:
    """Put rows under a parameter and its moments (where they are 0), or under a buffer, in place."""
    path, _, attribute = name.rpartition(".")
    module = module_of(state.network).get_submodule(path)
    tensor: Tensor = getattr(module, attribute)
    if not isinstance(tensor, nn.Parameter):
        setattr(module, attribute, _longer(tensor, rows))
        return
    if tensor.dim() == 1:
        rows = tensor.data[FIRST:].min().expand(len(rows))  # as ``grow`` has it, the lowest bias of this moment
    optimizer = state.optimizer  # read from the folder if need be: its moments have the old rows
    tensor.data = _longer(tensor.data, rows)
    tensor.grad = None
    moments = optimizer.state.get(tensor, {}) if optimizer else {}
    for field, moment in moments.items():
        if moment.dim():
            moments[field] = _longer(moment, torch.zeros_like(rows))


def _longer(tensor: Tensor, rows: Tensor) -> Tensor:
    """Return the tensor with more rows, in place while its memory suffices; else it is reallocated with spare room."""
    if not tensor.untyped_storage().resizable():  # it stands in the model folder
        tensor = tensor.clone()
    old = len(tensor)
    row_shape = tensor.shape[1:]
    num = old + len(rows)
    if tensor.untyped_storage().nbytes() < num * row_shape.numel() * tensor.element_size():
        # Reserve more rows than needed, so that the next ids need no copy.
        tensor.resize_((num + num // SPARE, *row_shape))
    tensor.resize_((num, *row_shape))
    tensor[old:] = rows
    return tensor


def count(state: NextState, data: Histories) -> None:
    """Add whole encoded histories to the counting models and the metadata; it takes a pass over the counted pairs."""
    for module in state.counting.values():
        module.count(data)
    state.length_delay.count(data)
    if state.keeps_histories:
        if isinstance(state.network, Remembers):
            state.network.remember(data)
        state.training_hashes = np.concatenate([state.training_hashes, history_hashes(data)])
    state.metadata.repeats = state.metadata.repeats or repeats(data)
    state.metadata.events += len(data.ids)
    state.metadata.sequences += len(data)
    state.metadata.values = len(state.vocabulary) - FIRST
    state.learned()
    if state.schedule is not None:
        state.count_negatives()


def learn(state: NextState, histories: Histories, context: Index | None = None) -> float:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.learn`."""
    network = state.network
    schedule = state.schedule
    windows = Windows(histories, network.reach, context=context)
    if schedule is None or state.optimizer is None or not len(windows):
        return 0.0
    steps = state.metadata.steps
    plan = windows.plan(schedule.batch_size, (state.seed, steps))
    rate = schedule.learning_rate
    loss = loop.one_pass(
        module_of(network), windows, plan, optimizer=state.optimizer, rate=rate, seed=state.seed, first=steps
    )
    state.metadata.steps = steps + len(plan)
    return loss


def observe(state: NextState, ids: Ids, times: Floats) -> None:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.observe`."""
    if isinstance(state.network, Observes):
        state.network.observe(torch.from_numpy(ids).long().to(state.device), torch.from_numpy(times))


def passes(state: NextState, data: Histories, replay: Reservoir | None = None) -> Iterator[Report]:
    """Welcome, count and learn new histories in one pass, as many remembered ones among them; a report a step.

    The new ones then have their chance of being remembered. An index of a large catalogue stays as it is: rebuild it
    after the last update (:func:`ensue.tasks.next.nearest.index_items`).

    Args:
        state: of a trained predictor.
        data: new histories.
        replay: what to remember in place of all that the predictor's own reservoir holds.

    Raises:
        DataError: nothing follows anything in the data.
        SettingError: the predictor is not trained, or the loss is no longer a number.
    """
    require_targets(data, "new data")
    reach = state.network.reach
    require_weighing(state, Windows(data, reach))
    add_values(state, distinct(data))
    data = data.encode(state.vocabulary, drop_unknown=True)
    count(state, data)
    state.metadata.updates = updates = state.metadata.updates + 1
    if state.schedule is None or state.optimizer is None:
        state.model = state.counting[state.model_name]
        yield replace(NO_TRAINING, note="counts updated")
        return
    remembered = (state.reservoir if replay is None else replay).draw(len(data), updates)
    state.reservoir.add(data)
    if len(data.weights):
        # No weights are stored of remembered histories: they get the mean weight of the new ones.
        remembered = replace(remembered, weights=np.full(len(remembered.ids), data.weights.mean()))
    yield from train_update(state, Windows(concat_histories(data, remembered), reach))


def require_weighing(state: NextState, windows: Windows) -> None:
    """Refuse weights of events for a network whose loss has none.

    Raises:
        SettingError: naming models that have.
    """
    network = state.network
    is_counted = state.schedule is None
    if is_counted or windows.weights is None or getattr(network, "weighs_targets", False):
        return
    raise SettingError(
        f"{state.model_name} does not train with weights of events; fit another model, such as core or sasrec, or "
        "give every kind the same weight in --events, and no weight in --columns"
    )
