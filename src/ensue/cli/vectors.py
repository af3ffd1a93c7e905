"""The command ``vectors``: the vectors of items, sessions, texts, queries, articles or posts as a Parquet file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display, tasks
from ensue.cli.options import TABLES, Data, Folder, OwnModel, Reading, reads, require_output
from ensue.lines import plural
from ensue.predictor import load
from ensue.store.folder import write_file


@reads(*TABLES)
def vectors(
    context: typer.Context,
    folder: Folder,
    data: Data = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write: .parquet")],
    model: OwnModel = "",
    reading: Reading,
) -> None:
    """Write the vectors of a model's items, or of the records of DATA, as Parquet."""
    require_output(output, [] if data is None else [data], formats=(".parquet",))
    command = tasks.commands_of(tasks.of_folder(folder, context))
    predictor = load(folder)
    from ensue.learning.vectors import description, vector_frame  # polars

    records = None
    if data is not None:
        records = list(command.read_records(str(data), reading.like(folder), predictor).records)
    frame = vector_frame(predictor, records)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=dict(description(predictor, of_records=data is not None)))
    write_file(output, buffer.getvalue())
    num_missing = frame["vector"].null_count()
    missing = f"; {num_missing:,} without a vector, since the model knows nothing in them" if num_missing else ""
    display.log(f"wrote {output}: {plural(len(frame), 'row')}{missing}")
