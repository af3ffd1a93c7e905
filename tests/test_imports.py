"""The house's floors: a module imports from its own room and from the rooms below it, never from above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ensue.tasks import TASKS

SOURCE = Path(__file__).parents[1] / "src" / "ensue"

# From the ground up. A new room gets one line here.
FLOORS = [
    "errors",
    "version",
    "lazy",
    "forks",
    "lines",
    "settings",
    "schedule",
    "significance",
    "records",
    "arguments",
    "answers",
    "predictions",
    "experiments",
    "vocabulary",
    "kernels",
    "topk",
    "data",
    "nn",
    "store",
    "training",
    "metrics",
    "text",
    "learning",
    "tasks",
    "registry",
    "tasks.next",
    "tasks.suggest",
    "tasks.classify",
    "tasks.link",
    "client",
    "hub",
    "predictor",
    "export",
    "evaluation",
    "tuning",
    "refresh",
    "stream",
    "figures",
    "demo",
    "serve",
    "cli",
    "callbacks",
    "estimator",
    "api",
    "model_selection",
    "__init__",
    "__main__",
]


def room_of(parts: Sequence[str]) -> str:
    """``tasks.next`` of ``["tasks", "next", "hidan"]``, ``data`` of ``["data", "tables"]``."""
    names = [".".join(parts[:2]), parts[0]]
    return next((name for name in names if name in FLOORS), "__init__")


def imported_rooms(source: str, package: str) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of ensue in a module of ``package``, those inside functions and ``if`` included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *filter(None, [node.module])])
            names = [f"{origin}.{alias.name}" for alias in node.names] if origin == "ensue" else [origin]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "ensue":
                yield node.lineno, room_of(rest.split("."))


def back_edges(source: Path) -> list[str]:
    """Every import that climbs, as ``file:line: room imports room``."""
    found = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        room = room_of(inside.with_suffix("").parts)
        package = ".".join(["ensue", *inside.parts[:-1]])
        found += [
            f"{inside.as_posix()}:{line}: {room} imports {target}"
            for line, target in imported_rooms(path.read_text(encoding="utf-8"), package)
            if FLOORS.index(target) > FLOORS.index(room)
        ]
    return found


def rooms_on_disk(source: Path) -> set[str]:
    """The top-level modules and packages that hold any code."""
    return {path.relative_to(source).parts[0].removesuffix(".py") for path in source.rglob("*.py")}


def test_every_room_is_in_the_list_once() -> None:
    assert len(set(FLOORS)) == len(FLOORS)
    assert rooms_on_disk(SOURCE) <= set(FLOORS), "give the new room its floor in FLOORS"
    assert {"errors", "records", "data", "__init__"} <= rooms_on_disk(SOURCE)


def test_no_module_imports_from_above() -> None:
    assert back_edges(SOURCE) == []


def test_only_the_command_reproduce_imports_the_studies() -> None:
    text = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    importers = [path for path, source in text.items() if "ensue_studies" in source]
    assert importers == [SOURCE / "cli" / "reproduce.py"]


@pytest.mark.parametrize(
    ("file", "line", "edge"),
    [
        ("records.py", "import ensue.cli", "records imports cli"),
        ("records.py", "from ensue.data.histories import Histories", "records imports data"),
        ("data/tables.py", "from ensue.nn import attention", "data imports nn"),
        ("data/tables.py", "from ensue import figures", "data imports figures"),
        ("data/tables.py", "from ensue import History", "data imports __init__"),
        ("data/tables.py", "import ensue", "data imports __init__"),
        ("data/tables.py", "from ..nn import attention", "data imports nn"),
        ("data/tables.py", "from .. import nn", "data imports nn"),
        ("data/tables.py", "def read() -> None:\n    from ensue.training.loop import fit", "data imports training"),
        ("data/deep/far.py", "from ...cli import main", "data imports cli"),
    ],
)
def test_the_walk_catches_a_planted_back_edge(tmp_path: Path, file: str, line: str, edge: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(f"{line}\n")
    (found,) = back_edges(tmp_path)
    assert found == f"{file}:{1 + line.count(chr(10))}: {edge}"


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("data/tables.py", "from ensue.records import History\nfrom ensue import errors"),
        ("data/tables.py", "from .histories import Histories\nfrom . import splits\nfrom ensue.data import check"),
        ("data/tables.py", "import numpy\nfrom ensuelike.cli import main"),
        ("__init__.py", "from ensue.cli import main"),
    ],
)
def test_the_walk_lets_honest_imports_pass(tmp_path: Path, file: str, line: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(f"{line}\n")
    assert back_edges(tmp_path) == []


def test_reading_and_checking_data_imports_no_torch() -> None:
    paths = sorted((SOURCE / "data").rglob("*.py"))
    names = [".".join(["ensue", *path.relative_to(SOURCE).with_suffix("").parts]) for path in paths]
    assert "ensue.data.histories" in names
    names += [f"ensue.tasks.{task}.{module}" for task in TASKS for module in ("check", "catalogue")]
    code = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(name + " imports torch")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
