"""Callbacks of ``fit``: functions that get each report of a training.

Every function of a :class:`~ensue.training.report.Report` will do; a report whose ``valid`` is set closes an epoch.

    >>> from ensue import NextEvent
    >>> from ensue.callbacks import JSONLines
    >>> NextEvent("sansr", dim=16, epochs=2).fit("clicks.csv", callbacks=[JSONLines("training.jsonl")])
    NextEvent('sansr', dim=16, epochs=2)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from ensue.errors import SettingError
from ensue.training.report import Report

Callback: TypeAlias = Callable[[Report], object]
"""Gets each report; what it returns is ignored, and what it raises ends the training."""


class JSONLines:
    """Write each report as one line of JSON; a file that exists is continued.

    Args:
        path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __call__(self, report: Report) -> None:
        """Append one line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(report)) + "\n")


class TensorBoard:
    """Write the loss and the monitored metric of each epoch for TensorBoard (extra ``tensorboard``).

    Args:
        folder: the log directory.

    Raises:
        SettingError: TensorBoard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            self.writer = import_module("torch.utils.tensorboard").SummaryWriter(str(folder))
        except ModuleNotFoundError as error:
            raise SettingError("TensorBoard is not installed; pip install tensorboard") from error

    def __call__(self, report: Report) -> None:
        """Write the scalars of a report."""
        for name, value in scalars(report).items():
            self.writer.add_scalar(name, value, report.epoch)
        self.writer.flush()


class MLflow:
    """Log the loss and the monitored metric of each epoch to the active run of MLflow (extra ``mlflow``).

    Raises:
        SettingError: MLflow is not installed.
    """

    def __init__(self) -> None:
        try:
            self.client = import_module("mlflow")
        except ModuleNotFoundError as error:
            raise SettingError("MLflow is not installed; pip install mlflow") from error

    def __call__(self, report: Report) -> None:
        """Log the metrics of a report."""
        if metrics := scalars(report):
            self.client.log_metrics(metrics, step=report.epoch)


def scalars(report: Report) -> dict[str, float]:
    """Return what is plotted of a report by name: of one that closes an epoch its loss and its monitored metric."""
    if report.note or report.valid is None:
        return {}
    return {f"{report.stage}/loss": report.loss, f"{report.stage}/validation_{report.monitor}": report.valid}
