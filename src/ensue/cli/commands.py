"""The commands: each reads its options, calls the library once, and prints the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.listing import CommandGroup, PlainHelp, TaskCommand
from ensue.cli.options import (
    LINKED,
    SCORING,
    TABLES,
    Data,
    Folder,
    Json,
    MinUsers,
    Own,
    Reading,
    Set,
    Task,
    Validation,
    all_present,
    parsed,
    present,
    reads,
    settings_of,
)
from ensue.errors import SettingError
from ensue.predictor import make
from ensue.registry import require_model, require_settings
from ensue.tasks.base import named
from ensue.version import __version__


def _version(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"ensue {__version__}")
        raise typer.Exit


def _names(models: str) -> list[str]:
    return [name.strip() for name in models.split(",") if name.strip()]


@reads(*TABLES, *LINKED, "min_users")
def check(
    context: typer.Context,
    data: Data = None,
    compare_to: Annotated[
        list[Path] | None, typer.Option(callback=all_present, help="file to search for leaks; repeatable")
    ] = None,
    *,
    task: Annotated[str, typer.Option(help="next, classify, suggest or link [default: auto]")] = "",
    json: Json = False,
    **options: Any,
) -> None:
    """Show how a file is read, and problems in it."""
    reading = Reading(**options)
    data = reading.data(data)
    chosen = tasks.chosen(task, context) if task else tasks.of_file(data, reading, context)
    from ensue.cli.command import command_of  # polars

    reading = replace(reading, missing=reading.missing or "report")
    command_of(chosen).check(data, compare_to or [], reading, json)


@reads(*SCORING, *TABLES, *LINKED)
def evaluate(context: typer.Context, folder: Folder, data: Data = None, model: Own = "", **options: Any) -> None:
    """Score a model on test data, next to the baselines.

    The table is also written to CARD.md in the model folder.
    """
    reading, options_of_scoring = parsed(options)
    chosen = tasks.of_folder(folder, context)
    from ensue.cli import scoring  # the evaluator, which imports every task

    scoring.evaluate(chosen, folder, reading.data(data), reading, options_of_scoring)


@reads(*SCORING, *TABLES, *LINKED)
def compare(
    context: typer.Context,
    task: Task,
    data: Data = None,
    test: Annotated[
        Path | None, typer.Option(callback=present, help="test data [default: 20 % of DATA, see --split]")
    ] = None,
    models: Annotated[str, typer.Option(help="names, separated by commas")] = "best",
    seeds: Annotated[int, typer.Option(help="trainings per model, with seeds 0, 1, …")] = 1,
    validation: Validation = None,
    set_: Set = None,
    min_users: MinUsers = None,
    **options: Any,
) -> None:
    """Train several models on the same data and score them next to the baselines."""
    reading, options_of_scoring = parsed(options)
    chosen, names = tasks.chosen(task, context), _names(models) or ["best"]
    if seeds < 1:
        raise SettingError(f"--seeds {seeds}: give at least 1")
    settings = settings_of(set_, min_users)
    names = [require_model(task, name) for name in names]
    for name in names:
        require_settings(task, name, settings)
    entries = [[make(task, name, settings=settings, seed=seed) for seed in range(seeds)] for name in names]
    from ensue.cli import scoring  # the evaluator, which imports every task

    scoring.compare(chosen, entries, reading.data(data), test, validation, reading, options_of_scoring)


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
    **options: Any,
) -> None:
    """Score rankings of other programs next to models and baselines.

    TREC runs hold "query Q0 document rank score tag", JSON Lines {"id": "s1", "place": 2, "ranking": ["a", "b"]}.
    """
    reading, options_of_scoring = parsed(options)
    if not folder and (train is None or not task):
        raise SettingError("nothing to compare with: give --folder MODEL, or --task and --train DATA for the baselines")
    *ranked, given = rankings
    data = reading.data(given)
    if not ranked:
        raise SettingError(f"{given}: give the rankings first, then the data that they rank for")
    chosen = tasks.of_folder(folder[0], context) if folder else tasks.chosen(task, context)
    from ensue.cli import scoring  # the evaluator, which imports every task

    scoring.score(chosen, ranked, name or [], data, folder or [], train, reading, options_of_scoring)


def reproduce(
    paper: Annotated[str, typer.Argument(help="hidan, sansr, mtn, centrality, ast or anywhere")],
    data: Annotated[Path, typer.Option(callback=present, help="folder with the data sets of the paper")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer models and epochs, minutes instead of hours")] = False,
    models: Annotated[str, typer.Option(help="only these rows; names, separated by commas")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="trainings per model")] = 1,
    json: Annotated[Path | None, typer.Option(help="write tables, command, commit and machine to this file")] = None,
) -> None:
    """Rebuild the tables of a paper, next to the baselines.

    Finished runs are cached next to the JSON file: the same command continues after an interruption.
    """
    try:
        import ensue_studies
    except ImportError as error:
        raise SettingError(
            "the studies are a package of their own; install it with: pip install ensue-studies "
            "(in a checkout: pip install ./studies)"
        ) from error

    ensue_studies.require_paper(paper)
    from ensue.cli import show
    from ensue_studies.runner import Request

    request = Request(
        models=_names(models),
        quick=quick,
        seeds=seeds,
        log=show.remark,
        progress=show.training,
        cache=json.with_suffix(".runs.json") if json else None,
    )
    study = ensue_studies.reproduce(paper, data, request)
    show.line(study.page)
    if json:
        study.write(json)
        show.remark(f"wrote {json}")


_COMMANDS = {
    "Data": ("commands:check", "preparing:prepare", "splitting:split"),
    "Models": ("fitting:fit", "keeping:update", "forgetting:forget", "listing:models", "listing:settings"),
    "Evaluation": ("commands:evaluate", "commands:compare", "commands:score", "commands:reproduce"),
    "Answers": (
        "predicting:predict",
        "predicting:explain",
        "predicting:similar",
        "linking:link",
        "spreading:spreaders",
    ),
    "Services": ("serving:serve", "streaming:stream", "demonstration:demo"),
}
"""By section of the help, the module of each command and its function, whose name is that of the command."""


def make_app(command: str = "") -> typer.Typer:
    """Return the program with one command, whose module alone is imported, or with all if none has this name."""
    app = typer.Typer(
        cls=CommandGroup,
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Predict the next event, label texts, suggest queries and link posts to articles, with attributions.",
    )
    app.callback(invoke_without_command=True)(_version)
    commands = [(section, reference) for section, references in _COMMANDS.items() for reference in references]
    for section, reference in [row for row in commands if row[1].endswith(f":{command}")] or commands:
        kind = TaskCommand if reference == "fitting:fit" else PlainHelp
        app.command(cls=kind, rich_help_panel=section)(named(f"ensue.cli.{reference}"))
    return app
