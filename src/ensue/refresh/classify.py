"""An update of task ``classify`` is tested on held-out texts of the fit, where the folder keeps them.

They are ids of words with their labels (``remembered``); the figure is accuracy.
"""

from __future__ import annotations

import numpy as np

from ensue.data.texts import Texts
from ensue.refresh.trial import Ask, Columns, Slice, Trial
from ensue.tasks.classify.predictor import ClassifyPredictor


def learn(old: ClassifyPredictor, candidate: ClassifyPredictor, data: Texts, ask: Ask) -> Trial:
    """Let a candidate learn, then ask it and the old one for the labels that they remember."""
    loss = float(candidate.update(data).loss)
    return Trial(slices(old, candidate) if ask.tested else (), loss=loss)


def slices(old: ClassifyPredictor, new: ClassifyPredictor) -> tuple[Slice, ...]:
    """Return both predictors on the texts that the old one remembers."""
    if old.remembered is None or not len(old.remembered[1]):
        return ()
    return (Slice.of("remembered", _columns(old, old), _columns(new, old)),)


def _columns(predictor: ClassifyPredictor, old: ClassifyPredictor) -> Columns:
    """Return whether each remembered text gets its label."""
    assert old.remembered is not None
    sides, targets = old.remembered
    return {"accuracy": (predictor.probabilities(sides).argmax(1) == targets).astype(np.float64)}
