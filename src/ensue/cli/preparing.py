"""The command ``prepare``: a log of any size as a folder of columns that other commands map into memory."""

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
        list[Path], typer.Argument(callback=all_present, help="files, folders or 'logs/*.parquet'", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="folder to write; later commands take it as DATA")],
    *,
    share: Annotated[str, typer.Option(help="one of several shares, such as 2/8", show_default=False)] = "",
    merge: Annotated[bool, typer.Option("--merge", help="merge the shares in OUTPUT.shares")] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Convert a log that exceeds memory to a folder that opens at once.

    Run the same command again to continue after an interruption. Several machines can prepare one share each.
    """
    from ensue.cli.prepare_log import run  # polars

    run(data, output, Reading(**options), share=share, merge=merge, as_json=json)
