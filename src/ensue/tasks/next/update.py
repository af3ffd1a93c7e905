"""How a trained predictor goes on: histories are counted, and learned in single passes.

:func:`learn` is the quick way, a few optimiser steps on histories whose events may be old in part, as a stream brings
them. :func:`passes` is the thorough way, on whole new histories, with as many remembered ones among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from ensue.data.histories import Histories, Ids, Index, concat_histories
from ensue.learning.life import NO_TRAINING, train_update
from ensue.learning.state import module_of
from ensue.metrics import Floats
from ensue.tasks.next.dataset import Windows, distinct, history_hashes, repeats
from ensue.tasks.next.grow import add_values
from ensue.tasks.next.model import Observes, Remembers
from ensue.tasks.next.reservoir import Reservoir
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import require_targets
from ensue.training.loop import one_pass
from ensue.training.report import Report
from ensue.vocabulary import FIRST


def count(state: NextState, data: Histories) -> None:
    """Add whole encoded histories to the counting models and the metadata; it takes a pass over the counted pairs."""
    for module in state.counting.values():
        module.count(data)
    state.length_delay.count(data)
    if state.keeps_histories:
        if isinstance(state.network, Remembers):
            state.network.remember(data)
        state.training_hashes = torch.cat([state.training_hashes, history_hashes(data)])
    state.metadata.repeats = state.metadata.repeats or repeats(data)
    state.metadata.events += len(data.ids)
    state.metadata.sequences += len(data)
    state.metadata.values = len(state.vocabulary) - FIRST
    state.learned()
    if state.schedule is not None:
        state.count_negatives()


def learn(state: NextState, histories: Histories, context: Index | None = None) -> float:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.learn`."""
    network, schedule = state.network, state.schedule
    windows = Windows(histories, network.reach, context=context)
    if schedule is None or state.optimizer is None or not len(windows):
        return 0.0
    steps = state.metadata.steps
    plan = windows.plan(schedule.batch_size, (state.seed, steps))
    rate = schedule.learning_rate
    loss = one_pass(
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

    The new ones then have their chance of being remembered. An index of a large catalogue stays as it is: whoever has
    learned all that there is makes it anew (:func:`ensue.tasks.next.nearest.index_items`).

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
    yield from train_update(state, Windows(concat_histories(data, remembered), reach))
