"""Studies of papers, rebuilt by ``ensue reproduce PAPER``, and our own study, ``anywhere``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ensue.errors import SettingError

if TYPE_CHECKING:
    from ensue_studies.results import Study
    from ensue_studies.runner import Request

PAPERS = ("ast", "centrality", "hidan", "mtn", "sansr", "anywhere")
"""Names of the studies: each is a module of this package with a function ``run``."""


def require_paper(paper: str) -> str:
    """Return the name of a study.

    Raises:
        SettingError: unknown name.
    """
    if paper not in PAPERS:
        raise SettingError(f"paper {paper!r} is not known; choose from {', '.join(PAPERS)}")
    return paper


def reproduce(paper: str, data: Path, request: Request) -> Study:
    """Run a study on the data sets of a folder.

    Raises:
        SettingError: unknown study, or a model that has no row in it.
        DataError: no data set of the study is in the folder.
    """
    study: Study = import_module(f"ensue_studies.{require_paper(paper)}").run(data, request)
    return study
