"""The verb ``fit``: train a model, or count, and write its folder."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import (
    ArticlesFile,
    Columns,
    Data,
    Encoding,
    Gap,
    Json,
    MaxUnpacked,
    MinUsers,
    Part,
    Phrases,
    Reading,
    Rules,
    Seed,
    Set,
    Sheet,
    Sort,
    Task,
    TimeUnit,
    settings_of,
)


def fit(
    context: typer.Context,
    task: Task,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="the model folder to write")],
    model: Annotated[str, typer.Option(help="a model's name, or best")] = "best",
    valid: Annotated[Path | None, typer.Option(help="data for early stopping; else a tenth is held out")] = None,
    set_: Set = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="continue a run that was interrupted")] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU is used when there is one")] = None,
    min_users: MinUsers = None,
    columns: Columns = "",
    time_unit: TimeUnit = None,
    sort: Sort = True,
    gap: Gap = None,
    encoding: Encoding = "",
    sheet: Sheet = "",
    max_unpacked: MaxUnpacked = None,
    phrases: Phrases = False,
    rules: Rules = "",
    part: Part = "",
    articles: ArticlesFile = None,
    json: Json = False,
) -> None:
    """Train a model (or count) and write its folder."""
    from ensue.cli import show
    from ensue.evaluation import describe
    from ensue.folder import require_writable
    from ensue.group import ranks
    from ensue.lock import only_writer
    from ensue.predictor import make

    chosen = tasks.named(task, context)
    reading = Reading.of(context)
    predictor = make(task, model, settings=settings_of(set_, min_users), seed=seed, device=device)
    require_writable(output)
    with ranks() as (rank, _):
        known = chosen.read(data, reading)
        chosen.require(known, data, learn=True)
        held = chosen.read(valid, reading) if valid else None
        with only_writer(output) if rank == 0 and output.exists() else nullcontext():
            place = output.resolve()
            checkpoint = place.with_name(f".{place.name}.checkpoint")
            reports = predictor.fit(known, held, checkpoint=checkpoint, resume=resume)
            try:
                show.training(reports) if rank == 0 else [None for _ in reports]
            except KeyboardInterrupt:
                show.remark("stopped; the same command with --resume continues from the last checkpoint")
                raise typer.Exit(130) from None
            if rank == 0:
                predictor.save(output, describe(predictor))
                _finish(predictor, output, checkpoint, chosen.told(predictor), as_json=json)


def _finish(predictor: Any, output: Path, checkpoint: Path, told: list[str], *, as_json: bool) -> None:
    """Checkpoints go; what was learned is told, and where it lies."""
    from ensue.cli import show

    for done in [path for path in checkpoint.parent.iterdir() if path.name.startswith(checkpoint.name)]:
        done.unlink(missing_ok=True)
    for line in told:
        show.remark(line)
    show.put_json({"folder": str(output), **predictor.summary()}) if as_json else show.remark(f"saved {output}")
