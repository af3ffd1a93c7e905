"""The verbs ``predict`` and ``explain``: an answer for every row or sequence, in its order, with its id or number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import (
    TABLES,
    Folder,
    Json,
    Own,
    Reading,
    input_present,
    present,
    reads,
)
from ensue.errors import SettingError


@reads(*TABLES)
def predict(
    context: typer.Context,
    folder: Folder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="[INPUT]",
            callback=input_present,
            help="a log or texts; - for JSON Lines, or plain texts, on stdin",
        ),
    ] = "-",
    k: Annotated[int, typer.Option("-k", help="choices an answer")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="write the rows with their answers beside them here: .csv, .tsv, .jsonl, .parquet"
        ),
    ] = None,
    attributions: Annotated[bool, typer.Option(help="show what each choice leaned on")] = True,
    prefix: Annotated[str, typer.Option(help="of suggestions: what stands in the search box already")] = "",
    exclude: Annotated[
        Path | None, typer.Option(callback=present, help="of next: a file of values, one a line, that are no answer")
    ] = None,
    allow: Annotated[
        Path | None, typer.Option(callback=present, help="of next: a file of the only values that are answers")
    ] = None,
    exclude_seen: Annotated[
        bool | None,
        typer.Option(
            "--exclude-seen/--include-seen",
            show_default=False,
            help="of next: items of a history are no answers to it, or may be; unless given as `fit` found out",
        ),
    ] = None,
    rank_unknown: Annotated[
        bool,
        typer.Option(
            "--rank-unknown",
            help="of next: values of a history that the training data lacks may be answers too, as `evaluate --unknown "
            "rank` scores them",
        ),
    ] = False,
    steps: Annotated[int | None, typer.Option(help="of next: roll forward so far, who and when and whether")] = None,
    model: Own = "",
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Rank what comes next after each history, or the labels of each text: one answer a row; new values are welcome."""
    reading = Reading(**options)
    if output is not None and steps is not None:
        raise SettingError("-o and --steps: a forecast has no row a sequence; give --json and > instead of -o")
    if steps is not None and (exclude or allow or rank_unknown or exclude_seen is not None):
        raise SettingError(
            "--steps: rolls forward over all values; leave out --exclude, --allow, --rank-unknown, --exclude-seen and "
            "--include-seen"
        )
    if exclude_seen and rank_unknown:
        raise SettingError("--rank-unknown: ranks items that a history holds, which --exclude-seen leaves out")
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
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            callback=input_present,
            help="a log or texts; - for JSON Lines, or plain texts, on stdin",
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="draw the first one's weights into this page")] = None,
    edges: Annotated[
        Path | None,
        typer.Option(
            callback=present, help="of next: who truly passes to whom, 'from to' a line, beside what it leaned on"
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="choices an answer")] = 3,
    model: Own = "",
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Show what an answer leaned on inside each history or text, and how far the score drops without that."""
    reading = Reading(**options)
    chosen = tasks.of_folder(folder, context)
    from ensue.cli.answering import explain as account  # polars

    account(chosen, folder, source, html, edges, k, reading, as_json=json)
