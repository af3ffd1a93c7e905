"""The command ``update``: new data for a model folder, or the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.options import TABLES, Folder, Json, Own, Reading, present, reads
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.tasks.base import Task


@reads(*TABLES, "articles")
def update(
    context: typer.Context,
    folder: Folder,
    new: Annotated[str | None, typer.Argument(help="new data; with --rollback a version")] = None,
    max_drop: Annotated[float, typer.Option(help="largest relative drop of the tested metric")] = 0.05,
    no_test: Annotated[bool, typer.Option("--no-test", help="accept the update without a test")] = False,
    keep_versions: Annotated[int, typer.Option(help="former versions to keep in FOLDER.versions")] = 5,
    rollback: Annotated[bool, typer.Option("--rollback", help="restore the latest or the given version")] = False,
    items: Annotated[Path | None, typer.Option(callback=present, help="next: table of new items")] = None,
    model: Own = "",
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Train a model further on new data, or restore an old version.

    The model is tested before and after on stored examples; a worse one is refused (exit code 1).
    """
    reading = Reading(**options)
    from ensue.store.versions import current

    if rollback:
        _roll_back(folder, new, json)
        return
    if new is None and items is None:
        raise SettingError("give new data, as in `ensue update FOLDER new.csv`, or --rollback")
    current(folder)  # a wrong folder is found before a long log is read
    if items is not None:
        _add_items(folder, items, tasks.of_folder(folder, context), keep_versions, json)
    if new is None:
        return
    source = present(Path(new)) or Path(new)
    chosen = tasks.of_folder(folder, context)
    from ensue.cli.command import command_of  # polars

    command_of(chosen).update(folder, source, reading.like(folder), None if no_test else max_drop, keep_versions, json)


def _add_items(folder: Path, path: Path, task: Task, keep: int, json: bool) -> None:
    """Add the items of a table to a model folder: each can be an answer at once."""
    if task.name != "next":
        raise SettingError(f"--items belongs to task next; {folder} is a model of task {task.name}")
    from ensue.cli import show
    from ensue.data.items import Items, read_items
    from ensue.refresh import refresh
    from ensue.tasks.next.predictor import NextPredictor

    def read(predictor: NextPredictor) -> Items:
        known = predictor.known_items
        items, warnings = read_items(path, like=None if known is None else known.items)
        for warning in warnings:
            show.remark(f"warning: {warning}")
        show.remark(f"{path}: {plural(len(items), 'item')}")
        return items

    found = refresh(folder, read, max_drop=None, keep=keep)
    if json:
        show.put_json({"folder": str(folder), "version": found.version})
    else:
        show.remark(f"{folder}: items added; version {found.version} is active")


def _roll_back(folder: Path, number: str | None, json: bool) -> None:
    from ensue.cli import show
    from ensue.refresh import roll_back
    from ensue.store.versions import kept

    if number is not None and not number.isdecimal():
        raise SettingError(f"--rollback {number}: give the number of a version, or none for the latest")
    stands, replaced = roll_back(folder, None if number is None else int(number))
    if json:
        show.put_json({"folder": str(folder), "version": stands, "kept": kept(folder)})
    else:
        show.remark(f"{folder}: restored version {stands}; version {replaced} is still available")
