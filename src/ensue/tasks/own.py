"""Models and poolings from outside: a class in a file of the user's, or in an installed package.

A class is a model of a task if it is made and called as those of the task are (``ensue.tasks.next.model``,
``ensue.tasks.classify.model``) and says how it is set and trained:

    class Latest(nn.Module):
        "The latest value again."

        SETTINGS = LatestSettings()
        SCHEDULE = Schedule(epochs=5)

It is a pooling of ``classify`` if it is made of the width of the words and called with their vectors and a mask, as
those of :mod:`ensue.nn.pooling` are, and has a ``width``.

A class is named by its file, ``--model ./mine.py:Latest`` or ``--set pooling=./mine.py:GatedMean``, or given to
:func:`add_model`; a package offers a model as an entry point ``next.latest`` of the group ``ensue.models``. A folder
alone never makes code run: it holds the name of the class, and whoever loads it names the file again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from ensue.errors import SettingError, UnknownModelError
from ensue.schedule import Schedule
from ensue.settings import near
from ensue.tasks.base import named

GROUP = "ensue.models"
"""Entry points of installed packages, ``TASK.NAME`` each."""
VARIABLE = "ENSUE_MODELS"
"""Environment variable of ``FILE.py:CLASS``, separated by commas; the processes that learn for a service inherit it."""


class Row(NamedTuple):
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
    _ADDED[name] = _of_file(Path(path), name)
    known = [other for other in os.environ.get(VARIABLE, "").split(",") if other]
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*known, f"{Path(path).resolve()}:{name}"]))
    return name


def find_class(name: str) -> type | None:
    """Return the class of this name that was added or is named in the environment."""
    for reference in os.environ.get(VARIABLE, "").split(","):
        if name and name not in _ADDED and reference.rpartition(":")[2] == name:
            add_named(reference)
    return _ADDED.get(name)


def find(task: str, name: str) -> Row | None:
    """Return the model of this name that is none of ensue's: added, named in the environment, or in a package.

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


class Models(dict[str, Row]):
    """The catalogue of a task; a name that is not in it may be of a model of one's own."""

    def __init__(self, task: str, rows: Mapping[str, tuple[str, Any, Schedule | None]]) -> None:
        package = f"ensue.tasks.{task}."
        super().__init__({name: Row(source and package + source, *row) for name, (source, *row) in rows.items()})
        self.task = task

    def __missing__(self, name: str) -> Row:
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


def _of_file(path: Path, name: str) -> type:
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
    if not isinstance(found := getattr(module, name, None), type):
        raise SettingError(f"{path}: there is no class {name!r} in it")
    return found


def _row(model: type) -> Row:
    settings, schedule = getattr(model, "SETTINGS", ...), getattr(model, "SCHEDULE", ...)
    if settings is ... or not (schedule is None or isinstance(schedule, Schedule)):
        raise SettingError(
            f"model {model.__name__!r}: give the class SETTINGS, a frozen dataclass of its defaults or None, and "
            "SCHEDULE, a Schedule or None"
        )
    return Row(model, settings, schedule)
