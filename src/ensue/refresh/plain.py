"""An update of a task that remembers no examples: it is learned, and not tested."""

from __future__ import annotations

from typing import Any

from ensue.predictor import AnyPredictor
from ensue.refresh.trial import Ask, Trial


def learn(old: AnyPredictor, candidate: AnyPredictor, data: Any, ask: Ask) -> Trial:
    """Let a candidate learn."""
    return Trial(loss=float(candidate.update(data).loss))
