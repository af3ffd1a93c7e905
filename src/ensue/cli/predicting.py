"""The commands ``predict`` and ``explain``: one answer per row of the data, in the order of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import TABLES, Folder, Json, Own, Reading, input_present, present, reads
from ensue.errors import SettingError

Source = Annotated[
    str, typer.Argument(metavar="DATA", callback=input_present, help="file, or - for lines of text or JSON on stdin")
]


@reads(*TABLES)
def predict(
    context: typer.Context,
    folder: Folder,
    source: Source = "-",
    k: Annotated[int, typer.Option("-k", help="answers per row")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write rows with answers: .csv, .tsv, .jsonl, .parquet")
    ] = None,
    attributions: Annotated[bool, typer.Option(help="show attributions of each answer", show_default=False)] = True,
    prefix: Annotated[str, typer.Option(help="suggest: what is typed already")] = "",
    exclude: Annotated[
        Path | None, typer.Option(callback=present, help="next: file of items to leave out, one per line")
    ] = None,
    allow: Annotated[Path | None, typer.Option(callback=present, help="next: file of the only items to rank")] = None,
    exclude_seen: Annotated[
        bool | None,
        typer.Option(
            "--exclude-seen/--include-seen", show_default=False, help="next: items of the session [default: by data]"
        ),
    ] = None,
    rank_unknown: Annotated[bool, typer.Option("--rank-unknown", help="next: rank items unseen in training")] = False,
    steps: Annotated[int | None, typer.Option(help="next: forecast this many events")] = None,
    model: Own = "",
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Predict the next items, labels, queries or articles for each row."""
    reading = Reading(**options)
    if output is not None and steps is not None:
        raise SettingError("-o and --steps: a forecast is no table; use --json > FILE")
    if steps is not None and (exclude or allow or rank_unknown or exclude_seen is not None):
        raise SettingError(
            "--steps ranks all items; remove --exclude, --allow, --rank-unknown, --exclude-seen and --include-seen"
        )
    if exclude_seen and rank_unknown:
        raise SettingError("--rank-unknown and --exclude-seen contradict each other; remove one")
    chosen = tasks.of_folder(folder, context)
    from ensue.cli.answering import predict as answer  # polars

    answer(
        chosen, folder, source, k, output, attributions, prefix, exclude, allow, exclude_seen, rank_unknown, steps,
        reading, as_json=json,
    )  # fmt: skip


@reads(*TABLES)
def explain(
    context: typer.Context,
    folder: Folder,
    source: Source,
    html: Annotated[Path | None, typer.Option(help="plot the first row's weights to this page")] = None,
    edges: Annotated[
        Path | None, typer.Option(callback=present, help="next: true edges to compare with, 'from to' per line")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="answers per row")] = 3,
    model: Own = "",
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Show attributions: weights, and how far a score drops without each event or word."""
    reading = Reading(**options)
    chosen = tasks.of_folder(folder, context)
    from ensue.cli.answering import explain as account  # polars

    account(chosen, folder, source, html, edges, k, reading, as_json=json)


def similar(
    folder: Folder,
    item: Annotated[str, typer.Argument(help="id of an item")],
    k: Annotated[int, typer.Option("-k", min=1, help="items to show")] = 10,
    model: Own = "",
    json: Json = False,
) -> None:
    """List the items most similar to an item, by the vectors that a network learned."""
    from ensue.cli.item_tables import show_similar  # torch

    show_similar(folder, item, k, as_json=json)
