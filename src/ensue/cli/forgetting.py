"""The command ``forget``: remove what a model folder holds of people, and say what it cannot lose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import tasks
from ensue.cli.options import Folder, Json, Own, present
from ensue.errors import SettingError
from ensue.tasks.base import named


def forget(
    context: typer.Context,
    folder: Folder,
    user: Annotated[list[str] | None, typer.Option(help="whom to forget; may be repeated")] = None,
    users: Annotated[
        Path | None, typer.Option(callback=present, help="a file that names one of them on each line")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(callback=present, help="the log that was trained on, or their rows, read as the log was"),
    ] = None,
    model: Own = "",
    *,
    json: Json = False,
) -> None:
    """Remove what a model of next and its kept versions hold of some people, and list what cannot be removed.

    A folder holds no names: histories are recognised by their events in RECORDS. The exit code is 2 where nothing is
    known of them.
    """
    names = [*(user or []), *(users.read_text(encoding="utf-8").splitlines() if users else [])]
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise SettingError("no user is named; give --user ID, or --users FILE with one on each line")
    named("ensue.cli.forget_users:run")(tasks.of_folder(folder, context), folder, names, records, json)
