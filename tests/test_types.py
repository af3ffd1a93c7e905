"""What mypy infers for users of the public names: ``scripts/check`` runs mypy.

A task named by a literal gives that task's predictor; a name known only at run time gives a ``Predictor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import ensue
from ensue.evaluation import LinkResult, Result, SuggestResult, TextResult
from ensue.predictor import Predictor
from ensue.tasks.next.predictor import NextPredictor


def infer_types(task: str) -> None:
    """Assert inferred types; never called."""
    assert_type(ensue.make("next"), NextPredictor)
    assert_type(ensue.make(task).predict([], 3), Sequence[Any])
    assert_type(ensue.load("m"), Predictor[Any, Any, Any, Any])
    assert_type(ensue.evaluate(ensue.make("classify"), ensue.Texts.of([])), TextResult)
    assert_type(ensue.evaluate(ensue.load("m"), ensue.Texts.of([])), Result | TextResult | SuggestResult | LinkResult)
    _ = ensue.nonsense  # type: ignore[attr-defined]
