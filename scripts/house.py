"""Figures of the house, and the bounds they keep: circles of files, types that say nothing, branches on a task's name.

    scripts/house [--json]

The exit code is 1 where a figure is above its bound. A bound is lowered with the change that makes room for it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

SOURCE = Path(__file__).parents[1] / "src" / "ensue"
BOUNDS = {
    "circles": 0,
    "Any": 200,
    "hooks by hasattr": 0,
    "look-ups of facts": 0,
    "files that branch on a task": 1,
    "late imports": 48,
    "files above 600 lines": 0,
    "lines of code": 44_794,
}
TASK = r"""["'](?:next|classify|suggest|link)["']"""
BRANCH = re.compile(rf"{TASK}\s*[:\]]|==\s*{TASK}")


def module_of(path: Path) -> str:
    """``ensue.data.table`` of its file, ``ensue.data`` of its ``__init__.py``."""
    names = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def imports(tree: ast.Module, modules: dict[str, int]) -> Iterator[tuple[str, bool]]:
    """(module of ours, whether inside a function) of every absolute import; ours has no other."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            for module in (name, name.rpartition(".")[0]):  # a module, or what a module holds
                if module in modules:
                    yield module, id(node) in inside
                    break


def parents(module: str) -> list[str]:
    """``ensue.data.queries`` and ``ensue.data`` of ``ensue.data.queries.rules``."""
    names = module.split(".")
    return [".".join(names[:size]) for size in range(len(names) - 1, 1, -1)]


def circles(trees: dict[str, ast.Module], numbers: dict[str, int]) -> list[list[str]]:
    """Groups of modules that import each other, at any depth and at any time; a package is imported before its modules.

    ``data.personal`` that imports ``data.queries.rules`` imports ``data.queries`` too, and all that it imports.
    """
    edges = []
    for name, tree in trees.items():
        for other, late in imports(tree, numbers):
            packages = () if late else (package for package in parents(other) if package not in parents(name))
            edges += [(numbers[name], numbers[result]) for result in (other, *packages) if result != name]
    rows, columns = np.array(edges).T
    graph = coo_array((np.ones(len(edges)), (rows, columns)), shape=(len(trees), len(trees)))
    labels = connected_components(graph, connection="strong")[1]
    groups = [[name for name in trees if labels[numbers[name]] == label] for label in np.unique(labels)]
    return [group for group in groups if len(group) > 1]


def lines_of_code(text: str, tree: ast.Module) -> int:
    """Lines that do something: no docstring, comment, import or empty line."""
    silent = {number for number, line in enumerate(text.splitlines(), 1) if not line.strip() or line.lstrip()[0] == "#"}
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Import() | ast.ImportFrom():
                silent |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return text.count("\n") - len(silent)


def measure() -> tuple[dict[str, int], dict[str, object]]:
    """The figures that have a bound, and what stands behind them."""
    files = sorted(SOURCE.rglob("*.py"))
    texts = {module_of(path): path.read_text(encoding="utf-8") for path in files}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    numbers = {name: number for number, name in enumerate(trees)}
    cycles = circles(trees, numbers)
    lines = {name: text.count("\n") for name, text in texts.items()}
    rooms = Counter[str]()
    for path, count in zip(files, lines.values(), strict=True):
        names = path.relative_to(SOURCE).with_suffix("").parts
        rooms["/".join(names[: 2 if names[0] == "tasks" else 1][: max(1, len(names) - 1)])] += count

    def total(pattern: str) -> int:
        return sum(len(re.findall(pattern, text, re.MULTILINE)) for text in texts.values())

    branching = [name for name, text in texts.items() if BRANCH.search(text)]
    figures = {
        "circles": len(cycles),
        "Any": total(r"\bAny\b") - total(r"import.*\bAny\b"),
        "hooks by hasattr": total(r"hasattr\("),
        "look-ups of facts": total(r"""facts(?:\[|\.get\()["']"""),
        "files that branch on a task": len(branching),
        "late imports": sum(late for tree in trees.values() for _, late in imports(tree, numbers)),
        "files above 600 lines": sum(count > 600 for count in lines.values()),
        "lines of code": sum(lines_of_code(text, trees[name]) for name, text in texts.items()),
    }
    return figures, {"circles": cycles, "branching": branching, "lines of rooms": dict(rooms.most_common())}


def main() -> None:
    """Print, and fail above a bound."""
    figures, behind = measure()
    if "--json" in sys.argv:
        print(json.dumps({"figures": figures, "bounds": BOUNDS, **behind}, indent=1))
    else:
        for name, figure in figures.items():
            print(f"{name:30} {figure:7,} of {BOUNDS[name]:,}")
        for group in behind["circles"] if isinstance(behind["circles"], list) else ():
            print(f"circle: {' <-> '.join(group)}")
    sys.exit(any(figure > BOUNDS[name] for name, figure in figures.items()))


if __name__ == "__main__":
    main()
