"""The verb ``prepare``: a log of any size, read once and written as columns that every other verb maps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli.options import Json, Reading, all_present, reads


@reads("columns", "time_unit", "sort", "gap", "encoding", "sheet", "max_unpacked")
def prepare(
    data: Annotated[
        list[Path],
        typer.Argument(
            callback=all_present,
            help="logs with an event a row: files, folders, or patterns in quotes such as 'logs/*.parquet'; CSV, TSV, "
            "JSON Lines or Parquet, plain or packed, read as one log in the order of their names",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="the folder to write, which must not be there; give it as DATA then")
    ],
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Read a large log once, in little memory, and write it as a folder that opens at once.

    `ensue fit next PREPARED -o MODEL` then learns from it, and so do check, evaluate, compare and predict. A log that
    fits in memory needs none of this: give it to `ensue fit` as it is. Killed, the same command goes on.
    """
    from ensue.cli.prepare_log import run  # polars

    run(data, output, Reading(**options), as_json=json)
