"""The verb ``spreaders``: who comes first, who is followed by most, and whom a model leaned on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli.options import TABLES, Data, Json, Own, Reading, Seed, reads


class By(StrEnum):
    """What people are ordered by."""

    FIRST = "first"
    FOLLOWED = "followed"
    CREDIT = "credit"


@reads(*TABLES)
def spreaders(
    data: Data = None,
    folder: Annotated[
        Path | None, typer.Option(help="a model folder of next: what later people leaned on each, beside the counts")
    ] = None,
    order_by: Annotated[
        By | None, typer.Option(help="order: first, followed or credit; credit with --folder, else followed")
    ] = None,
    top: Annotated[int, typer.Option(help="how many people")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write the table here too: .csv, .tsv, .jsonl, .parquet")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="draw them into this page, with --folder also a cascade along time")
    ] = None,
    model: Own = "",
    seed: Seed = 0,
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Who spreads it: counted, with 95 % over cascades drawn anew, and what a model leaned on; not who caused what."""
    reading = Reading(**options)
    place = reading.data(data)
    from ensue.cli.spread import run  # polars

    run(place, folder, order_by.value if order_by else None, top, output, html, seed, reading, as_json=json)
