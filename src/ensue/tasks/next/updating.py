"""How a trained predictor goes on: new values are welcomed, histories counted, and learned in single passes.

:func:`learn` is the quick way, a few optimiser steps on histories whose events may be old in part, as a stream brings
them. :func:`passes` is the thorough way, on whole new histories, with as many remembered ones among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.check import fingerprints, require_targets
from ensue.data.histories import Histories, Index
from ensue.nn.sampling import Sampler
from ensue.tasks.next.reservoir import Reservoir, joined
from ensue.tasks.next.task import Pieces, repeats
from ensue.training.loop import Report, one_pass, train
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from ensue.tasks.next.predictor import NextPredictor

NEWBORN = 4096
"""Rows of new ids are drawn for so many ids at a time, each such block from a seed of its own."""
SPARE = 8
"""A table that has to grow gets room for one part in this many more, so that it is seldom copied."""


def distinct(data: Histories) -> Iterator[str]:
    """The values that occur, in order of their ids; unknown is none."""
    counts = np.bincount(data.ids, minlength=FIRST)
    counts[:FIRST] = 0
    return (data.vocabulary.value(i) for i in np.flatnonzero(counts).tolist())


def prints(data: Histories) -> Tensor:
    """Fingerprints of the distinct histories, sorted."""
    return torch.from_numpy(np.unique(fingerprints(data)).view(np.int64))


def welcome(predictor: NextPredictor, values: Iterable[str]) -> None:
    """Give new values the next ids: counts start at 0, weights at random, the optimiser's moments at 0.

    What a new id starts from depends on the predictor's seed and on the id, not on with which others it came; a model
    that weighs what came lately puts it near that (``place``).
    """
    old = first = len(predictor.vocabulary)
    if not predictor.vocabulary.add(values):
        return
    num_ids = len(predictor.vocabulary)
    predictor.counting = {name: module.grow(num_ids) for name, module in predictor.counting.items()}
    if predictor.schedule is None:
        predictor.model = predictor.counting[predictor.model_name]
        return
    for name in ("memory", "following"):
        if hasattr(predictor.network, name):
            setattr(predictor.network, name, getattr(predictor.network, name).grow(num_ids))
    while old < num_ids:
        block, place = divmod(old, NEWBORN)
        stop = min(num_ids, (block + 1) * NEWBORN)
        for name, rows in _newborns(predictor, block).items():
            _lengthen(predictor, name, rows[place : place + stop - old])
        old = stop
    for module in predictor.network.modules():
        if isinstance(module, nn.Embedding):
            module.num_embeddings = len(module.weight)
        elif isinstance(module, nn.Linear):
            module.out_features = len(module.weight)
    if hasattr(predictor.network, "place"):
        predictor.network.place(first)
    count_negatives(predictor)


def count(predictor: NextPredictor, data: Histories) -> None:
    """Add whole encoded histories to the counting models and the facts; it takes a pass over the counted pairs."""
    for module in predictor.counting.values():
        module.count(data)
    if predictor.continuation is not None:
        predictor.continuation.count(data)
    if predictor.keeps_histories:
        if hasattr(predictor.network, "remember"):
            predictor.network.remember(data)
        predictor.train_prints = torch.cat([predictor.train_prints, prints(data)])
    predictor.facts["repeats"] = predictor.facts["repeats"] or repeats(data)
    predictor.facts["events"] += len(data.ids)
    predictor.facts["sequences"] += len(data)
    predictor.facts["values"] = len(predictor.vocabulary) - FIRST
    if predictor.schedule is not None:
        count_negatives(predictor)


def count_negatives(predictor: NextPredictor) -> None:
    """Tell a network that draws negatives how often each id occurs."""
    for module in predictor.network.modules():
        if isinstance(module, Sampler):
            module.count(predictor.counting["popularity"].totals)


def learn(predictor: NextPredictor, histories: Histories, known: Index | None = None) -> float:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.learn`."""
    network, schedule = predictor.network, predictor.schedule
    pieces = Pieces(histories, network.reach, known=known)
    if schedule is None or predictor.optimizer is None or not len(pieces):
        return 0.0
    steps = predictor.facts.get("steps", 0)
    plan = pieces.plan(schedule.batch_size, (predictor.seed, steps))
    rate = schedule.learning_rate
    loss = one_pass(network, pieces, plan, optimizer=predictor.optimizer, rate=rate, seed=predictor.seed, first=steps)
    predictor.facts["steps"] = steps + len(plan)
    return loss


def passes(predictor: NextPredictor, data: Histories, replay: Reservoir | None = None) -> Iterator[Report]:
    """Welcome, count and learn new histories in one pass, as many remembered ones among them; a report a step.

    The new ones then have their chance of being remembered.

    Args:
        predictor: trained.
        data: new histories.
        replay: what to remember in place of all that the predictor's own reservoir holds.

    Raises:
        DataError: nothing follows anything in the data.
        SettingError: the predictor is not trained, or the loss is no longer a number.
    """
    require_targets(data, "new data")
    reach = predictor.network.reach
    welcome(predictor, distinct(data))
    data = data.encode(predictor.vocabulary, drop_unknown=True)
    count(predictor, data)
    updates = predictor.facts.get("updates", 0) + 1
    predictor.facts["updates"] = updates
    if predictor.schedule is None or predictor.optimizer is None:
        predictor.model = predictor.counting[predictor.model_name]
        yield Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
        return
    remembered = (predictor.reservoir if replay is None else replay).draw(len(data), updates)
    predictor.reservoir.add(data)
    yield from train(
        predictor.network,
        Pieces(joined(data, remembered), reach),
        None,
        replace(predictor.schedule, epochs=1, decay=False),
        optimizer=predictor.optimizer,
        seed=predictor.seed + updates,
        stage="update",
    )


def _newborns(predictor: NextPredictor, block: int) -> dict[str, Tensor]:
    """Rows for a block of ids, by the name of the tensor, as ``grow`` gives them to a network of one value."""
    if predictor.newborns is None or predictor.newborns[0] != block:
        seeds = np.random.SeedSequence([predictor.seed, block]).generate_state(1, np.uint64)
        torch.manual_seed(int(seeds[0] >> np.uint64(1)))
        least = type(predictor.network)(predictor.settings, FIRST + 1)
        old, grown = least.state_dict(), least.grow(FIRST + 1 + NEWBORN).state_dict()
        longer = {
            name
            for name in grown
            if grown[name].shape != old[name].shape and not name.startswith(("memory.", "following."))
        }
        predictor.newborns = (block, {name: grown[name][FIRST + 1 :].to(predictor.device) for name in longer})
    return predictor.newborns[1]


def _lengthen(predictor: NextPredictor, name: str, rows: Tensor) -> None:
    """Put rows under a parameter and its moments (where they are 0), or under a buffer, in place."""
    path, _, attribute = name.rpartition(".")
    module = predictor.network.get_submodule(path)
    tensor: Tensor = getattr(module, attribute)
    if not isinstance(tensor, nn.Parameter):
        setattr(module, attribute, _longer(tensor, rows))
        return
    if tensor.dim() == 1:
        rows = tensor.data[FIRST:].min().expand(len(rows))  # as ``grow`` has it, the lowest bias of this moment
    optimizer = predictor.optimizer  # which may come from the folder now, where the moments have the rows of before
    tensor.data, tensor.grad = _longer(tensor.data, rows), None
    moments = optimizer.state.get(tensor, {}) if optimizer else {}
    for field, moment in moments.items():
        if moment.dim():
            moments[field] = _longer(moment, torch.zeros_like(rows))


def _longer(tensor: Tensor, rows: Tensor) -> Tensor:
    """The tensor with more rows; its memory is kept as long as there is room, with some to spare when there is not."""
    old, rest = len(tensor), tensor.shape[1:]
    num = old + len(rows)
    if tensor.untyped_storage().nbytes() < num * rest.numel() * tensor.element_size():
        tensor.resize_((num + num // SPARE, *rest))
    tensor.resize_((num, *rest))
    tensor[old:] = rows
    return tensor
