"""Predictors of all tasks: make and load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack, overload

from ensue.errors import SettingError
from ensue.registry import add_named, require_task, task_of
from ensue.tasks import TASKS, named

if TYPE_CHECKING:  # of four tasks the one that is asked for is imported
    from ensue.learning.state import AnyState
    from ensue.tasks.classify.predictor import ClassifyPredictor
    from ensue.tasks.link.predictor import LinkPredictor
    from ensue.tasks.next.predictor import NextPredictor
    from ensue.tasks.suggest.predictor import SuggestPredictor


AnyPredictor: TypeAlias = "AnyState"
"""A predictor whose task is known only when the program runs."""


class Options(TypedDict, total=False):
    """Keywords of :func:`make`."""

    settings: Mapping[str, object] | None
    seed: int
    device: str | None


@overload
def make(task: Literal["next"], model: str = "best", **options: Unpack[Options]) -> NextPredictor: ...
@overload
def make(task: Literal["classify"], model: str = "best", **options: Unpack[Options]) -> ClassifyPredictor: ...
@overload
def make(task: Literal["suggest"], model: str = "best", **options: Unpack[Options]) -> SuggestPredictor: ...
@overload
def make(task: Literal["link"], model: str = "best", **options: Unpack[Options]) -> LinkPredictor: ...
@overload
def make(task: str, model: str = "best", **options: Unpack[Options]) -> AnyPredictor: ...
def make(
    task: str,
    model: str = "best",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: str | None = None,
) -> AnyPredictor:
    """A predictor that has learned nothing yet.

    Args:
        task: the question, ``next``, ``classify``, ``suggest`` or ``link``.
        model: a model's name, or ``best``.
        settings: settings to change, by name; ``pooling`` of ``classify`` may be ``FILE.py:CLASS``.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.

    Raises:
        SettingError: an unknown task, model or setting.

    Example:
        >>> from ensue import History
        >>> from ensue.data.histories import Histories
        >>> from ensue.predictor import make
        >>> predictor = make("next", "markov")
        >>> for report in predictor.fit(Histories.of([History(("a", "b")), History(("a", "b"))])):
        ...     pass
        >>> [choice.value for choice in predictor.predict([History(("a",))], k=1)[0].choices]
        ['b']
    """
    if not isinstance(settings, Mapping | None):
        raise SettingError(f"settings is of type {type(settings).__name__}; give a dictionary such as {{'dim': 64}}")
    if isinstance(pooling := (settings or {}).get("pooling"), str):
        settings = {**(settings or {}), "pooling": add_named(pooling)}
    return named(TASKS[require_task(task)].predictor)(model, settings=settings, seed=seed, device=device)


def load(folder: str | Path, *, device: str | None = None) -> AnyPredictor:
    """Read a model folder as the predictor of its task, such as a :class:`NextPredictor`.

    Args:
        folder: written by the ``save`` of a predictor.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.

    Raises:
        ModelFolderError: it is half, foreign, damaged, or of a newer ensue.

    Example:
        >>> from ensue import History
        >>> from ensue.data.histories import Histories
        >>> from ensue.predictor import load, make
        >>> predictor = make("next", "markov")
        >>> for report in predictor.fit(Histories.of([History(("a", "b")), History(("a", "b"))])):
        ...     pass
        >>> predictor.save("models/tiny")
        >>> load("models/tiny").model_name
        'markov'
    """
    return named(TASKS[task_of(folder)].predictor).load(folder, device=device)
