"""The commands ``evaluate``, ``compare`` and ``score``: metrics on data that the models have not seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ensue.cli import display, tasks
from ensue.cli.options import (
    ITEMS,
    LINKED,
    SCORING,
    TABLES,
    Data,
    Folder,
    MinUsers,
    OwnModel,
    Reading,
    Scoring,
    Set,
    TaskName,
    Validation,
    all_present,
    limits_of,
    names_of,
    present,
    reads,
    require_output,
    settings_of,
)
from ensue.errors import ModelFolderError, SettingError
from ensue.lazy import lazy
from ensue.predictor import load, make
from ensue.registry import models as models_of
from ensue.registry import require_model, require_settings
from ensue.store.folder import write_file
from ensue.tasks import NEXT, Task

if TYPE_CHECKING:
    from ensue.cli import results
    from ensue.data import test_split
    from ensue.evaluation import comparison
    from ensue.evaluation.comparison import EvaluationOptions
    from ensue.evaluation.result import Result
    from ensue.tasks.next.predictor import NextPredictor
else:
    # Polars, and the evaluator, which imports every task.
    results = lazy("ensue.cli.results")
    test_split = lazy("ensue.data.test_split")
    comparison = lazy("ensue.evaluation.comparison")

TABLE_FORMATS = (".csv", ".md", ".tex", ".json")
"""Endings of a file of metrics."""


@reads(*SCORING, "off_policy", *TABLES, *LINKED)
def evaluate(
    context: typer.Context, folder: Folder, data: Data = None, model: OwnModel = "", *, options: Scoring
) -> None:
    """Score a model on test data, next to the baselines.

    The table is also written to CARD.md in the model folder.
    """
    task = tasks.of_folder(folder, context)
    command = tasks.commands_of(task)
    path = options.data(data)
    _require_outputs(options, [path])
    if options.off_policy:
        _evaluate_off_policy(command, folder, path, options)
        return
    scoring = _scoring(options, task)
    predictor = load(folder)
    test_data = _test_data(command, path, options.like(folder))
    command.require(test_data, path, predictor)
    result = comparison.evaluate(predictor, test_data, **scoring)
    with suppress(ModelFolderError):  # a folder that may only be read keeps its old card
        write_file(folder / "CARD.md", predictor.card(result.card_text()).encode())
    _show(result, options)


@reads(*SCORING, *TABLES, *LINKED, *ITEMS)
def compare(
    context: typer.Context,
    task: TaskName,
    data: Data = None,
    test: Annotated[
        Path | None, typer.Option(callback=present, help="test data [default: 20 % of DATA, see --split]")
    ] = None,
    models: Annotated[str, typer.Option(help="names, separated by commas")] = "best",
    seeds: Annotated[int, typer.Option(help="trainings per model, with seeds 0, 1, …")] = 1,
    validation: Validation = None,
    set_: Set = None,
    min_users: MinUsers = None,
    *,
    options: Scoring,
) -> None:
    """Train several models on the same data and score them next to the baselines."""
    scored_task = tasks.require(task, context)
    model_names = names_of(models) or ["best"]
    if seeds < 1:
        raise SettingError(f"--seeds {seeds}: give at least 1")
    settings = settings_of(set_, min_users)
    model_names = [require_model(task, name) for name in model_names]
    # Wrong names are refused before the first file is read.
    for name in model_names:
        require_settings(task, name, settings)
    entries = [[make(task, name, settings=settings, seed=seed) for seed in range(seeds)] for name in model_names]
    path = options.data(data)
    _require_outputs(options, [path, test, validation])
    command = tasks.commands_of(scored_task)
    scoring = _scoring(options, scored_task)
    training_reading = replace(options, split="")  # a part is of what is scored: nothing of it may be trained on
    train_data, schema = command.read(path, training_reading)
    if test is None:
        fraction = 0.2 if options.test_fraction is None else options.test_fraction
        train_data, test_data = test_split.split_data(train_data, fraction)
        display.log(f"{path}: {len(train_data):,} for training, {len(test_data):,} held out as test data")
    else:
        test_data, _ = command.read(test, options.later(schema))
    command.require(train_data, path, training=True)
    command.require(test_data, test or path)
    valid_data = command.read(validation, training_reading.later(schema))[0] if validation else None
    # Baselines read no item table, so next to a network they get the data without it.
    model_data = comparison.training_data(task, model_names, train_data)
    for predictors, model_train_data in zip(entries, model_data, strict=True):
        for predictor in predictors:
            display.log(f"{predictor.model_name}, seed {predictor.seed}")
            display.training(predictor.fit(model_train_data, valid_data))
    # Only a trained model knows which labels or ids the test data lacks.
    command.require(test_data, test or path, entries[0][0])
    result = comparison.compare(entries, test_data, **scoring)
    leaks_between = scored_task.module("check").leaks_between
    leaks = [*leaks_between(train_data, test_data, "the test data")]
    if valid_data is not None:
        leaks += leaks_between(train_data, valid_data, "the validation data")
    _show(replace(result, leaks=(*result.leaks, *leaks)), options)


@reads(*SCORING, *TABLES, *LINKED)
def score(
    context: typer.Context,
    rankings: Annotated[
        list[Path], typer.Argument(callback=all_present, help="TREC runs or JSON Lines, then the data they rank for")
    ],
    folder: Annotated[list[Path] | None, typer.Option(help="model folder to compare with; repeatable")] = None,
    task: Annotated[str, typer.Option(help="with --train: next, classify, suggest or link")] = "",
    train: Annotated[Path | None, typer.Option(callback=present, help="training data of the baselines")] = None,
    name: Annotated[list[str] | None, typer.Option(help="names of the rankings [default: file names]")] = None,
    by: Annotated[str, typer.Option(help="variant: A/B tests in files of `serve --shown`")] = "",
    *,
    options: Scoring,
) -> None:
    """Score rankings of other programs next to models and baselines, or A/B tests.

    TREC runs hold "query Q0 document rank score tag", JSON Lines {"id": "s1", "place": 2, "ranking": ["a", "b"]}.
    """
    folders = folder or []
    if by:
        if by != "variant" or folders or train is not None or name:
            raise SettingError(f"--by {by}: write --by variant, without --folder, --train and --name")
        _score_variants(tasks.commands_of(tasks.require(NEXT.name, context)), rankings, options)
        return
    if not folders and (train is None or not task):
        raise SettingError("nothing to compare with: give --folder MODEL, or --task and --train DATA for the baselines")
    *ranking_paths, last_path = rankings
    path = options.data(last_path)
    if not ranking_paths:
        raise SettingError(f"{last_path}: give the rankings first, then the data that they rank for")
    scored_task = tasks.of_folder(folders[0], context) if folders else tasks.require(task, context)
    command = tasks.commands_of(scored_task)
    _require_outputs(options, [path, *ranking_paths, train])
    scoring = _scoring(options, scored_task)
    from ensue.data.rankings import read_rankings

    # Rankings without a name are called by their file.
    named_paths = zip_longest(ranking_paths, name or [], fillvalue="")
    ranked = [read_rankings(ranking_path, label, **options.opening) for ranking_path, label in named_paths]
    predictors = [load(folder) for folder in folders]
    schema = options.like(folders[0]).schema if folders else options.schema
    if train is not None:
        train_data, schema = command.read(train, replace(options, split="", schema=schema))
        command.require(train_data, train, training=True)
        # Any count-based baseline brings all others of its task with it.
        baseline = make(scored_task.name, next(model.name for model in models_of(scored_task.name) if model.counting))
        display.training(baseline.fit(train_data))
        predictors.append(baseline)
    test_data, _ = command.read(path, replace(options, schema=schema, session_ids=True))
    for predictor in predictors:
        command.require(test_data, path, predictor)
    _show(comparison.score_rankings(ranked, predictors, test_data, **scoring), options)


def _score_variants(command: tasks.TaskCommands, paths: Sequence[Path], options: Scoring) -> None:
    """Print what people clicked on the lists of each variant, or its JSON.

    Raises:
        SettingError: an option that only rankings have, or no file of shown lists.
    """
    _require_defaults(options, "--by variant", "protocol", "unknown")
    from ensue.evaluation.ab_tests import evaluate_experiments

    *shown, clicks_path = paths
    if not shown:
        raise SettingError(
            f"{clicks_path}: give the lists that `ensue serve --shown FILE` wrote, then the log of clicks"
        )
    # Clicks belong to the lists of their user however long the pauses between them are.
    clicks, _ = command.read(options.data(clicks_path), replace(options, session_gap=0.0))
    experiments = evaluate_experiments(shown, clicks, _cutoffs(options))
    if options.json:
        display.print_json([experiment.to_dict() for experiment in experiments])
        return
    for experiment in experiments:
        results.show_experiment(experiment)


def _require_defaults(options: Scoring, mode: str, *names: str) -> None:
    """Refuse options that mean nothing in a mode: those of other tables, and some more.

    Raises:
        SettingError: naming the option.
    """
    for name in (*names, "diversify", "max_per", "pairwise", "output", "per_example"):
        if getattr(options, name) != getattr(Scoring, name):
            raise SettingError(f"--{name.replace('_', '-')} has no meaning with {mode}; use --json for a file")


def _cutoffs(options: Scoring) -> list[int]:
    """Return the ranks of ``--cutoffs``, rising.

    Raises:
        SettingError: no list of ranks.
    """
    try:
        cutoffs = sorted({int(k) for k in options.cutoffs.split(",")})
    except ValueError:
        cutoffs = []
    if not cutoffs or cutoffs[0] < 1:
        raise SettingError(f"--cutoffs {options.cutoffs!r} is not a list of ranks such as 10,20")
    return cutoffs


def _evaluate_off_policy(command: tasks.TaskCommands, folder: Path, path: Path, options: Scoring) -> None:
    """Print what a model would have earned on a log of shown items with propensities.

    Raises:
        SettingError: an option of another evaluation.
    """
    _require_defaults(options, "--off-policy", "protocol", "unknown", "cutoffs")
    from ensue.evaluation import off_policy  # torch

    log, _ = command.read(path, replace(options.like(folder), logged=True))
    result = off_policy.evaluate_policy(cast("NextPredictor", load(folder)), log, options.off_policy)
    if options.json:
        display.print_json(result.to_dict())
        return
    rows = []
    for name, estimates in result.values.items():
        cells = map(str, (estimates.ips, estimates.snips, estimates.dr, estimates.gain))
        rows.append((name, *cells, f"{estimates.effective:,.0f}"))
    heads = ("policy of", "IPS", "SNIPS", "DR", "DR - log", "effective events")
    display.table(heads, rows, title=off_policy.summary(result))
    for sentence in result.warnings():
        display.warning("warning:", sentence)


def _scoring(options: Scoring, task: Task) -> EvaluationOptions:
    """Return the options of an evaluation that the task has.

    Raises:
        SettingError: an unknown protocol or rule, or no list of ranks.
    """
    cutoffs = _cutoffs(options)
    values: EvaluationOptions = {"protocol": options.protocol, "unknown": options.unknown, "cutoffs": cutoffs}
    if options.diversify or options.max_per:
        values |= {"diversify": options.diversify, "max_per": limits_of(options.max_per or [])}
    # Options of other tasks were refused before; here only their defaults are left out.
    applying = {name: value for name, value in values.items() if name not in task.foreign.split()}
    return comparison.checked_options(task.name, cast("EvaluationOptions", applying))


def _require_outputs(options: Scoring, inputs: Sequence[Path | None]) -> None:
    """Refuse output files that cannot be written, before any work.

    Raises:
        SettingError: another file ending, a folder that is missing, or a file that is also read.
    """
    existing = [path for path in inputs if path is not None]
    if options.output is not None:
        require_output(options.output, existing, formats=TABLE_FORMATS)
    if options.per_example is not None:
        require_output(options.per_example, existing, option="--per-example")


def _test_data(command: tasks.TaskCommands, path: Path, reading: Reading) -> Any:
    """Return the data of a file, or the fraction of it that ``--split`` holds out."""
    fraction = reading.test_fraction
    if fraction is None:
        return command.read(path, reading)[0]
    _, test_data = test_split.split_data(command.read(path, replace(reading, split=""))[0], fraction)
    display.log(f"{path}: {len(test_data):,} held out as test data")
    display.log(f"warning: a model that was trained on all of {path} knows them; `ensue split` writes two files")
    return test_data


def _show(result: Result, options: Scoring) -> None:
    """Write the files that were asked for, and print the result, or its JSON."""
    from ensue.cli.writing import write

    pairs = result.verdicts() if options.pairwise else ()
    values = result.to_dict() | ({"verdicts": [pair.to_dict() for pair in pairs]} if pairs else {})
    if options.output is not None:
        write_file(options.output, _file_text(result, values, options.output.suffix).encode())
    if options.per_example is not None and result.examples is not None:
        write(result.examples.to_frame(), options.per_example)
    if options.json:
        display.print_json(values)
        return
    results.show_result(result)
    results.of_pairs(pairs)
    for line in result.leaks:
        display.warning("warning:", f"leak: {line}")
    for path in (options.output, options.per_example):
        if path is not None:
            display.log(f"wrote {path}")


def _file_text(result: Result, values: Mapping[str, Any], suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(values, ensure_ascii=False, indent=1, default=str) + "\n"
    return {".csv": result.to_csv, ".md": result.to_markdown, ".tex": result.to_latex}[suffix]()
