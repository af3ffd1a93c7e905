"""The verbs. Each reads, calls one thing of the library, and shows what came back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import (
    demonstration,
    fitting,
    forgetting,
    keeping,
    linking,
    listing,
    predicting,
    preparing,
    serving,
    spreading,
    streaming,
    tasks,
)
from ensue.cli.options import (
    LINKED,
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
    present,
    reads,
    settings_of,
)
from ensue.errors import SettingError
from ensue.predictor import make
from ensue.registry import require_model, require_paper, require_settings
from ensue.version import __version__

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Who passes it on next, what is read or searched next, which label fits, which posts are about it: answers "
    "from what you hold, with "
    "what they leaned on.",
)

Protocol = Annotated[
    str,
    typer.Option(
        help="full; paper (the one of the model's paper, of queries the paper's rules); of next also last "
        "(leave-one-out), macro, sampled"
    ),
]
Unknown = Annotated[
    str,
    typer.Option(
        help="of next: how events count that the training data lacks: miss, drop (not scored) or rank (those that the "
        "sequence holds already are candidates), the same for every row"
    ),
]
Cutoffs = Annotated[str, typer.Option(help="of next: cut-offs of the figures")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="write the table here too: a .csv, .md, .tex or .json file")
]
PerExample = Annotated[
    Path | None,
    typer.Option(help="write a row for each model and each thing scored here: id, target, rank (.parquet, .csv, …)"),
]
Pairwise = Annotated[
    bool, typer.Option("--pairwise", help="who is ahead of whom: every pair of rows, corrected for their number")
]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"ensue {__version__}")
        raise typer.Exit


def _names(models: str) -> list[str]:
    return [name.strip() for name in models.split(",") if name.strip()]


@app.command()
@reads(*TABLES, *LINKED, "min_users")
def check(
    context: typer.Context,
    data: Data = None,
    compare_to: Annotated[
        list[Path] | None,
        typer.Option(callback=all_present, help="another split, to look for leaks; may be repeated"),
    ] = None,
    *,
    task: Annotated[str, typer.Option(help="next, classify, suggest or link; found out unless stated")] = "",
    json: Json = False,
    **options: Any,
) -> None:
    """Show what was understood of a file, and warnings about it."""
    reading = Reading(**options)
    data = reading.data(data)
    chosen = tasks.chosen(task, context) if task else tasks.of_file(data, reading, context)
    from ensue.cli.command import command_of  # polars

    reading = replace(reading, missing=reading.missing or "report")
    command_of(chosen).check(data, compare_to or [], reading, json)


app.command()(preparing.prepare)
app.command(cls=listing.OfTask)(fitting.fit)


@app.command()
@reads(*TABLES, *LINKED)
def evaluate(
    context: typer.Context,
    folder: Folder,
    data: Data = None,
    protocol: Protocol = "full",
    unknown: Unknown = "miss",
    cutoffs: Cutoffs = "10,20,50,100",
    model: Own = "",
    output: Output = None,
    per_example: PerExample = None,
    *,
    pairwise: Pairwise = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Score a model on data it has not seen, counting beside it; the table also goes into its CARD.md."""
    reading = Reading(**options)
    chosen = tasks.of_folder(folder, context)
    from ensue.cli import scoring  # the evaluator, which imports every task

    wanted = scoring.Wanted(output=output, per_example=per_example, pairwise=pairwise, json=json)
    scoring.evaluate(chosen, folder, reading.data(data), protocol, unknown, cutoffs, reading, wanted)


@app.command()
@reads(*TABLES, *LINKED)
def compare(
    context: typer.Context,
    task: Task,
    test: Annotated[Path, typer.Option(callback=present, help="what the models are scored on")],
    data: Data = None,
    models: Annotated[str, typer.Option(help="names, separated by commas")] = "best",
    seeds: Annotated[int, typer.Option(help="trainings a model, with seeds 0, 1, …")] = 1,
    validation: Validation = None,
    set_: Set = None,
    min_users: MinUsers = None,
    protocol: Protocol = "full",
    unknown: Unknown = "miss",
    cutoffs: Cutoffs = "10,20,50,100",
    output: Output = None,
    per_example: PerExample = None,
    *,
    pairwise: Pairwise = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Train several models on the same data and score them side by side, counting always among them."""
    reading = Reading(**options)
    chosen, names = tasks.chosen(task, context), _names(models) or ["best"]
    if seeds < 1:
        raise SettingError(f"--seeds {seeds}: give at least 1")
    settings = settings_of(set_, min_users)
    names = [require_model(task, name) for name in names]
    for name in names:
        require_settings(task, name, settings)
    entries = [[make(task, name, settings=settings, seed=seed) for seed in range(seeds)] for name in names]
    from ensue.cli import scoring  # the evaluator, which imports every task

    wanted = scoring.Wanted(output=output, per_example=per_example, pairwise=pairwise, json=json)
    scoring.compare(chosen, entries, reading.data(data), test, validation, protocol, unknown, cutoffs, reading, wanted)


@app.command()
@reads(*TABLES, *LINKED)
def score(
    context: typer.Context,
    rankings: Annotated[
        list[Path],
        typer.Argument(callback=all_present, help="what other programs ranked: TREC runs, or JSON Lines; then DATA"),
    ],
    folder: Annotated[list[Path] | None, typer.Option(help="a model of ours beside it; may be repeated")] = None,
    task: Annotated[str, typer.Option(help="with --train: next, classify, suggest or link")] = "",
    train: Annotated[
        Path | None, typer.Option(callback=present, help="a log to count in, where there is no model of ours")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="of the rows, in their order; of the files unless stated")
    ] = None,
    protocol: Protocol = "full",
    unknown: Unknown = "miss",
    cutoffs: Cutoffs = "10,20,50,100",
    output: Output = None,
    per_example: PerExample = None,
    *,
    pairwise: Pairwise = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Score what another program ranked by our evaluator, beside models of ours and all that counts.

    A TREC run has lines of `query Q0 document rank score tag`; JSON Lines are {"id": …, "place": …, "ranking": […]}.
    Of a sequence the place is how many events stand before the one that is foretold; in a TREC run `ID:PLACE`.
    """
    reading = Reading(**options)
    if not folder and (train is None or not task):
        raise SettingError(
            "nothing to compare with: give --folder MODEL, or --task and --train with the log to count in"
        )
    *ranked, given = rankings
    data = reading.data(given)
    if not ranked:
        raise SettingError(f"{given}: give the rankings first, then the data that they rank for")
    chosen = tasks.of_folder(folder[0], context) if folder else tasks.chosen(task, context)
    from ensue.cli import scoring  # the evaluator, which imports every task

    wanted = scoring.Wanted(output=output, per_example=per_example, pairwise=pairwise, json=json)
    scoring.score(chosen, ranked, name or [], data, folder or [], train, protocol, unknown, cutoffs, reading, wanted)


app.command()(predicting.predict)
app.command()(predicting.explain)
app.command()(spreading.spreaders)
app.command()(listing.models)
app.command()(listing.settings)
app.command()(keeping.update)
app.command()(forgetting.forget)
app.command()(streaming.stream)
app.command()(linking.link)
app.command()(serving.serve)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="hidan, sansr, mtn, centrality or ast; or anywhere, our own study")],
    data: Annotated[Path, typer.Option(callback=present, help="the folder with the paper's data sets")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer models and epochs: an impression in minutes")] = False,
    models: Annotated[str, typer.Option(help="only these rows; names, separated by commas")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="trainings a model; where a study says so, of those it judges")] = 1,
    json: Annotated[Path | None, typer.Option(help="write {paper, command, commit, machine, tables} here")] = None,
) -> None:
    """Rebuild a paper's tables on the data at hand, both protocols, counting beside.

    Long studies keep their finished cells beside the JSON file: the same command goes on where it was stopped.
    """
    require_paper(paper)
    from ensue.cli import show
    from ensue.studies import PAPERS
    from ensue.studies.runner import Request

    kept = json.with_suffix(".cells.json") if json else None
    names, log, progress = _names(models), show.remark, show.training
    request = Request(models=names, quick=quick, seeds=seeds, log=log, progress=progress, kept=kept)
    found = PAPERS[paper](data, request)
    show.line(found.page)
    if json:
        found.write(json)
        show.remark(f"wrote {json}")


app.command()(demonstration.demo)
