"""An update of task ``classify`` is tested on held-out texts of the fit, where the folder keeps them.

They are ids of words with their labels (``remembered``); the figure is accuracy.
"""

from __future__ import annotations

import numpy as np

from ensue.data.texts import Texts
from ensue.metrics import Floats
from ensue.refresh.trial import Ask, Slice, Trial, slices_of
from ensue.tasks.classify.predictor import ClassifyPredictor


def learn(old: ClassifyPredictor, candidate: ClassifyPredictor, data: Texts, ask: Ask) -> Trial:
    """Let a candidate learn, then ask it and the old one for the labels that they remember."""
    loss = float(candidate.update(data).loss)
    return Trial(slices(old, candidate) if ask.tested else (), loss=loss)


def slices(old: ClassifyPredictor, new: ClassifyPredictor) -> tuple[Slice, ...]:
    """What both predictors come to on what the old one remembers."""
    return slices_of("accuracy", {"remembered": (_right(old, old), _right(new, old))})


def _right(predictor: ClassifyPredictor, old: ClassifyPredictor) -> Floats:
    """(texts,) whether each remembered text gets its label."""
    if old.remembered is None:
        return np.zeros(0)
    sides, targets = old.remembered
    found: Floats = (predictor.probabilities(sides).argmax(1) == targets).astype(np.float64)
    return found
