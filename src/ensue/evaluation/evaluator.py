"""What the evaluator of a task is, and where that of a task is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ensue.tasks import TASKS
from ensue.tasks.base import named

if TYPE_CHECKING:
    from ensue.evaluation.result import Card, TaskResult
    from ensue.predictor import AnyPredictor


class Evaluator(Protocol):
    """The module that a :class:`~ensue.tasks.base.Task` names as its ``evaluator``."""

    def compare(
        self, entries: Sequence[Sequence[AnyPredictor]], data: object, /, **scoring: object
    ) -> TaskResult[Card]:
        """Score several models, each a list of predictors that differ in their seed alone.

        Args:
            entries: fitted predictors of the task, by model.
            data: what the task scores.
            scoring: options of the task's own, such as a protocol.
        """
        ...


def evaluator_of(task: str) -> Evaluator:
    """The evaluator of a task."""
    found: Evaluator = named(TASKS[task].evaluator)
    return found
