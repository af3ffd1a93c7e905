"""Updates of a trained text classifier: new words join the vocabulary, texts are trained on in one pass."""

from __future__ import annotations

import numpy as np
import torch

from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.learning.life import NO_TRAINING, resize_embeddings, train_update
from ensue.learning.state import require_trained
from ensue.tasks.classify.dataset import codes, prints
from ensue.tasks.classify.state import ClassifyState
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
    sides = state.encode(data)
    for baseline in state.counting.values():
        baseline.grow(len(state.tokenizer.vocabulary))
        baseline.count(sides, targets)
    state.train_prints = torch.from_numpy(np.union1d(state.train_prints.numpy(), prints(data)))
    state.metadata.updates += 1
    state.metadata.texts += len(data)
    if state.schedule is None or state.optimizer is None:
        return NO_TRAINING
    if state.encoder is None:  # which reads words that no vocabulary knows
        resize_embeddings(state, len(state.tokenizer.vocabulary))
    *_, report = train_update(state, state.passages(sides, targets))
    return report
