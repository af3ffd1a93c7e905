"""Models of the tasks and their settings, listed without importing torch; models and poolings of other authors.

A class in a user's file or in an installed package is a model of a task if it is made and called as those of the task
are (``ensue.tasks.next.model``, ``ensue.tasks.classify.model``) and declares its settings and its training:

    class Latest(nn.Module):
        "The latest value again."

        SETTINGS = LatestSettings()
        SCHEDULE = Schedule(epochs=5)

It is a pooling of ``classify`` if it is made of the width of the words and called with their vectors and a mask, as
those of :mod:`ensue.nn.pooling` are, and has a ``width``.

A class is named by its file, ``--model ./mine.py:Latest`` or ``--set pooling=./mine.py:GatedMean``, or passed to
:func:`add_model`; a package offers a model as an entry point ``next.latest`` of the group ``ensue.models``. A folder
alone never runs code: it holds the name of the class, and whoever loads it names the file again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from ensue.arguments import require_path
from ensue.errors import ModelFolderError, SettingError, UnknownModelError
from ensue.lines import one_line
from ensue.schedule import Schedule
from ensue.settings import meanings, near, require_encoder, require_file, require_known
from ensue.store.folder import read_settings
from ensue.tasks import TASKS, named


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
    return TASKS[require_task(task)].module("catalogue")


def models(task: str) -> list[Model]:
    """Return the models of a task, in the order of its ``MODELS``.

    Raises:
        SettingError: an unknown task.
    """
    catalogue = catalogue_of(task)
    listed = []
    for name in catalogue.MODELS:
        description, paper = catalogue.ABOUT[name]
        listed.append(Model(task, name, description, paper, name in catalogue.BEST, name in catalogue.COUNTING))
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
    changes = best_changes(task) if model == "best" else {}
    settings_by_name: dict[str, Setting] = {}
    for group in _settings(task, model):
        for field in fields(group):
            default = changes.get(field.name, getattr(group, field.name))
            settings_by_name.setdefault(field.name, Setting(field.name, default, meanings(group).get(field.name, "")))
    return list(settings_by_name.values())


def best_changes(task: str, model: str | None = None) -> Mapping[str, object]:
    """Return the settings that ``best`` gives the models it trains in place of their defaults.

    Args:
        task: of the models.
        model: one model; nothing is changed if ``best`` does not train it.
    """
    best = catalogue_of(task).BEST
    return next((group for group in best if isinstance(group, dict) and (model is None or model in best)), {})


def _settings(task: str, *names: str) -> Iterator[Any]:
    """Yield the settings and the schedule of some models, each followed by what all models of the task share."""
    catalogue = catalogue_of(task)
    for name in names:
        model_names = (
            [model_name for model_name in catalogue.MODELS if model_name in catalogue.BEST]
            if name == "best"
            else [name]
        )
        for row in (catalogue.MODELS[model_name] for model_name in model_names):
            yield from (group for group in (row.settings, row.schedule, catalogue.SHARED) if group is not None)


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
    # `best` of link takes the settings of the network that is weighed among its scores.
    network = given.get("network") or ("sbert" if given.get("encoder") else "")
    names = [model, network] if model == "best" and network in rows else [model]
    require_known(given, {field.name for group in _settings(task, *names) for field in fields(group)})
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


GROUP = "ensue.models"
"""Entry points of installed packages, ``TASK.NAME`` each."""
VARIABLE = "ENSUE_MODELS"
"""Environment variable of ``FILE.py:CLASS``, separated by commas; the processes that learn for a service inherit it."""


class ModelRow(NamedTuple):
    """A model in a catalogue."""

    source: Any
    """Its class, or ``MODULE:CLASS``, which is imported when the model is made; empty where it has none."""
    settings: Any
    """Its default settings, a frozen dataclass; ``None`` where there is nothing to set."""
    schedule: Schedule | None
    """How it is trained; ``None``: it is counted."""

    @property
    def make(self) -> Any:
        """The class of the model."""
        return named(self.source) if isinstance(self.source, str) else self.source


_ADDED: dict[str, type[Any]] = {}


def add_model(model: type) -> str:
    """Make a class of your own a model or a pooling, for this process, under its name.

    Args:
        model: a model, which has ``SETTINGS``, a frozen dataclass or ``None``, and ``SCHEDULE``, a
            :class:`~ensue.schedule.Schedule` or ``None`` if it is a baseline; or a pooling, whose objects have a
            ``width``.

    Returns:
        The name of the class, by which ``make`` and ``load`` know it.

    Raises:
        SettingError: it is no class.

    Example:
        >>> from ensue import add_model
        >>> class Nothing:
        ...     SETTINGS = SCHEDULE = None
        >>> add_model(Nothing)
        'Nothing'
    """
    if not isinstance(model, type):
        raise SettingError(f"model is of type {type(model).__name__}; give a class")
    _ADDED[model.__name__] = model
    return model.__name__


def add_named(reference: str) -> str:
    """Add the class ``FILE.py:CLASS`` for this process and those it starts, and return its name.

    Any other name is returned as it is.

    Raises:
        SettingError: the file or the class is not there.
    """
    path, _, name = reference.rpartition(":")
    if not path.endswith(".py"):
        return reference
    _ADDED[name] = _class_in_file(Path(path), name)
    # Processes that learn for a service inherit the variable, and import the file again.
    references = [other for other in os.environ.get(VARIABLE, "").split(",") if other]
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*references, f"{Path(path).resolve()}:{name}"]))
    return name


def find_class(name: str) -> type | None:
    """Return the class of this name that was added or is listed in the environment variable."""
    for reference in os.environ.get(VARIABLE, "").split(","):
        if name and name not in _ADDED and reference.rpartition(":")[2] == name:
            add_named(reference)
    return _ADDED.get(name)


def find(task: str, name: str) -> ModelRow | None:
    """Return the model of this name of another author: added, listed in the environment, or of a package.

    Raises:
        SettingError: the class does not say how it is set or trained.
    """
    if (added := find_class(name)) is not None:
        return _row(added)
    point = next((point for point in offered(task) if point.name == f"{task}.{name}"), None)
    return None if point is None else _row(point.load())


def offered(task: str) -> list[Any]:
    """Entry points of installed packages for a task."""
    from importlib.metadata import entry_points  # takes longer than all the rest here

    return [point for point in entry_points(group=GROUP) if point.name.startswith(f"{task}.")]


def offered_names(task: str) -> list[str]:
    """Return the names of the models that installed packages offer for a task."""
    return [point.name.partition(".")[2] for point in offered(task)]


class Models(dict[str, ModelRow]):
    """The catalogue of a task; a name that is not in it may be of a model of one's own."""

    def __init__(self, task: str, rows: Mapping[str, tuple[str, Any, Schedule | None]]) -> None:
        package = f"ensue.tasks.{task}."
        super().__init__({name: ModelRow(source and package + source, *row) for name, (source, *row) in rows.items()})
        self.task = task

    def __missing__(self, name: str) -> ModelRow:
        if (row := find(self.task, name)) is None:
            raise KeyError(name)
        return row

    def require(self, name: str, *others: str) -> None:
        """Refuse what is neither a model nor one of ``others``.

        Raises:
            UnknownModelError: it is not.
        """
        if name not in others and name not in self:
            names = list(dict.fromkeys([*others, *self, *offered_names(self.task)]))
            message = f"model {name!r} is not known for task {self.task}; {near(name, names)}"
            raise UnknownModelError(f"{message}choose from {', '.join(names)}")

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and find(self.task, name) is not None)


def _class_in_file(path: Path, name: str) -> type:
    if not path.is_file():
        raise SettingError(f"{path}: there is no such file")
    module_name = f"ensue_own_{path.stem}"
    spec = spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[module_name] = module_from_spec(spec)  # dataclasses look for their module there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SettingError(f"{path}: cannot be imported ({type(error).__name__}: {error})") from error
    if not isinstance(model_class := getattr(module, name, None), type):
        raise SettingError(f"{path}: there is no class {name!r} in it")
    return model_class


def _row(model: type) -> ModelRow:
    settings, schedule = getattr(model, "SETTINGS", ...), getattr(model, "SCHEDULE", ...)
    if settings is ... or not (schedule is None or isinstance(schedule, Schedule)):
        raise SettingError(
            f"model {model.__name__!r}: give the class SETTINGS, a frozen dataclass of its defaults or None, and "
            "SCHEDULE, a Schedule or None"
        )
    return ModelRow(model, settings, schedule)
