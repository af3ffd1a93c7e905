"""What a task is to those who know none by name: the command line, the service, the evaluator, the cards, the page.

A task is data. What it needs of torch, or of a floor above, is named here and imported when it is first asked for, so
that a list of tasks costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol, Self


class Record(Protocol):
    """One thing that is asked about."""

    @classmethod
    def from_fields(cls, found: dict[str, Any], where: str = ...) -> Self:
        """Of a decoded JSON object; a ``DataError`` names ``where``, the field and what to do."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """One question that logs answer, and what answers it.

    What is named is a module (``ensue.cli.link``) or something in one
    (``ensue.tasks.link.predictor:LinkPredictor``); :func:`named` imports it.
    """

    name: str
    question: str
    """In a line."""
    record: type[Record]
    """What is asked about."""
    example: dict[str, object]
    """A record, as JSON; its first field must be there."""
    catalogue: str
    """A module with MODELS, SHARED, ABOUT, COUNTING and BEST (:mod:`ensue.registry`), which imports no torch."""
    predictor: str
    """A subclass of :class:`ensue.learning.state.State`."""
    evaluator: str
    """The examples that its models are scored on: a class that is an :class:`ensue.evaluation.examples.Examples`."""
    update: str
    """A function that lets a candidate learn and tests it: :data:`ensue.refresh.Learn`."""
    command: str
    """What the command line reads and shows: a module that is an :class:`ensue.cli.tasks.TaskCommands`."""
    check: str
    """A module with ``check`` and ``leaks_between``: findings on data, and what training data gives away."""
    service: str
    """What the service takes and gives: an :class:`ensue.serve.tasks.TaskService`."""
    forget: str
    """A function of a predictor, records, names of users and the folder that removes the users, and returns
    :class:`~ensue.learning.forget.Forgotten`."""
    foreign: str
    """Parameters of the command line that do not apply to the task: names separated by spaces."""
    kinds: tuple[str, ...]
    """The kinds of file (:mod:`ensue.data.kinds`) that are for this task where none is named."""
    streamed: bool = False
    """Whether ``ensue stream`` learns it event by event."""


@cache
def named(reference: str) -> Any:
    """The module, or the thing in a module, that a :class:`Task` names."""
    module, _, name = reference.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found
