"""The command ``update``: new data for a model folder, or the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import ITEMS, TABLES, Folder, Json, Own, Reading, present, reads
from ensue.errors import SettingError


@reads(*TABLES, "articles", *ITEMS)
def update(
    context: typer.Context,
    folder: Folder,
    new: Annotated[str | None, typer.Argument(help="new data; with --rollback a version")] = None,
    max_drop: Annotated[float, typer.Option(help="largest relative drop of the tested metric")] = 0.05,
    no_test: Annotated[bool, typer.Option("--no-test", help="accept the update without a test")] = False,
    keep_versions: Annotated[int, typer.Option(help="former versions to keep in FOLDER.versions")] = 5,
    rollback: Annotated[bool, typer.Option("--rollback", help="restore the latest or the given version")] = False,
    model: Own = "",
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Train a model further on new data, or restore an old version.

    The model is tested before and after on stored examples; a worse one is refused (exit code 1).
    """
    reading = Reading(**options)
    if new is None and reading.items is None and not rollback:
        raise SettingError("give new data, as in `ensue update FOLDER new.csv`, or --rollback")
    from ensue.store.versions import current

    if not rollback:
        current(folder)  # a wrong folder is found before a long log is read
    from ensue.cli import learning  # torch

    if rollback:
        learning.roll_back(folder, new, json)
        return
    chosen = tasks.of_folder(folder, context)
    if new is None:
        learning.add_items(folder, reading.like(folder), keep_versions, json)
        return
    source = present(Path(new)) or Path(new)
    from ensue.cli.command import command_of  # polars

    command_of(chosen).update(folder, source, reading.like(folder), None if no_test else max_drop, keep_versions, json)
