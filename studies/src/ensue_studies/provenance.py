"""Where a figure comes from: the command, the commit and the machine stand in every file of results."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import torch

from ensue import figures
from ensue.store.folder import write_file
from ensue.training.report import Report
from ensue.version import __version__
from ensue_studies.latex import to_latex
from ensue_studies.result_file import write_result
from ensue_studies.rows import Row, Tables

Log = Callable[[str], None]
"""Takes a line for the person who waits."""
Progress = Callable[[Iterable[Report]], None]
"""Runs a training loop to its end, showing where it stands."""


def provenance() -> Row:
    """Command, commit (with ``+`` where files differ from it) and machine; of paths outside, the name alone."""
    words = [re.sub(r"(^|[=,])(?:/|~|\.\.)(?:[^,=]*/)?", r"\1", word) for word in sys.argv]
    return {"command": " ".join(words), "commit": _commit(), "machine": _machine()}


def _commit() -> str:
    here = Path(__file__).parent
    try:
        run = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"ensue {__version__}"


def _machine() -> str:
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    return f"{os.cpu_count()} cores{gpu}, {system}"


@dataclass(frozen=True, slots=True)
class Study:
    """The outcome of a study: tables as rows of plain values, the page that shows them, and its figures."""

    paper: str
    tables: Tables
    page: str
    drawn: tuple[go.Figure, ...] = ()

    def to_latex(self) -> str:
        """The tables of the page that rebuild the paper's, for LaTeX; see :func:`ensue_studies.latex.to_latex`."""
        return to_latex(self.page)

    def write(self, path: Path) -> None:
        """Write ``{"paper", "command", "commit", "machine", "tables"}`` as JSON, and beside it the page as Markdown.

        The page's tables for LaTeX stand there too, and what was drawn as a page of HTML.
        """
        write_result(path, {"paper": self.paper, **provenance(), "tables": self.tables})
        write_file(path.with_suffix(".md"), self.page.encode())
        if tables := self.to_latex():
            write_file(path.with_suffix(".tex"), tables.encode())
        if self.drawn:
            figures.write_html(self.drawn[0], path.with_suffix(".html"), *self.drawn[1:])
