"""The command ``update``: new data for a model folder, or the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display, tasks
from ensue.cli.options import ITEMS, TABLES, Folder, Json, OwnModel, Reading, present, reads
from ensue.errors import SettingError
from ensue.store.versions import current, kept


@reads(*TABLES, "articles", *ITEMS)
def update(
    context: typer.Context,
    folder: Folder,
    new: Annotated[str | None, typer.Argument(help="new data; with --rollback a version")] = None,
    max_drop: Annotated[float, typer.Option(help="largest relative drop of the tested metric")] = 0.05,
    no_test: Annotated[bool, typer.Option("--no-test", help="accept the update without a test")] = False,
    keep_versions: Annotated[int, typer.Option(help="former versions to keep in FOLDER.versions")] = 5,
    rollback: Annotated[bool, typer.Option("--rollback", help="restore the latest or the given version")] = False,
    model: OwnModel = "",
    *,
    json: Json = False,
    reading: Reading,
) -> None:
    """Train a model further on new data, or restore an old version.

    The model is tested before and after on stored examples; a worse one is refused (exit code 1).
    """
    if rollback:
        _roll_back(folder, new, json)
        return
    if new is None and reading.items is None:
        raise SettingError("give new data, as in `ensue update FOLDER new.csv`, or --rollback")
    former = current(folder)  # a wrong folder is found before a long log is read
    source = None if new is None else present(Path(new)) or Path(new)
    command = tasks.commands_of(tasks.of_folder(folder, context))
    reading = reading.like(folder)
    from ensue import refresh  # torch

    # Records are read by what the active model was trained on, once the folder is locked.
    result = refresh.refresh(
        folder,
        lambda predictor: command.read_update(source, reading, predictor),
        # Items alone are added without a test, as there are no new examples.
        max_drop=None if no_test or source is None else max_drop,
        keep=keep_versions,
        follow=display.training,
    )
    if json:
        display.print_json({"folder": str(folder), **result.to_dict()})
    else:
        if result.slices:
            display.table(result.heads, result.rows(), title="old and new model, metrics in %")
        if result.held:
            display.line(f"newest: {result.held} of the new log, held out from training for this test")
        if result.accepted:
            display.line(result.verdict)
    if not result.accepted:
        display.log(f"{folder}: {result.verdict}")
        raise typer.Exit(1)
    if result.warning:
        restore = f"`ensue update {folder} --rollback` restores version {former}"
        display.log(f"warning: {result.warning}; {restore}")


def _roll_back(folder: Path, number: str | None, json: bool) -> None:
    """Restore the version of this number, or the latest."""
    if number is not None and not number.isdecimal():
        raise SettingError(f"--rollback {number}: give the number of a version, or none for the latest")
    from ensue import refresh  # torch

    active, replaced = refresh.roll_back(folder, None if number is None else int(number))
    if json:
        display.print_json({"folder": str(folder), "version": active, "kept": kept(folder)})
    else:
        display.log(f"{folder}: restored version {active}; version {replaced} is still available")
