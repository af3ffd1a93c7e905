"""What there is to choose from, found without importing it: the tasks, the models of each, the task of a folder.

The ``MODELS`` of a catalogue and the literals beside it are the registry. To import them takes torch, so they are read
from the source: who asks for a list, or names what is not there, has the answer at once.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ensue.arguments import require_path
from ensue.errors import ModelFolderError, SettingError
from ensue.lines import one_line
from ensue.settings import meanings, near, require_encoder, require_file, require_known
from ensue.store.folder import read_settings
from ensue.tasks import TASKS
from ensue.tasks.own import add_named, find, offered, unknown


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
        first = "; give the task first, then the file" if isinstance(task, str) and Path(task).is_file() else ""
        hint = near(task, TASKS)
        raise SettingError(f"task {task!r} is not known; {hint}choose from {', '.join(TASKS)}{first}")
    return task


def models(task: str) -> list[Model]:
    """The models of a task, in the order of its ``MODELS``.

    Raises:
        SettingError: an unknown task.
    """
    found = _assigned(TASKS[require_task(task)].catalogue)
    about: dict[str, tuple[str, str]] = ast.literal_eval(found["ABOUT"])
    counting, best = ast.literal_eval(found["COUNTING"]), ast.literal_eval(found["BEST"])
    own = [Model(task, name, *about[name], name in best, name in counting) for name in _keys(_models(found))]
    others = (point.name.partition(".")[2] for point in offered(task))
    return [*own, *(Model(task, name, "of an installed package", "", False, False) for name in others)]


def names_of(task: str) -> list[str]:
    """What ``--model`` takes for a task, ``best`` first.

    Raises:
        SettingError: an unknown task.
    """
    return list(dict.fromkeys(["best", *(one.name for one in models(task))]))


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a model, as ``ensue settings`` lists it."""

    name: str
    default: object
    meaning: str


def settings_of(task: str, model: str) -> list[Setting]:
    """The settings of a model and of its training, by name; of ``best``, of all that it chooses from.

    The package of the task is imported, and so is torch.

    Raises:
        SettingError: an unknown task or model.
    """
    require_model(task, model)
    package = import_module(TASKS[task].catalogue)
    chosen, changes = [model], {}
    if model == "best":
        chosen = [one.name for one in models(task) if one.default]
        changes = next((one for one in package.BEST if isinstance(one, dict)), {})
    found: dict[str, Setting] = {}
    for name in chosen:
        for part in (*package.MODELS[name][1:], package.SHARED):
            for field in fields(part) if is_dataclass(part) else ():
                default = changes.get(field.name, getattr(part, field.name))
                found.setdefault(field.name, Setting(field.name, default, meanings(part).get(field.name, "")))
    return list(found.values())


def require_model(task: str, model: str) -> str:
    """The name of a model of the task; of ``FILE.py:CLASS``, which becomes one, the name of the class.

    Raises:
        SettingError: an unknown task or model.
    """
    model = add_named(model)
    if model not in (names := names_of(task)) and find(task, model) is None:
        raise unknown(task, model, names)
    return model


def require_settings(task: str, model: str, given: Mapping[str, str]) -> None:
    """Refuse settings by name that the model does not have, and those that name what is not there.

    Raises:
        SettingError: an unknown name, a file of vectors or a sentence encoder that is not there.
    """
    catalogue, listed = TASKS[require_task(task)].catalogue, models(task)
    rows, known = _rows(catalogue), _fields(catalogue, _maker(_assigned(catalogue)["SHARED"]))
    names = [one.name for one in listed if one.default] if model == "best" else [model]
    learned = given.get("learned") or ("sbert" if given.get("encoder") else "")
    for name in [*names, *(one.name for one in listed if model == "best" and one.name == learned)]:
        if name in rows:
            settings, schedule = rows[name]
            known |= _fields(catalogue, settings) | _fields("ensue.schedule", schedule and "Schedule")
        elif (row := find(task, name)) is not None:
            known |= {field.name for part in row[1:] if part is not None for field in fields(part)}
    require_known(given, known)
    require_file("vectors", given.get("vectors"))
    if (encoder := given.get("encoder")) and encoder not in {one.name for one in listed}:
        require_encoder(encoder)


def task_of(folder: str | Path) -> str:
    """The task of a model folder.

    Raises:
        ModelFolderError: it is half, foreign, or of a newer ensue.
    """
    task = read_settings(require_path(folder, "folder"))["task"]
    if not isinstance(task, str) or task not in TASKS:
        raise ModelFolderError(f"{folder}: task {one_line(repr(task))} is not known to this version; update ensue")
    return task


def _models(assigned: Mapping[str, ast.expr]) -> ast.Dict:
    """The rows of a catalogue: a dictionary, or ``Models`` of one."""
    found = assigned["MODELS"]
    literal = found.args[-1] if isinstance(found, ast.Call) else found
    assert isinstance(literal, ast.Dict)
    return literal


def _rows(catalogue: str) -> dict[str, tuple[str, str]]:
    """What makes the settings and the schedule of each model; empty where it has none."""
    literal = _models(_assigned(catalogue))
    rows = (row.elts for row in literal.values if isinstance(row, ast.Tuple))
    return {name: (_maker(row[1]), _maker(row[2])) for name, row in zip(_keys(literal), rows, strict=True)}


def _maker(made: ast.expr) -> str:
    """The class that a call is of, or else what stands there; empty for ``None``."""
    found = ast.unparse(made.func if isinstance(made, ast.Call) else made)
    return "" if found == "None" else found


def _fields(module: str, name: str) -> set[str]:
    """The fields of a dataclass that a module has or imports, those of its bases included; none of the empty name."""
    if not name:
        return set()
    body = _source(module)
    places = {
        alias.name: node.module
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    if name in places:
        return _fields(places[name], name)
    (found,) = (node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    names = (node.target for node in found.body if isinstance(node, ast.AnnAssign))
    own = {target.id for target in names if isinstance(target, ast.Name)}
    return own.union(*(_fields(module, ast.unparse(base)) for base in found.bases))


def _keys(literal: ast.expr) -> list[str]:
    """The keys of a dictionary's literal."""
    assert isinstance(literal, ast.Dict)
    return [str(ast.literal_eval(key)) for key in literal.keys if key is not None]


def _assigned(module: str) -> dict[str, ast.expr]:
    """What a module assigns to names."""
    found: dict[str, ast.expr] = {}
    for node in _source(module):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
    return found


def _source(module: str) -> list[ast.stmt]:
    """What a module, or a package's own file, says."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
