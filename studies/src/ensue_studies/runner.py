"""Runner of every study: its plan, its request, cached runs, and the rows that all studies share."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from torch import Tensor, nn

from ensue.errors import DataError, SettingError
from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult
from ensue.store.folder import write_file
from ensue.training.report import Report
from ensue.version import __version__
from ensue_studies.page import Row, Rows, Tables, Values

P = TypeVar("P")
CachedRun = Row
Log = Callable[[str], None]
"""Takes one line of progress."""
Progress = Callable[[Iterable[Report]], None]
"""Runs a training loop to its end and shows its progress."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much a study trains and scores; the file of its paper holds the full plan and the quick one.

    Attributes:
        sets: names of data sets; all available ones if it is empty, or if none of them is available.
        models: models to train by data set, where the request names none; all models by default.
        options: settings of every training.
        options_of: more settings, by data set, by model, and by ``"data set/model"``; the last ones win.
        max_seeds: seeds at most, by data set or by model.
        train_size: training records at most, spread evenly over the file; all of them by default.
        test_size: test records at most.
        resamples: bootstrap resamples of the test data.
        details: what one study alone needs.
    """

    sets: Sequence[str] = ()
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    options: Values = field(default_factory=dict)
    options_of: Mapping[str, Values] = field(default_factory=dict)
    max_seeds: Mapping[str, int] = field(default_factory=dict)
    train_size: int | None = None
    test_size: int | None = None
    resamples: int = RESAMPLES
    details: Values = field(default_factory=dict)

    def settings(self, data: str, model: str) -> Row:
        """Return the settings of one model on one data set."""
        options = dict(self.options)
        for name in (data, model, f"{data}/{model}"):
            options |= self.options_of.get(name, {})
        return options

    def seeds(self, seeds: int, data: str, model: str) -> range:
        """Return the seeds of one model on one data set, of those that are requested."""
        return range(min(seeds, *(self.max_seeds.get(name, seeds) for name in (data, model))))


class CachedRuns:
    """Finished runs of a study, saved to one file as they finish, so that the same command continues.

    Args:
        path: file of the finished runs; ``None`` saves nothing, and logs that.
        log: takes one line of progress.
        progress: shows a training.

    Raises:
        DataError: the file holds something else.
    """

    def __init__(self, path: Path | None, log: Log, progress: Progress) -> None:
        self.path, self.log, self.progress = path, log, progress
        self.runs: dict[str, CachedRun] = {}
        if path is None:
            log("finished runs are not cached; with --json FILE the same command continues where it was stopped")
        elif path.exists():
            self.runs = _read_runs(path)

    def get(self, key: Values, make: Callable[[], CachedRun]) -> CachedRun:
        """Return the run of a key, which holds all that decides it; make and save it where it is missing."""
        name = json.dumps(key, sort_keys=True)
        if name not in self.runs:
            self.runs[name] = json.loads(json.dumps({"ensue": __version__, **make()}))  # as it is read again
            if self.path is not None:
                write_file(self.path, (json.dumps({"runs": self.runs}, indent=1) + "\n").encode())
        return self.runs[name]

    def train(
        self,
        key: Values,
        message: str,
        predictor: Callable[[], P],
        fit: Callable[[P], Iterable[Report]],
        measure: Callable[[P], CachedRun],
    ) -> CachedRun:
        """Return the measurements of a trained predictor, trained where they are missing.

        Args:
            key: all that decides them.
            message: logged before a training.
            predictor: makes it.
            fit: trains it.
            measure: returns what is saved.
        """

        def make() -> CachedRun:
            self.log(message)
            made = predictor()
            self.progress(fit(made))
            return measure(made)

        return self.get(key, make)

    def rows(self, key: Values, message: str, make_rows: Callable[[], Rows]) -> Rows:
        """Return rows that are made together, saved as one run."""

        def make() -> CachedRun:
            self.log(message)
            return {"rows": make_rows()}

        rows: Rows = self.get(key, make)["rows"]
        return rows


def _read_runs(path: Path) -> dict[str, CachedRun]:
    """Read the finished runs of a file.

    Raises:
        DataError: the file holds something else.
    """
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        runs = None
    if not isinstance(runs, dict):
        raise DataError(f"{path}: not a file of finished runs; delete it to start again")
    return runs


@dataclass(frozen=True, kw_only=True)
class Request:
    """Options of ``ensue reproduce``.

    Attributes:
        models: trained models that get a row; empty for those of the plan.
        quick: run the quick plan, which is too small to compare with the paper.
        seeds: seeds per model.
        log: takes one line of progress.
        progress: shows a training.
        cache: file of the finished runs.
    """

    models: Sequence[str]
    quick: bool
    seeds: int
    log: Log
    progress: Progress
    cache: Path | None = None

    def cached_runs(self) -> CachedRuns:
        """Return the finished runs."""
        return CachedRuns(self.cache, self.log, self.progress)


def require_models(models: Sequence[str], known: Collection[str], more: str = "") -> None:
    """Refuse a model that has no row in a study.

    Raises:
        SettingError: the first of them.
    """
    if unknown := [name for name in models if name not in known]:
        choices = f"choose from {', '.join(known)} (baselines are always included){more}"
        raise SettingError(f"model {unknown[0]!r} has no row in this study; {choices}")


def extend(tables: Tables, more: Tables) -> None:
    """Append the rows of one data set to those of the others."""
    for name, rows in more.items():
        tables.setdefault(name, []).extend(rows)


def metrics_of(result: BootstrapResult) -> Row:
    """Return metrics and their intervals, as a row stores them."""
    return {**result.by_name(), "interval": result.interval()}


def cost_of(runs: Sequence[CachedRun]) -> Row:
    """Return what the trainings of several seeds took: epochs of each, and mean CPU seconds per epoch."""
    return {"epochs": [run["epochs"] for run in runs], "epoch_seconds": mean_of(runs, "epoch_seconds", 2)}


def mean_of(runs: Sequence[CachedRun], name: str, digits: int) -> float:
    """Return the mean of a number over seeds."""
    return round(float(np.mean([run[name] for run in runs])), digits)


def paired_tests(
    data: str, results: Mapping[str, BootstrapResult], models: Iterable[str], metrics: Sequence[str]
) -> Rows:
    """Return the paired test of each of some models with every other row, on the same resamples."""
    return [
        {
            "data": data,
            "model": name,
            "other": other,
            "metric": metric,
            **results[name].against(results[other], metric),
        }
        for name in models
        if name in results
        for metric in metrics
        for other in results
        if other != name
    ]


def timed_steps(networks: Mapping[str, tuple[nn.Module, Callable[[], Tensor]]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each training step of each network.

    Networks take turns, so that other load on the machine affects all of them alike.

    Args:
        networks: by name, each with its loss on the same batch.
        repeats: turns, after one that is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in networks}
    for _ in range(repeats + 1):
        for name, (network, loss) in networks.items():
            start = time.perf_counter()
            network.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]
            times[name].append(time.perf_counter() - start)
    return {name: seconds[1:] for name, seconds in times.items()}


def step_cost(seconds: Sequence[float], reference: Sequence[float]) -> Row:
    """Return the median of some steps in milliseconds, and the median ratio to a reference in the same turns."""
    ratios = [step / other for step, other in zip(seconds, reference, strict=True)]
    return {"milliseconds": round(1e3 * statistics.median(seconds), 2), "ratio": round(statistics.median(ratios), 2)}
