"""The tasks, the models of each and their settings, found without importing torch, and the task of a model folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ensue.arguments import require_path
from ensue.errors import ModelFolderError, SettingError
from ensue.lines import one_line
from ensue.settings import meanings, near, require_encoder, require_file, require_known
from ensue.store.folder import read_settings
from ensue.tasks import TASKS
from ensue.tasks.base import named
from ensue.tasks.own import add_named, offered_names


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
    """Whether it is a count-based baseline, reported next to all others."""


def require_task(task: str) -> str:
    """Return the task, if it is one.

    Raises:
        SettingError: it is not.
    """
    if task not in TASKS:
        first = "; give the task first, then the file" if isinstance(task, str) and Path(task).is_file() else ""
        hint = near(task, TASKS)
        raise SettingError(f"task {task!r} is not known; {hint}choose from {', '.join(TASKS)}{first}")
    return task


def catalogue_of(task: str) -> Any:
    """Return the catalogue of a task: a module of MODELS, SHARED, ABOUT, COUNTING and BEST.

    Raises:
        SettingError: an unknown task.
    """
    return named(TASKS[require_task(task)].catalogue)


def models(task: str) -> list[Model]:
    """Return the models of a task, in the order of its ``MODELS``.

    Raises:
        SettingError: an unknown task.
    """
    catalogue = catalogue_of(task)
    listed = []
    for name in catalogue.MODELS:
        about, paper = catalogue.ABOUT[name]
        listed.append(Model(task, name, about, paper, name in catalogue.BEST, name in catalogue.COUNTING))
    for name in offered_names(task):
        listed.append(Model(task, name, "of an installed package", "", False, False))
    return listed


def names_of(task: str) -> list[str]:
    """Return what ``--model`` takes for a task, ``best`` first.

    Raises:
        SettingError: an unknown task.
    """
    return list(dict.fromkeys(["best", *(model.name for model in models(task))]))


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a model, as ``ensue settings`` lists it."""

    name: str
    default: object
    meaning: str


def settings_of(task: str, model: str) -> list[Setting]:
    """Return the settings of a model and of its training, by name; of ``best``, of all that it chooses from.

    Raises:
        SettingError: an unknown task or model.
    """
    require_model(task, model)
    changes = next((part for part in catalogue_of(task).BEST if isinstance(part, dict)), {}) if model == "best" else {}
    found: dict[str, Setting] = {}
    for part in _settings(task, model):
        for field in fields(part):
            default = changes.get(field.name, getattr(part, field.name))
            found.setdefault(field.name, Setting(field.name, default, meanings(part).get(field.name, "")))
    return list(found.values())


def _settings(task: str, *names: str) -> Iterator[Any]:
    """Yield the settings and the schedule of some models, each followed by what all models of the task share."""
    catalogue = catalogue_of(task)
    for name in names:
        chosen = [own for own in catalogue.MODELS if own in catalogue.BEST] if name == "best" else [name]
        for row in (catalogue.MODELS[own] for own in chosen):
            yield from (part for part in (row.settings, row.schedule, catalogue.SHARED) if part is not None)


def require_model(task: str, model: str) -> str:
    """Return the name of a model of the task; of ``FILE.py:CLASS``, which becomes one, the name of the class.

    Raises:
        SettingError: an unknown task or model.
    """
    model = add_named(model)
    catalogue_of(task).MODELS.require(model, "best")
    return model


def require_settings(task: str, model: str, given: Mapping[str, str]) -> None:
    """Refuse settings by name that the model does not have, and those that name what is not there.

    Raises:
        SettingError: an unknown name, a file of vectors or a sentence encoder that is not there.
    """
    rows = catalogue_of(task).MODELS
    network = given.get("network") or ("sbert" if given.get("encoder") else "")
    names = [model, network] if model == "best" and network in rows else [model]
    require_known(given, {field.name for part in _settings(task, *names) for field in fields(part)})
    require_file("vectors", given.get("vectors"))
    if (encoder := given.get("encoder")) and encoder not in rows:
        require_encoder(encoder)


def task_of(folder: str | Path) -> str:
    """Return the task of a model folder.

    Raises:
        ModelFolderError: it is half, foreign, or of a newer ensue.
    """
    task = read_settings(require_path(folder, "folder"))["task"]
    if not isinstance(task, str) or task not in TASKS:
        raise ModelFolderError(f"{folder}: task {one_line(repr(task))} is not known to this version; update ensue")
    return task
