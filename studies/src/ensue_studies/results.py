"""Results of studies: tables, the page that shows them, where they come from, and the files they are written to."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import torch

from ensue import figures
from ensue.store.folder import write_file
from ensue.version import __version__
from ensue_studies.latex import to_latex
from ensue_studies.page import Row, Tables

_LINE_DEPTH = 2  # mappings above this depth have one line per value; rows are below it
_MIN_DIGITS = 4
_MAX_DIGITS = 17


@dataclass(frozen=True, slots=True)
class Study:
    """Result of a study: tables as rows of plain values, the page that shows them, and its plots."""

    paper: str
    tables: Tables
    page: str
    plots: tuple[go.Figure, ...] = ()

    def to_latex(self) -> str:
        """Return the tables of the page that rebuild the paper's, for LaTeX."""
        return to_latex(self.page)

    def write(self, path: Path) -> None:
        """Write ``{"paper", "command", "commit", "machine", "tables"}`` as JSON.

        The page is written next to it as Markdown, its tables for LaTeX, and the plots as HTML.
        """
        write_result(path, {"paper": self.paper, **provenance(), "tables": self.tables})
        write_file(path.with_suffix(".md"), self.page.encode())
        if tables := self.to_latex():
            write_file(path.with_suffix(".tex"), tables.encode())
        if self.plots:
            figures.write_html(self.plots[0], path.with_suffix(".html"), *self.plots[1:])


def provenance() -> Row:
    """Return command, commit (with ``+`` where files differ from it) and machine; of outside paths, only the name."""
    words = [re.sub(r"(^|[=,])(?:/|~|\.\.)(?:[^,=]*/)?", r"\1", word) for word in sys.argv]
    return {"command": " ".join(words), "commit": _commit(), "machine": _machine()}


def _commit() -> str:
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"ensue {__version__}"


def _machine() -> str:
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    return f"{os.cpu_count()} cores{gpu}, {system}"


def write_result(path: Path, result: Mapping[str, object]) -> None:
    """Write a result as JSON that can be compared line by line: one line per row, with the digits that pages show."""
    write_file(path, (_text(_rounded(result), 0) + "\n").encode())


def _rounded(value: object) -> object:
    """Return floats with the fewest digits that show the same on a page, as does half the width of an interval."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        if len(value) == 2 and all(isinstance(end, float) for end in value):
            return _shortest(*value)
        return [_rounded(item) for item in value]
    return _shortest(value)[0] if isinstance(value, float) and not value.is_integer() else value


def _shortest(*values: float) -> list[float]:
    for digits in range(_MIN_DIGITS + 1 - len(values), _MAX_DIGITS):  # pages show only the width of an interval
        short = [float(f"{value:.{digits}g}") for value in values]
        if _shown(short) == _shown(values):
            return short
    return list(values)


def _shown(values: list[float] | tuple[float, ...]) -> list[str]:
    """Return how pages write the values: plain and in percent; of two ends also half the width."""
    numbers = [*values, *(100 * value for value in values)]
    if len(values) == 2:
        numbers.append(50 * (values[1] - values[0]))
    return [f"{number:.{digits}f}" for number in numbers for digits in range(3)] + [f"{end:.3f}" for end in values]


def _text(value: object, depth: int) -> str:
    indent, end = "\n" + " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, Mapping) and value and depth < _LINE_DEPTH:
        lines = (f"{indent}{json.dumps(name)}: {_text(item, depth + 1)}" for name, item in value.items())
        return "{" + ",".join(lines) + end + "}"
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return "[\n" + ",\n".join(map(_line, value)) + end + "]"
    return _line(value)


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
