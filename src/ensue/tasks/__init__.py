"""The tasks: a table of what each is, and where its model, its data, its command and its service are.

A task is data. What it needs of torch, or of a higher layer, is named here and imported when it is first needed, so
that a list of tasks costs nothing. No task imports another, and no other module knows one by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ensue.lazy import import_named
from ensue.records import History, Post, Record, Text


@dataclass(frozen=True, slots=True)
class Task:
    """A question that a model answers from logs, and references to its parts.

    A reference is a module (``ensue.cli.link``) or an object in one (``ensue.tasks.link.predictor:LinkPredictor``);
    :func:`named` imports it.
    """

    name: str
    question: str
    """One line for ``ensue --help``."""
    record: type[Record]
    """Type of an input."""
    example: dict[str, object]
    """A record, as JSON; its first field is required."""
    predictor: str
    """A subclass of :class:`ensue.learning.state.State`."""
    evaluator: str
    """The examples that its models are scored on: a class that is an :class:`ensue.evaluation.examples.Examples`."""
    command: str
    """A module that reads data for the command line and shows answers: an :class:`ensue.cli.tasks.TaskCommands`."""
    service: str
    """Requests and answers of the service: an :class:`ensue.serve.tasks.TaskService`."""
    foreign: str
    """Parameters of the command line that do not apply to the task: names separated by spaces."""
    kinds: tuple[str, ...]
    """Kinds of file (:mod:`ensue.data.kinds`) that a command without a task reads for this one."""
    streamed: bool = False
    """Whether ``ensue stream`` trains it event by event."""

    def module(self, name: str) -> Any:
        """Return a module of the package of the task.

        Args:
            name: ``catalogue`` (MODELS, SHARED, ABOUT, COUNTING and BEST, see :mod:`ensue.registry`), which imports no
                torch; ``check``, whose ``check`` returns findings on data, and ``leaks_between`` leaks between training
                and test data; ``forget``, whose ``forget_users`` takes a predictor, records, names of users and the
                folder, removes the users and returns :class:`~ensue.learning.life.Forgotten`; or ``onnx_export``, whose
                ``exports`` returns the network of a predictor as graphs, :class:`ensue.learning.state.Exports`.
        """
        return import_named(f"ensue.tasks.{self.name}.{name}")


@cache
def named(reference: str) -> Any:
    """Return the module, or the object in a module, of a reference of a :class:`Task`."""
    module_name, _, name = reference.partition(":")
    module = import_named(module_name)
    return getattr(module, name) if name else module


NEXT = Task(
    name="next",
    question="predict the next item or user of a session",
    record=History,
    example={"values": ["a", "b"]},
    predictor="ensue.tasks.next.predictor:NextPredictor",
    evaluator="ensue.evaluation.next_event:SessionTargets",
    command="ensue.cli.tasks.next_event",
    service="ensue.serve.tasks.next_event:SERVICE",
    foreign="metric phrases rules prefix articles queries qrels",
    kinds=("sequences",),
    streamed=True,
)
CLASSIFY = Task(
    name="classify",
    question="label a text, or a pair of texts",
    record=Text,
    example={"texts": ["a text"]},
    predictor="ensue.tasks.classify.predictor:ClassifyPredictor",
    evaluator="ensue.evaluation.classify:LabelledTexts",
    command="ensue.cli.tasks.classify",
    service="ensue.serve.tasks.classify:SERVICE",
    foreign=(
        "unknown rank_unknown exclude_seen events time_unit day_first sort session_gap protocol cutoffs rules "
        "off_policy min_users prefix steps exclude filter_ now max_per diversify edges allow articles queries qrels "
        "items item_columns"
    ),
    kinds=("texts",),
)
SUGGEST = Task(
    name="suggest",
    question="suggest the next query",
    record=History,
    example={"values": ["a", "b"]},
    predictor="ensue.tasks.suggest.predictor:SuggestPredictor",
    evaluator="ensue.evaluation.suggest:NextQueries",
    command="ensue.cli.tasks.suggest",
    service="ensue.serve.tasks.suggest:SERVICE",
    foreign=(
        "metric unknown rank_unknown exclude_seen off_policy events sort phrases cutoffs steps exclude allow "
        "filter_ now max_per diversify edges "
        "articles queries qrels items item_columns"
    ),
    kinds=("queries",),
)
LINK = Task(
    name="link",
    question="link posts to the articles they discuss",
    record=Post,
    example={"text": "a post"},
    predictor="ensue.tasks.link.predictor:LinkPredictor",
    evaluator="ensue.evaluation.link:JudgedPosts",
    command="ensue.cli.tasks.link",
    service="ensue.serve.tasks.link:SERVICE",
    foreign=(
        "metric unknown rank_unknown exclude_seen off_policy events time_unit day_first sort session_gap phrases rules "
        "protocol cutoffs min_users prefix steps exclude filter_ now max_per diversify edges allow items item_columns"
    ),
    kinds=("posts",),
)

TASKS: Mapping[str, Task] = {task.name: task for task in (NEXT, CLASSIFY, SUGGEST, LINK)}
"""The tasks by name."""
