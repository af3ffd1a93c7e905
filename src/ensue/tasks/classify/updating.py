"""How a trained text classifier goes on: new words are welcomed, texts counted, and learned in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.tasks.classify import storage
from ensue.tasks.classify.fitting import codes, prints
from ensue.training.loop import Report, train
from ensue.training.optimizer import optimizer_tensors, restore_optimizer

if TYPE_CHECKING:
    from ensue.tasks.classify.predictor import ClassifyPredictor


def update(predictor: ClassifyPredictor, data: Texts) -> Report:
    """See :meth:`ensue.tasks.classify.predictor.ClassifyPredictor.update`."""
    predictor.network  # noqa: B018 trained?
    if not len(data):
        raise DataError("new data: there are no texts")
    targets = codes(data, predictor.labels)
    for place in np.flatnonzero(targets < 0)[:1].tolist():
        label = data.record(place).label
        raise DataError(
            f"new data: the label {label!r} is new to the model, which knows {', '.join(predictor.labels)}; fit anew "
            "on all the data"
        )
    predictor.encode(data.select(slice(0, 1)))  # refused before anything is changed
    predictor.tokenizer.add(data.texts, min_count=predictor.settings.min_count)
    sides, updates = predictor.encode(data), predictor.facts.get("updates", 0) + 1
    for module in predictor.counting.values():
        module.grow(len(predictor.tokenizer.vocabulary))
        module.count(sides, targets)
    predictor.train_prints = torch.from_numpy(np.union1d(predictor.train_prints.numpy(), prints(data)))
    predictor.facts |= {"updates": updates, "texts": predictor.facts["texts"] + len(data)}
    if predictor.schedule is None or predictor.optimizer is None:
        return Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
    _grow(predictor, updates)
    size = predictor.schedule.smallest_batch or predictor.schedule.batch_size
    schedule = replace(predictor.schedule, epochs=1, batch_size=size, smallest_batch=None, decay_rate=1.0, decay=False)
    passages, seed = predictor.passages(sides, targets), predictor.seed + updates
    *_, last = train(
        predictor.model, passages, None, schedule, optimizer=predictor.optimizer, seed=seed, stage="update"
    )
    return last


def _grow(predictor: ClassifyPredictor, updates: int) -> None:
    """Rows for new words in the network; the optimiser's moments of the others stay."""
    assert predictor.schedule is not None and predictor.optimizer is not None
    torch.manual_seed(predictor.seed + updates)
    if predictor.encoder is not None:
        return  # it reads words that no vocabulary knows
    moments = optimizer_tensors(predictor.model, predictor.optimizer)
    predictor.model.grow(len(predictor.tokenizer.vocabulary))
    predictor.optimizer = storage.new_optimizer(predictor.model, predictor.schedule)
    restore_optimizer(predictor.model, predictor.optimizer, moments)
