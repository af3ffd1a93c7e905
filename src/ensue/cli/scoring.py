"""What ``evaluate`` and ``compare`` do: score models on data they have not seen, and show the table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ensue import evaluation
from ensue.cli import show, show_results
from ensue.cli.command import Command, command_of
from ensue.cli.options import Reading
from ensue.cli.writing import require_place, write
from ensue.data.rankings import read_rankings
from ensue.errors import ModelFolderError
from ensue.evaluation import AnyResult
from ensue.predictor import AnyPredictor, load, make
from ensue.registry import models
from ensue.store.folder import write_file
from ensue.tasks.base import Task

TABLES = (".csv", ".md", ".tex", ".json")
"""Endings of a table of figures."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """What becomes of a result.

    Attributes:
        output: a file for the table.
        per_example: a file for what each model made of each thing that was scored.
        pairwise: whether every pair of rows is compared.
        json: whether stdout gets one JSON object.
    """

    output: Path | None = None
    per_example: Path | None = None
    pairwise: bool = False
    json: bool = False

    def require(self, inputs: Sequence[Path]) -> None:
        """Find out before the work whether the files can be written.

        Raises:
            SettingError: a name with another ending, in no folder, or of what is read.
        """
        if self.output is not None:
            require_place(self.output, inputs, formats=TABLES)
        if self.per_example is not None:
            require_place(self.per_example, inputs, option="--per-example")


def evaluate(
    task: Task,
    folder: Path,
    data: Path,
    protocol: str,
    unknown: str,
    cutoffs: str,
    reading: Reading,
    wanted: Wanted,
) -> None:
    """Score the model of a folder, and write the table into its card too."""
    wanted.require([data])
    command = command_of(task)
    scoring = command.scoring(protocol, unknown, cutoffs)
    predictor = load(folder)
    test = command.read(data, reading.like(folder))
    command.require_like(test, data, predictor)
    result = evaluation.evaluate(predictor, test, **scoring)
    with suppress(ModelFolderError):  # a folder that may only be read keeps its old card
        write_file(folder / "CARD.md", evaluation.describe(predictor, result).encode())
    _show(command, result, scoring, wanted)


def compare(
    task: Task,
    entries: Sequence[Sequence[AnyPredictor]],
    data: Path,
    test: Path,
    valid: Path | None,
    protocol: str,
    unknown: str,
    cutoffs: str,
    reading: Reading,
    wanted: Wanted,
) -> None:
    """Train models, each in as many seeds as there are of it, and score them side by side."""
    wanted.require([data, test, *([valid] if valid else [])])
    command = command_of(task)
    scoring = command.scoring(protocol, unknown, cutoffs)
    learned = dataclasses.replace(reading, split="")  # a part is of what is scored: nothing of it may be trained on
    train_data, schema = command.read_for_training(data, learned)
    test_data = command.read(test, dataclasses.replace(reading, schema=schema))
    command.require(train_data, data, learn=True)
    command.require(test_data, test, learn=False)
    valid_data = command.read(valid, dataclasses.replace(learned, schema=schema)) if valid else None
    for predictors in entries:
        for predictor in predictors:
            show.remark(f"{predictor.model_name}, seed {predictor.seed}")
            show.training(predictor.fit(train_data, valid_data))
    command.require_like(test_data, test, entries[0][0])
    result = evaluation.compare(entries, test_data, **scoring)
    leaks = [*command.leaks(train_data, test_data, "the test data")]
    if valid_data is not None:
        leaks += command.leaks(train_data, valid_data, "the validation data")
    _show(command, dataclasses.replace(result, leaks=(*result.leaks, *leaks)), scoring, wanted)


def score(
    task: Task,
    rankings: Sequence[Path],
    names: Sequence[str],
    data: Path,
    folders: Sequence[Path],
    train: Path | None,
    protocol: str,
    unknown: str,
    cutoffs: str,
    reading: Reading,
    wanted: Wanted,
) -> None:
    """Score what other programs ranked, beside models of ours and counting."""
    wanted.require([data, *rankings, *([train] if train else [])])
    command = command_of(task)
    scoring = command.scoring(protocol, unknown, cutoffs)
    ranked = [read_rankings(path, name, **reading.opening) for path, name in zip_longest(rankings, names, fillvalue="")]
    predictors = [load(folder) for folder in folders]
    schema = reading.like(folders[0]).schema if folders else reading.schema
    if train is not None:
        train_data, schema = command.read_for_training(train, dataclasses.replace(reading, split="", schema=schema))
        command.require(train_data, train, learn=True)
        counted = make(task.name, next(model.name for model in models(task.name) if model.counting))
        show.training(counted.fit(train_data))
        predictors.append(counted)
    test = command.read(data, dataclasses.replace(reading, schema=schema, session_ids=True))
    for predictor in predictors:
        command.require_like(test, data, predictor)
    _show(command, evaluation.score_rankings(ranked, predictors, test, **scoring), scoring, wanted)


def _show(command: Command, result: AnyResult, scoring: Mapping[str, Any], wanted: Wanted) -> None:
    pairs = result.verdicts() if wanted.pairwise else ()
    found = result.to_dict() | ({"verdicts": [pair.to_dict() for pair in pairs]} if pairs else {})
    if wanted.output is not None:
        write_file(wanted.output, _table(result, found, wanted.output.suffix).encode())
    if wanted.per_example is not None and result.examples is not None:
        write(result.examples.to_frame(), wanted.per_example)
    if wanted.json:
        show.put_json(found)
        return
    command.show_result(result, scoring)
    show_results.of_pairs(pairs)
    for line in result.leaks:
        show.warning("leak:", line)
    for path in (wanted.output, wanted.per_example):
        if path is not None:
            show.remark(f"wrote {path}")


def _table(result: AnyResult, found: Mapping[str, Any], suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(found, ensure_ascii=False, indent=1, default=str) + "\n"
    return {".csv": result.to_csv, ".md": result.to_markdown, ".tex": result.to_latex}[suffix]()
