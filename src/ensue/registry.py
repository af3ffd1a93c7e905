"""What there is to choose from, found without importing it: the tasks, the models of each, the task of a folder.

A package's ``MODELS`` and the literals beside it are the registry. To import them takes torch, so they are read from
the source: who asks for a list, or names what is not there, has the answer at once.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ensue.errors import ModelFolderError, SettingError
from ensue.folder import read_settings

TASKS: Mapping[str, str] = {"next": "next_event", "classify": "classify", "suggest": "suggest", "link": "link"}
"""The package of each task."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model of a task, as ``ensue models`` lists it."""

    task: str
    name: str
    about: str
    paper: str
    """Where it was published; empty if nowhere."""
    default: bool
    """Whether it is what ``best`` is, or one of those ``best`` chooses from."""
    counting: bool
    """Whether it is plain counting, which stands beside all others."""


def require_task(task: str) -> str:
    """The task, if it is one.

    Raises:
        SettingError: it is not.
    """
    if task not in TASKS:
        raise SettingError(f"task {task!r} is not known; choose from {', '.join(TASKS)}")
    return task


def models(task: str) -> list[Model]:
    """The models of a task, in the order of its ``MODELS``.

    Raises:
        SettingError: an unknown task.
    """
    found = _assigned(TASKS[require_task(task)])
    about: dict[str, tuple[str, str]] = ast.literal_eval(found["ABOUT"])
    counting, best = ast.literal_eval(found["COUNTING"]), ast.literal_eval(found["BEST"])
    names = _keys(found["MODELS"])
    return [Model(task, name, about[name][0], about[name][1], name in best, name in counting) for name in names]


def require_model(task: str, model: str) -> None:
    """Refuse a name that is no model of the task.

    Raises:
        SettingError: an unknown task or model.
    """
    names = list(dict.fromkeys(["best", *(one.name for one in models(task))]))
    if model not in names:
        raise SettingError(f"model {model!r} is not known for task {task}; choose from {', '.join(names)}")


def require_paper(paper: str) -> None:
    """Refuse a name that is no study.

    Raises:
        SettingError: an unknown paper.
    """
    if paper not in (papers := _keys(_assigned("studies")["PAPERS"])):
        raise SettingError(f"paper {paper!r} is not known; choose from {', '.join(papers)}")


def task_of(folder: str | Path) -> str:
    """The task of a model folder.

    Raises:
        ModelFolderError: it is half, foreign, or of a newer ensue.
    """
    task = read_settings(Path(folder))["task"]
    if not isinstance(task, str) or task not in TASKS:
        raise ModelFolderError(f"{folder}: task {task!r} is not known to this ensue; update ensue")
    return task


def _keys(literal: ast.expr) -> list[str]:
    """The keys of a dictionary's literal."""
    assert isinstance(literal, ast.Dict)
    return [str(ast.literal_eval(key)) for key in literal.keys if key is not None]


def _assigned(package: str) -> dict[str, ast.expr]:
    """What a package's own file assigns to names."""
    source = files("ensue").joinpath(package, "__init__.py").read_text(encoding="utf-8")
    found: dict[str, ast.expr] = {}
    for node in ast.parse(source).body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
    return found
