"""The command ``forget``: remove what a model folder holds of people, and list what cannot be removed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display, tasks
from ensue.cli.options import Folder, Json, OwnModel, Reading, present
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural


def forget(
    context: typer.Context,
    folder: Folder,
    user: Annotated[list[str] | None, typer.Option(help="user id; repeatable")] = None,
    users: Annotated[Path | None, typer.Option(callback=present, help="file of user ids, one per line")] = None,
    records: Annotated[
        Path | None, typer.Option(callback=present, help="whole training log, with the users' rows")
    ] = None,
    user_column: Annotated[
        str, typer.Option(help="column of user ids in RECORDS; of JSON also a path: user.name")
    ] = "",
    model: OwnModel = "",
    *,
    json: Json = False,
) -> None:
    """Remove users from a model, its versions and its stream, and list what cannot be removed.

    Folders hold no user names: what users did is found by their rows in RECORDS. Exit code 2: nothing was found.
    """
    names = [*(user or []), *(users.read_text(encoding="utf-8").splitlines() if users else [])]
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise SettingError("no user is named; give --user ID, or --users FILE with one on each line")
    task = tasks.of_folder(folder, context)
    from ensue.refresh.forget import forget as forget_users  # torch

    data = None
    if records is not None:
        data = tasks.commands_of(task).read_people(records, Reading().like(folder), names, user_column)
    result = forget_users(folder, names, data)
    if json:
        display.print_json(result.to_dict())
    elif result.removed:
        rows = [(removal.folder, removal.file, removal.what, f"{removal.count:,}") for removal in result.removed]
        display.table(("folder", "file", "content", "removed"), rows, wraps=("folder", "content"))
    if not json:
        for line in result.remains:
            display.line(f"not removed: {line}")
    if not result.removed:
        hint = "" if records else "; model folders hold no user names: give --records with the training log"
        raise DataError(f"{folder}: holds nothing of {plural(len(names), 'user')} {listed(names)}{hint}")
