"""The command ``forget``: remove what a model folder holds of people, and list what cannot be removed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import tasks
from ensue.cli.options import Folder, Json, Own, present
from ensue.errors import SettingError


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
    model: Own = "",
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
    from ensue.cli.forget_users import run  # torch

    run(tasks.of_folder(folder, context), folder, names, records, user_column, json)
