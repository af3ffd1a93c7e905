"""The frame of every study: which rows are asked, trainings kept as they finish, tables that grow by data set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from ensue.errors import SettingError
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.training.report import Report
from ensue_studies.cached_runs import CachedRun, CachedRuns
from ensue_studies.provenance import Log, Progress
from ensue_studies.rows import Row, Rows, Tables, Values

P = TypeVar("P")


class Trainings:
    """The trainings of a study, each kept as it finishes.

    Args:
        kept: where finished cells are kept; ``None`` keeps nothing, and says so.
        log: takes a line of progress.
        progress: shows a training.

    Raises:
        DataError: the file of cells is something else.
    """

    def __init__(self, kept: Path | None, log: Log, progress: Progress) -> None:
        self.cells, self.log, self.progress = CachedRuns(kept), log, progress
        if kept is None:
            log("finished cells are not kept; with --json FILE the same command goes on where it was stopped")

    def get(
        self,
        key: Values,
        said: str,
        predictor: Callable[[], P],
        fit: Callable[[P], Iterable[Report]],
        measured: Callable[[P], CachedRun],
    ) -> CachedRun:
        """What was measured of a trained predictor; trained, with a line for the person who waits, where it is missing.

        Args:
            key: all that decides it, but the program's version, which stands in the cell.
            said: the line.
            predictor: makes it.
            fit: trains it.
            measured: what is kept of it.
        """

        def make() -> CachedRun:
            self.log(said)
            made = predictor()
            self.progress(fit(made))
            return measured(made)

        return self.cells.get(key, make)

    def rows(self, key: Values, said: str, make_rows: Callable[[], Rows]) -> Rows:
        """Rows that are made at once, kept as one cell."""

        def make() -> CachedRun:
            self.log(said)
            return {"rows": make_rows()}

        found: Rows = self.cells.get(key, make)["rows"]
        return found


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asks of a study.

    Args:
        models: which trained models get a row; none for those of the study's plan.
        quick: fewer of everything; not the paper's figures.
        seeds: trainings a model, of those that the study judges.
        log: takes a line of progress.
        progress: shows a training.
        kept: where finished cells are kept.
    """

    models: Sequence[str]
    quick: bool
    seeds: int
    log: Log
    progress: Progress
    kept: Path | None = None

    def trainings(self) -> Trainings:
        """Those that are finished, and the way to more."""
        return Trainings(self.kept, self.log, self.progress)


def require_rows(models: Sequence[str], known: Collection[str], more: str = "") -> None:
    """Refuse a model that has no row.

    Raises:
        SettingError: the first of them.
    """
    if unknown := [name for name in models if name not in known]:
        listed = f"choose from {', '.join(known)} (counting rows are always there){more}"
        raise SettingError(f"model {unknown[0]!r} has no row here; {listed}")


def add(tables: Tables, found: Tables) -> None:
    """Put the rows of one data set below those of the others."""
    for name, rows in found.items():
        tables[name] += rows


def means(found: BootstrapResult) -> Row:
    """Figures and their intervals, as a row holds them."""
    return {**found.by_name(), "interval": found.interval()}


def spent(cells: Sequence[CachedRun]) -> Row:
    """What some seeds' trainings took: epochs of each, and CPU seconds an epoch."""
    return {"epochs": [cell["epochs"] for cell in cells], "seconds_an_epoch": mean_of(cells, "seconds_an_epoch", 2)}


def mean_of(cells: Sequence[CachedRun], name: str, digits: int) -> float:
    """The mean of a number over seeds."""
    return round(float(np.mean([cell[name] for cell in cells])), digits)


def verdicts(data: str, found: Mapping[str, BootstrapResult], names: Iterable[str], measures: Iterable[str]) -> Rows:
    """Some models against every other row, on the same draws."""
    judged = [(name, measure) for name in names if name in found for measure in measures]
    return [
        {"data": data, "model": name, "other": other, "measure": measure, **found[name].against(found[other], measure)}
        for name, measure in judged
        for other in found
        if other != name
    ]
