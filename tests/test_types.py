"""What mypy infers for users of the public names: ``scripts/check`` runs mypy.

Internally, a task named by a literal gives that task's predictor; a name known only at run time a ``Predictor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import ensue
from ensue import Answer, Link, NextEvent, PostLinker, Predictions, QuerySuggester, TextClassifier
from ensue.evaluation.result import Result
from ensue.predictor import make
from ensue.tasks.next.predictor import NextPredictor


def infer_types(task: str) -> None:
    """Assert inferred types; never called."""
    assert_type(ensue.NextEvent().fit("log.csv"), NextEvent)
    assert_type(ensue.NextEvent().predict([["a"]]), Predictions[Answer])
    assert_type(ensue.PostLinker().predict(["a"])[0].choices[0], Link)
    assert_type(ensue.TextClassifier().evaluate("texts.csv"), Result)
    assert_type(ensue.load("m"), NextEvent | TextClassifier | QuerySuggester | PostLinker)
    assert_type(make("next"), NextPredictor)
    assert_type(make(task).predict([], 3), Sequence[Any])
    _ = ensue.nonsense  # type: ignore[attr-defined]
