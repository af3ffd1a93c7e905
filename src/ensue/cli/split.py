"""The command ``split``: two files of one, to train on and to score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from ensue.cli import display, tasks
from ensue.cli.options import LINKED, TABLES, Data, Json, Reading, Seed, reads
from ensue.data.schema import kind_weights
from ensue.errors import SettingError
from ensue.store.folder import write_file


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
    reading: Reading,
) -> None:
    """Split a file into training and test data."""
    path = reading.data(data)
    file_task = tasks.of_file(path, reading, task, context)
    if existing := [*output.glob("train.*"), *output.glob("test.*")]:
        raise SettingError(f"{min(existing)}: exists already; name another folder with --output")
    from ensue.data import test_split  # polars

    # Rows of every weight are written, with their kinds and weights as they are.
    reading = replace(reading, events=",".join(kind_weights(reading.events)), logged=True)
    halves = test_split.split_data(tasks.commands_of(file_task).read(path, reading)[0], test, seed, by or "auto")
    output.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, half in zip(("train", "test"), halves, strict=True):
        frame = test_split.to_frame(half)
        nested = any(column.dtype.is_nested() for column in frame)
        file = output / f"{name}.{'jsonl' if nested else 'csv'}"
        write_file(file, (frame.write_ndjson() if nested else frame.write_csv()).encode())
        written[name] = {"file": str(file), "rows": len(half)}
    if json:
        display.print_json(written)
    for name, side in written.items():
        display.log(f"wrote {side['file']}: {side['rows']:,} for {'training' if name == 'train' else 'the test'}")
