"""What ``evaluate`` and ``compare`` do: score models on data they have not seen, and show the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ensue import evaluation
from ensue.cli import show
from ensue.cli.command import Command, command_of
from ensue.cli.options import Reading
from ensue.errors import ModelFolderError
from ensue.evaluation import AnyResult
from ensue.predictor import AnyPredictor, load
from ensue.store.folder import write_file
from ensue.tasks.base import Task


def evaluate(task: Task, folder: Path, data: Path, protocol: str, at: str, reading: Reading, *, as_json: bool) -> None:
    """Score the model of a folder, and write the table into its card too."""
    command = command_of(task)
    scoring = command.scoring(protocol, at)
    predictor = load(folder)
    test = command.read(data, reading)
    command.require_like(test, data, predictor)
    result = evaluation.evaluate(predictor, test, **scoring)
    with suppress(ModelFolderError):  # a folder that may only be read keeps its old card
        write_file(folder / "CARD.md", evaluation.describe(predictor, result).encode())
    _show(command, result, scoring, as_json=as_json)


def compare(
    task: Task,
    entries: Sequence[Sequence[AnyPredictor]],
    data: Path,
    test: Path,
    valid: Path | None,
    protocol: str,
    at: str,
    reading: Reading,
    *,
    as_json: bool,
) -> None:
    """Train models, each in as many seeds as there are of it, and score them side by side."""
    command = command_of(task)
    scoring = command.scoring(protocol, at)
    learned = dataclasses.replace(reading, part="")  # a part is of what is scored: nothing of it may be trained on
    train_data, test_data = command.read(data, learned), command.read(test, reading)
    command.require(train_data, data, learn=True)
    command.require(test_data, test, learn=False)
    valid_data = command.read(valid, learned) if valid else None
    for predictors in entries:
        for predictor in predictors:
            show.remark(f"{predictor.model_name}, seed {predictor.seed}")
            show.training(predictor.fit(train_data, valid_data))
    result = evaluation.compare(entries, test_data, **scoring)
    leaks = [*command.leaks(train_data, test_data, "the test data")]
    if valid_data is not None:
        leaks += command.leaks(train_data, valid_data, "the validation data")
    _show(command, dataclasses.replace(result, leaks=(*result.leaks, *leaks)), scoring, as_json=as_json)


def _show(command: Command, result: AnyResult, scoring: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show.put_json(result.to_dict())
        return
    command.show_result(result, scoring)
    for line in result.leaks:
        show.warning("leak:", line)
