"""The command ``spreaders``: users who come first, whom many follow, and to whom a model attends."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli.options import TABLES, Data, Json, Own, Reading, Seed, reads


class By(StrEnum):
    """Order of the users."""

    FIRST = "first"
    FOLLOWED = "followed"
    CREDIT = "credit"


@reads(*TABLES)
def spreaders(
    data: Data = None,
    folder: Annotated[Path | None, typer.Option(help="model folder (next), for attributions")] = None,
    order_by: Annotated[By | None, typer.Option(help="[default: credit with --folder, else followed]")] = None,
    top: Annotated[int, typer.Option(help="users to show")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write the table: .csv, .tsv, .jsonl, .parquet")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="plot the users to this page")] = None,
    model: Own = "",
    seed: Seed = 0,
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Rank users by how they spread cascades, with 95 % intervals (associations, not causes)."""
    reading = Reading(**options)
    place = reading.data(data)
    from ensue.cli.spread import run  # polars

    run(place, folder, order_by.value if order_by else None, top, output, html, seed, reading, as_json=json)
