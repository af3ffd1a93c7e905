"""What ``evaluate`` and ``compare`` do: score models on data they have not seen, and show the table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ensue.cli import show, show_results
from ensue.cli.command import Command, command_of
from ensue.cli.options import Reading, Scoring
from ensue.cli.writing import require_place, write
from ensue.data.rankings import read_rankings
from ensue.data.test_split import split_data
from ensue.errors import ModelFolderError
from ensue.evaluation.cards import describe
from ensue.evaluation.comparison import (
    AnyResult,
    score_rankings,
)
from ensue.evaluation.comparison import (
    compare as compare_predictors,
)
from ensue.evaluation.comparison import (
    evaluate as evaluate_predictor,
)
from ensue.predictor import AnyPredictor, load, make
from ensue.registry import models
from ensue.store.folder import write_file
from ensue.tasks.base import Task

TABLES = (".csv", ".md", ".tex", ".json")
"""Endings of a table of figures."""


def _require_outputs(scoring: Scoring, inputs: Sequence[Path | None]) -> None:
    """Refuse output files that cannot be written, before any work.

    Raises:
        SettingError: another file ending, a folder that is missing, or a file that is also read.
    """
    existing = [path for path in inputs if path is not None]
    if scoring.output is not None:
        require_place(scoring.output, existing, formats=TABLES)
    if scoring.per_example is not None:
        require_place(scoring.per_example, existing, option="--per-example")


def evaluate(task: Task, folder: Path, data: Path, reading: Reading, scoring: Scoring) -> None:
    """Score the model of a folder, and write the table into its card too."""
    _require_outputs(scoring, [data])
    command = command_of(task)
    keywords = command.scoring(scoring.protocol, scoring.unknown, scoring.cutoffs)
    predictor = load(folder)
    test = _test_data(command, data, reading.like(folder))
    command.require_like(test, data, predictor)
    result = evaluate_predictor(predictor, test, **keywords)
    with suppress(ModelFolderError):  # a folder that may only be read keeps its old card
        write_file(folder / "CARD.md", describe(predictor, result).encode())
    _show(command, result, keywords, scoring)


def _test_data(command: Command, path: Path, reading: Reading) -> Any:
    """Return the data of a file, or the fraction of it that ``--split`` holds out."""
    fraction = reading.test_fraction
    if fraction is None:
        return command.read(path, reading)
    _, held_out = split_data(command.read(path, dataclasses.replace(reading, split="")), fraction)
    show.remark(f"{path}: {len(held_out):,} held out as test data")
    show.remark(f"warning: a model that was trained on all of {path} knows them; `ensue split` writes two files")
    return held_out


def compare(
    task: Task,
    entries: Sequence[Sequence[AnyPredictor]],
    data: Path,
    test: Path | None,
    valid: Path | None,
    reading: Reading,
    scoring: Scoring,
) -> None:
    """Train models, each in as many seeds as there are of it, and score them side by side."""
    _require_outputs(scoring, [data, test, valid])
    command = command_of(task)
    keywords = command.scoring(scoring.protocol, scoring.unknown, scoring.cutoffs)
    learned = dataclasses.replace(reading, split="")  # a part is of what is scored: nothing of it may be trained on
    train_data, schema = command.read_for_training(data, learned)
    if test is None:
        fraction = 0.2 if reading.test_fraction is None else reading.test_fraction
        train_data, test_data = split_data(train_data, fraction)
        show.remark(f"{data}: {len(train_data):,} for training, {len(test_data):,} held out as test data")
    else:
        test_data = command.read(test, dataclasses.replace(reading, schema=schema))
    command.require(train_data, data, learn=True)
    command.require(test_data, test or data, learn=False)
    valid_data = command.read(valid, dataclasses.replace(learned, schema=schema)) if valid else None
    for predictors in entries:
        for predictor in predictors:
            show.remark(f"{predictor.model_name}, seed {predictor.seed}")
            show.training(predictor.fit(train_data, valid_data))
    command.require_like(test_data, test or data, entries[0][0])
    result = compare_predictors(entries, test_data, **keywords)
    leaks = [*command.leaks(train_data, test_data, "the test data")]
    if valid_data is not None:
        leaks += command.leaks(train_data, valid_data, "the validation data")
    _show(command, dataclasses.replace(result, leaks=(*result.leaks, *leaks)), keywords, scoring)


def score(
    task: Task,
    rankings: Sequence[Path],
    names: Sequence[str],
    data: Path,
    folders: Sequence[Path],
    train: Path | None,
    reading: Reading,
    scoring: Scoring,
) -> None:
    """Score what other programs ranked, beside models of ours and counting."""
    _require_outputs(scoring, [data, *rankings, train])
    command = command_of(task)
    keywords = command.scoring(scoring.protocol, scoring.unknown, scoring.cutoffs)
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
    _show(command, score_rankings(ranked, predictors, test, **keywords), keywords, scoring)


def _show(command: Command, result: AnyResult, keywords: Mapping[str, Any], scoring: Scoring) -> None:
    pairs = result.verdicts() if scoring.pairwise else ()
    found = result.to_dict() | ({"verdicts": [pair.to_dict() for pair in pairs]} if pairs else {})
    if scoring.output is not None:
        write_file(scoring.output, _table(result, found, scoring.output.suffix).encode())
    if scoring.per_example is not None and result.examples is not None:
        write(result.examples.to_frame(), scoring.per_example)
    if scoring.json:
        show.put_json(found)
        return
    command.show_result(result, keywords)
    show_results.of_pairs(pairs)
    for line in result.leaks:
        show.warning("warning:", f"leak: {line}")
    for path in (scoring.output, scoring.per_example):
        if path is not None:
            show.remark(f"wrote {path}")


def _table(result: AnyResult, found: Mapping[str, Any], suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(found, ensure_ascii=False, indent=1, default=str) + "\n"
    return {".csv": result.to_csv, ".md": result.to_markdown, ".tex": result.to_latex}[suffix]()
