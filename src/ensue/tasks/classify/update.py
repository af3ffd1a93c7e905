"""Updates of a trained text classifier: new words join the vocabulary, texts are trained on in one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.tasks.classify.dataset import codes, prints
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.classify.state import ClassifyState
from ensue.tasks.state import require_trained
from ensue.training.loop import train
from ensue.training.optimizer import optimizer_tensors, restore_optimizer
from ensue.training.report import Report


def update(state: ClassifyState, data: Texts) -> Report:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.update`."""
    require_trained(state.model)
    if not len(data):
        raise DataError("new data: there are no texts")
    targets = codes(data, state.labels)
    for place in np.flatnonzero(targets < 0)[:1].tolist():
        label = data.record(place).label
        raise DataError(
            f"new data: the label {label!r} is not a label of the model ({', '.join(state.labels)}); fit again on "
            "all data"
        )
    state.encode(data.select(slice(0, 1)))  # refused before anything is changed
    state.tokenizer.add(data.texts, min_count=state.settings.min_count)
    sides, updates = state.encode(data), state.metadata.updates + 1
    for baseline in state.counting.values():
        baseline.grow(len(state.tokenizer.vocabulary))
        baseline.count(sides, targets)
    state.train_prints = torch.from_numpy(np.union1d(state.train_prints.numpy(), prints(data)))
    state.metadata.updates = updates
    state.metadata.texts += len(data)
    if state.schedule is None or state.optimizer is None:
        return Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
    _grow(state, updates)
    size = state.schedule.smallest_batch or state.schedule.batch_size
    schedule = replace(state.schedule, epochs=1, batch_size=size, smallest_batch=None, decay_rate=1.0, decay=False)
    passages, seed = state.passages(sides, targets), state.seed + updates
    *_, last = train(state.module, passages, None, schedule, optimizer=state.optimizer, seed=seed, stage="update")
    return last


def _grow(state: ClassifyState, updates: int) -> None:
    """Rows for new words in the network; the optimiser's moments of the others stay."""
    assert state.schedule is not None and state.optimizer is not None
    torch.manual_seed(state.seed + updates)
    if state.encoder is not None:
        return  # it reads words that no vocabulary knows
    moments = optimizer_tensors(state.module, state.optimizer)
    state.network.grow(len(state.tokenizer.vocabulary))
    state.optimizer = new_optimizer(state.module, state.schedule)
    restore_optimizer(state.module, state.optimizer, moments)
