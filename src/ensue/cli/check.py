"""The command ``check``: how a file is read, and problems in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import LINKED, TABLES, Data, Json, Reading, all_present, reads


@reads(*TABLES, *LINKED, "min_users")
def check(
    context: typer.Context,
    data: Data = None,
    compare_to: Annotated[
        list[Path] | None, typer.Option(callback=all_present, help="file to search for leaks; repeatable")
    ] = None,
    *,
    task: Annotated[str, typer.Option(help="next, classify, suggest or link [default: auto]")] = "",
    json: Json = False,
    **options: Any,
) -> None:
    """Show how a file is read, and problems in it."""
    reading = Reading(**options)
    data = reading.data(data)
    chosen = tasks.chosen(task, context) if task else tasks.of_file(data, reading, context)
    reading = replace(reading, missing=reading.missing or "report")
    tasks.commands_of(chosen).check(data, compare_to or [], reading, json)
