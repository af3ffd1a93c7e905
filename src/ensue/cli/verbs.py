"""The verbs. Each reads, calls one thing of the library, and shows what came back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import keeping, streaming
from ensue.cli.options import Columns, Folder, Gap, Json, Sort, TimeUnit, read_log
from ensue.errors import DataError, SettingError
from ensue.records import History
from ensue.settings import parse
from ensue.version import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Who passes it on next, what is read next: answers from the logs you hold, with what they leaned on.",
)

Data = Annotated[
    Path, typer.Argument(help="a log: CSV, TSV, JSON Lines, Parquet, HiDAN, FOREST, CYAN-RNN; plain, .gz, .xz, .zst")
]
Task = Annotated[str, typer.Argument(help="the question: next")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="key=value: change a setting of the model or its schedule")
]
Protocol = Annotated[str, typer.Option(help="full (micro, all candidates), paper (the model's own), macro or sampled")]
At = Annotated[str, typer.Option(help="cut-offs of the figures")]
Seed = Annotated[int, typer.Option(help="the same seed gives the same model")]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"ensue {__version__}")
        raise typer.Exit


def _cuts(at: str) -> list[int]:
    try:
        cuts = sorted({int(k) for k in at.split(",")})
    except ValueError:
        cuts = []
    if not cuts or cuts[0] < 1:
        raise SettingError(f"--at {at!r} is not a list of ranks such as 10,20")
    return cuts


def _require_protocol(protocol: str) -> None:
    from ensue.evaluation import PROTOCOLS

    if protocol not in PROTOCOLS:
        raise SettingError(f"protocol {protocol!r} is not known; choose from {', '.join(PROTOCOLS)}")


def _names(models: str) -> list[str]:
    return [name.strip() for name in models.split(",") if name.strip()]


def _require_task(task: str) -> None:
    if task != "next":
        raise SettingError(f"task {task!r} is not known; choose from next")


@app.command()
def check(
    data: Data,
    other: Annotated[list[Path] | None, typer.Option(help="another split, to look for leaks; may be repeated")] = None,
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = False,
    gap: Gap = None,
    json: Json = False,
) -> None:
    """Show what was understood of a file, and what in it would spoil a result."""
    from ensue.cli import show
    from ensue.data.check import check as look

    histories, understood = read_log(data, columns, time_unit, sort, gap)
    others = {str(path): read_log(path, columns, time_unit, sort, gap)[0] for path in other or []}
    found = look(histories, understood, others)
    show.put_json(asdict(found)) if json else show.findings(found)


@app.command()
def fit(
    task: Task,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="the model folder to write")],
    model: Annotated[str, typer.Option(help="a model's name, or best")] = "best",
    valid: Annotated[Path | None, typer.Option(help="data for early stopping; else the last tenth is held out")] = None,
    set_: Set = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="continue a run that was interrupted")] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU is used when there is one")] = None,
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = False,
    gap: Gap = None,
    json: Json = False,
) -> None:
    """Train a model (or count) and write its folder."""
    from ensue.cli import show
    from ensue.data.check import require_targets
    from ensue.evaluation import describe
    from ensue.folder import require_writable
    from ensue.group import ranks
    from ensue.lock import only_writer
    from ensue.predictor import make

    _require_task(task)
    predictor = make(task, model, settings=parse(set_ or []), seed=seed, device=device)
    require_writable(output)
    with ranks() as (rank, _):
        histories, _ = read_log(data, columns, time_unit, sort, gap)
        require_targets(histories, str(data))
        held = read_log(valid, columns, time_unit, sort, gap)[0] if valid else None
        with only_writer(output) if rank == 0 and output.exists() else nullcontext():
            place = output.resolve()
            checkpoint = place.with_name(f".{place.name}.checkpoint")
            reports = predictor.fit(histories, held, checkpoint=checkpoint, resume=resume)
            try:
                show.training(reports) if rank == 0 else [None for _ in reports]
            except KeyboardInterrupt:
                show.remark("stopped; the same command with --resume continues from the last checkpoint")
                raise typer.Exit(130) from None
            if rank == 0:
                predictor.save(output, describe(predictor))
                for done in [path for path in place.parent.iterdir() if path.name.startswith(checkpoint.name)]:
                    done.unlink(missing_ok=True)
                show.put_json({"folder": str(output), **predictor.summary()}) if json else show.remark(
                    f"saved {output}"
                )


@app.command()
def evaluate(
    folder: Folder,
    data: Data,
    protocol: Protocol = "full",
    at: At = "10,20,50,100",
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = False,
    gap: Gap = None,
    json: Json = False,
) -> None:
    """Score a model on data it has not seen, counting beside it; the table also goes into its CARD.md."""
    from ensue.cli import show
    from ensue.errors import ModelFolderError
    from ensue.evaluation import describe
    from ensue.evaluation import evaluate as score
    from ensue.folder import write_file
    from ensue.predictor import load

    predictor, cuts = load(folder), _cuts(at)
    histories, _ = read_log(data, columns, time_unit, sort, gap)
    found = score(predictor, histories, protocol, cuts)
    with suppress(ModelFolderError):  # a folder that may only be read keeps its old card
        write_file(folder / "CARD.md", describe(predictor, found).encode())
    show.put_json(found.to_dict()) if json else show.result(found, cuts)


@app.command()
def compare(
    task: Task,
    data: Data,
    test: Annotated[Path, typer.Option(help="what the models are scored on")],
    models: Annotated[str, typer.Option(help="names, separated by commas")] = "best",
    seeds: Annotated[int, typer.Option(help="trainings a model, with seeds 0, 1, …")] = 1,
    valid: Annotated[Path | None, typer.Option(help="data for early stopping; else the last tenth is held out")] = None,
    set_: Set = None,
    protocol: Protocol = "full",
    at: At = "10,20,50,100",
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = False,
    gap: Gap = None,
    json: Json = False,
) -> None:
    """Train several models on the same data and score them side by side, counting always among them."""
    from ensue.cli import show
    from ensue.data.check import require_targets
    from ensue.evaluation import compare as score
    from ensue.predictor import make

    _require_task(task)
    _require_protocol(protocol)
    cuts = _cuts(at)
    names = _names(models) or ["best"]
    if seeds < 1:
        raise SettingError(f"--seeds {seeds}: give at least 1")
    entries = [[make(task, name, settings=parse(set_ or []), seed=seed) for seed in range(seeds)] for name in names]
    histories, _ = read_log(data, columns, time_unit, sort, gap)
    tested, _ = read_log(test, columns, time_unit, sort, gap)
    for part, path in ((histories, data), (tested, test)):
        require_targets(part, str(path))
    held = read_log(valid, columns, time_unit, sort, gap)[0] if valid else None
    for predictors in entries:
        for predictor in predictors:
            show.remark(f"{predictor.model_name}, seed {predictor.seed}")
            show.training(predictor.fit(histories, held))
    found = score(entries, tested, protocol, cuts)
    show.put_json(found.to_dict()) if json else show.result(found, cuts)


def _records(source: str, columns: str, time_unit: str | None, sort: bool, gap: float | None) -> Iterator[History]:
    if source != "-":
        yield from read_log(Path(source), columns, time_unit, sort, gap)[0].records()
        return
    try:
        for number, line in enumerate(sys.stdin, 1):
            if line.strip():
                yield History.from_json(line, f"-:{number}")
    except UnicodeDecodeError as error:
        raise DataError(f"-: not UTF-8 ({error.reason} at byte {error.start}); send UTF-8") from error


@app.command()
def predict(
    folder: Folder,
    source: Annotated[str, typer.Argument(metavar="[INPUT]", help="a log, or - for JSON Lines on stdin")] = "-",
    k: Annotated[int, typer.Option("-k", help="choices an answer")] = 10,
    evidence: Annotated[bool, typer.Option(help="show what each choice leaned on")] = True,
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = False,
    gap: Gap = None,
    json: Json = False,
) -> None:
    """Rank what comes next after each history; ids never seen are welcome."""
    from ensue.cli import show
    from ensue.predictor import load

    predictor = load(folder)
    records = _records(source, columns, time_unit, sort, gap)
    while part := list(islice(records, 1 if source == "-" and sys.stdin.isatty() else 512)):
        for answer in predictor.predict(part, k, evidence=evidence):
            typer.echo(answer.to_json()) if json else show.answer(answer)


@app.command()
def explain(
    folder: Folder,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="a log, or - for JSON Lines on stdin")],
    html: Annotated[Path | None, typer.Option(help="draw the first history's weights into this page")] = None,
    k: Annotated[int, typer.Option("-k", help="choices an answer")] = 3,
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = False,
    gap: Gap = None,
    json: Json = False,
) -> None:
    """Show who leaned on whom inside each history, and what the answer loses without its most heeded events."""
    from ensue import figures
    from ensue.cli import show
    from ensue.predictor import load

    predictor = load(folder)
    records = _records(source, columns, time_unit, sort, gap)
    drawn = False
    while part := list(islice(records, 256)):
        for explanation in predictor.explain(part, k):
            if html and not drawn:
                figures.write_html(figures.dependency(explanation), html)
                show.remark(f"wrote {html}")
                drawn = True
            typer.echo(explanation.to_json()) if json else show.explanation(explanation)


app.command()(keeping.update)
app.command()(streaming.stream)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="the paper: hidan or sansr")],
    data: Annotated[Path, typer.Option(help="the folder with the paper's data sets")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer models and epochs: an impression in minutes")] = False,
    models: Annotated[str, typer.Option(help="only these rows; names, separated by commas")] = "",
    seeds: Annotated[int, typer.Option(help="trainings a model")] = 1,
    json: Annotated[Path | None, typer.Option(help="write {paper, command, commit, machine, tables} here")] = None,
) -> None:
    """Rebuild a paper's tables on the data at hand, both protocols, counting beside.

    Long studies keep their finished cells beside the JSON file: the same command goes on where it was stopped.
    """
    from ensue.cli import show
    from ensue.studies import PAPERS

    if paper not in PAPERS:
        raise SettingError(f"paper {paper!r} is not known; choose from {', '.join(PAPERS)}")
    kept = json.with_suffix(".cells.json") if json else None
    names, tell, follow = _names(models), show.remark, show.training
    found = PAPERS[paper](data, models=names, quick=quick, seeds=seeds, tell=tell, follow=follow, kept=kept)
    show.out.print(found.page, markup=False, highlight=False)
    if json:
        found.write(json)
        show.remark(f"wrote {json}")


@app.command()
def demo(
    seed: Seed = 0,
    html: Annotated[Path | None, typer.Option(help="draw the explained cascade into this page")] = None,
    json: Json = False,
) -> None:
    """A world made up on the spot, its truth known: train HiDAN, compare with counting, explain one cascade."""
    from ensue import figures
    from ensue.cli import show
    from ensue.studies.demo import run

    found = run(seed, tell=show.remark, follow=show.training)
    if html:
        figures.write_html(figures.dependency(found.explanation, truth=found.edges), html)
        show.remark(f"wrote {html}")
    show.put_json(found.to_dict()) if json else show.demo(found)
