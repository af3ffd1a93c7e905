"""Callbacks of ``fit``: functions that get each report of a training.

A function of a :class:`~ensue.training.report.Report` is a callback. A report whose ``valid`` is set closes an epoch;
``report.stop()`` ends the training after it. A callback with a method ``finish`` (:class:`FinishingCallback`) also gets
the settings and the final metrics once the model is trained; of a baseline, which has no epochs, that is all.

    >>> from ensue import NextEvent
    >>> from ensue.callbacks import JSONLines
    >>> NextEvent("sansr", dim=16, epochs=2).fit("clicks.csv", callbacks=[JSONLines("training.jsonl")])
    NextEvent('sansr', dim=16, epochs=2)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ensue.cli import display
from ensue.errors import SettingError
from ensue.training.report import Report

Callback: TypeAlias = Callable[[Report], object]
"""Gets each report; what it returns is ignored, and what it raises ends the training."""
Summary: TypeAlias = Mapping[str, Any]
"""Task, model, settings, schedule, seed and facts of a trained model, as in ``settings.json`` of its folder."""


@runtime_checkable
class FinishingCallback(Protocol):
    """A callback that is also called once at the end of the training."""

    def finish(self, summary: Summary) -> None:
        """Take the settings and the final metrics of the trained model."""


class EarlyStop:
    """End the training when the monitored metric stops improving, or when the time is up; the best epoch is kept.

    The models stop early by themselves (settings ``patience`` and ``epochs``); this is a second, tighter bound.

    Args:
        patience: epochs without a better monitored metric. [default: no bound]
        seconds: duration after which no further epoch is started. [default: no bound]

    Raises:
        SettingError: neither is set, or a bound is not positive.

    Example:
        >>> from ensue import NextEvent
        >>> from ensue.callbacks import EarlyStop
        >>> NextEvent("sansr", dim=16, epochs=5).fit("clicks.csv", callbacks=[EarlyStop(patience=1, seconds=600)])
        NextEvent('sansr', dim=16, epochs=5)
    """

    def __init__(self, patience: int | None = None, seconds: float | None = None) -> None:
        if patience is None and seconds is None:
            raise SettingError("EarlyStop has no bound; give patience=3 (epochs) or seconds=600")
        for name, bound in (("patience", patience), ("seconds", seconds)):
            if bound is not None and not bound > 0:
                raise SettingError(f"{name} is {bound!r}; it must be above 0")
        self.patience = patience
        self.seconds = seconds
        self._best: float | None = None
        self._epochs_without_gain = 0

    def __call__(self, report: Report) -> None:
        """Request the end of the training where a bound is reached."""
        if report.note or report.valid is None:
            return
        self._epochs_without_gain = 0 if report.best != self._best else self._epochs_without_gain + 1
        self._best = report.best
        is_late = self.seconds is not None and report.seconds >= self.seconds
        if is_late or (self.patience is not None and self._epochs_without_gain >= self.patience):
            report.stop()


class JSONLines:
    """Write each report as one line of JSON; an existing file is continued.

    Args:
        path: the file.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from ensue import NextEvent
        >>> from ensue.callbacks import JSONLines
        >>> model = NextEvent("sansr", dim=8, epochs=1).fit("clicks.csv", callbacks=[JSONLines("training.jsonl")])
        >>> json.loads(Path("training.jsonl").read_text().splitlines()[0])["stage"]
        'fit'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __call__(self, report: Report) -> None:
        """Append one line."""
        values = {field.name: getattr(report, field.name) for field in fields(report) if field.name != "stop"}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


class TensorBoard:
    """Write losses, monitored metrics, settings and final metrics for TensorBoard (extra ``tensorboard``).

    Args:
        folder: the log directory.

    Raises:
        SettingError: TensorBoard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        self.writer = _library("torch.utils.tensorboard", "TensorBoard", "tensorboard").SummaryWriter(str(folder))

    def __call__(self, report: Report) -> None:
        """Write the scalars of a report."""
        for name, value in scalars(report).items():
            self.writer.add_scalar(name, value, report.epoch)
        self.writer.flush()

    def finish(self, summary: Summary) -> None:
        """Write the settings as text and the final metrics as scalars."""
        self.writer.add_text("settings", json.dumps(parameters(summary), indent=1, default=str))
        for name, value in final_metrics(summary).items():
            self.writer.add_scalar(name, value)
        self.writer.close()


class MLflow:
    """Log losses, monitored metrics, settings and final metrics to the active run of MLflow (extra ``mlflow``).

    Raises:
        SettingError: MLflow is not installed.
    """

    def __init__(self) -> None:
        self.client = _library("mlflow", "MLflow", "mlflow")

    def __call__(self, report: Report) -> None:
        """Log the metrics of a report."""
        if metrics := scalars(report):
            self.client.log_metrics(metrics, step=report.epoch)

    def finish(self, summary: Summary) -> None:
        """Log the settings as parameters, and the final metrics."""
        self.client.log_params(parameters(summary))
        self.client.log_metrics(final_metrics(summary))


class WandB:
    """Log losses, monitored metrics, settings and final metrics to a run of Weights & Biases (extra ``wandb``).

    Args:
        options: keywords of ``wandb.init``, such as ``project="clicks", mode="offline"``.

    Raises:
        SettingError: Weights & Biases is not installed.
    """

    def __init__(self, **options: object) -> None:
        self.run = _library("wandb", "Weights & Biases", "wandb").init(**options)

    def __call__(self, report: Report) -> None:
        """Log the metrics of a report, with its epoch."""
        if metrics := scalars(report):
            self.run.log({**metrics, f"{report.stage}/epoch": report.epoch})

    def finish(self, summary: Summary) -> None:
        """Set the settings and the final metrics of the run, and end it."""
        self.run.config.update(parameters(summary))
        self.run.summary.update(final_metrics(summary))
        self.run.finish()


def _library(module: str, name: str, package: str) -> ModuleType:
    """Return an optional library."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise SettingError(f"{name} is not installed; pip install {package}") from error


def parameters(summary: Summary) -> dict[str, object]:
    """Return task, model, seed and all settings of a trained model by name."""
    named = {name: summary[name] for name in ("task", "model", "seed")}
    return {**named, **summary["settings"], **(summary["schedule"] or {})}


def final_metrics(summary: Summary) -> dict[str, float]:
    """Return the metrics on held-out data and the number of epochs of a trained model by name.

    ``{"validation_accuracy": {"tfidf": 0.9}}`` becomes ``{"validation_accuracy/tfidf": 0.9}``.
    """
    facts = summary["facts"]
    metrics: dict[str, float] = {}
    for name in (name for name in facts if name.startswith("validation") or name == "epochs"):
        values = facts[name] if isinstance(facts[name], Mapping) else {"": facts[name]}
        for key, value in values.items():
            if isinstance(value, int | float):
                metrics[f"{name}/{key}".rstrip("/")] = float(value)
    return metrics


def scalars(report: Report) -> dict[str, float]:
    """Return the loss and the monitored metric of a report that closes an epoch, by name; else nothing."""
    if report.note or report.valid is None:
        return {}
    return {f"{report.stage}/loss": report.loss, f"{report.stage}/validation_{report.monitor}": report.valid}


def progress_bar(is_shown: bool | None) -> AbstractContextManager[Callable[[Report], object]]:
    """Return a context of a callback that shows reports, or that ignores them; ``None``: shown in a terminal."""
    is_shown = sys.stderr.isatty() if is_shown is None else is_shown
    return display.epochs() if is_shown else nullcontext(lambda report: None)
