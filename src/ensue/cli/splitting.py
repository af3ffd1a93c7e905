"""The command ``split``: two files of one, to train on and to score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ensue.cli import tasks
from ensue.cli.options import LINKED, TABLES, Data, Json, Reading, Seed, reads


@reads(*TABLES, *LINKED)
def split(
    context: typer.Context,
    data: Data = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder for train.csv and test.csv")],
    test: Annotated[float, typer.Option(help="fraction that becomes test.csv")] = 0.2,
    by: Annotated[
        Literal["time", "random", "user"] | None,
        typer.Option(help="[default: time, or random without times]", show_default=False),
    ] = None,
    task: Annotated[str, typer.Option(help="next, classify, suggest or link [default: auto]")] = "",
    seed: Seed = 0,
    json: Json = False,
    **options: Any,
) -> None:
    """Split a file into training and test data."""
    reading = Reading(**options)
    path = reading.data(data)
    chosen = tasks.chosen(task, context) if task else tasks.of_file(path, reading, context)
    from ensue.cli.split import run  # polars

    run(chosen, path, output, test, by or "auto", seed, reading, as_json=json)
