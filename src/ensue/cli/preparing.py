"""The verb ``prepare``: a log of any size, read once and written as columns that every other verb maps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli.options import Json, Reading, all_present, reads


@reads(
    "columns", "events", "time_unit", "day_first", "sort", "session_gap", "encoding", "sheet", "max_unpacked", "missing"
)
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
    share: Annotated[
        str,
        typer.Option(
            help="read one share of the files alone, such as '2/8', the second of eight, into PREPARED.shares: the "
            "same command on each of several machines",
            show_default=False,
        ),
    ] = "",
    merge: Annotated[
        bool, typer.Option("--merge", help="put together the shares that stand in PREPARED.shares")
    ] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Read a large log once, in little memory, and write it as a folder that opens at once.

    `ensue fit next PREPARED -o MODEL` then learns from it, and so do check, evaluate, compare and predict. A log that
    fits in memory needs none of this: give it to `ensue fit` as it is. Killed, the same command goes on. Several
    machines prepare a share each, and one of them puts all together.
    """
    from ensue.cli.prepare_log import run  # polars

    run(data, output, Reading(**options), share=share, merge=merge, as_json=json)
