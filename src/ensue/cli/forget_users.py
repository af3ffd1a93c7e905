"""Runs the command ``forget`` and shows what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ensue.cli import show
from ensue.cli.command import command_of
from ensue.cli.options import Reading
from ensue.errors import DataError
from ensue.lines import listed, plural
from ensue.refresh.forget import forget
from ensue.tasks.base import Task


def run(task: Task, folder: Path, users: Sequence[str], records: Path | None, column: str, json: bool) -> None:
    """Forget some users and print what was removed where, and what remains.

    Raises:
        DataError: holds nothing of them.
    """
    data = None if records is None else command_of(task).read_people(records, Reading().like(folder), users, column)
    found = forget(folder, users, data)
    if json:
        show.put_json(found.to_dict())
    elif found.removed:
        rows = [(one.folder, one.file, one.what, f"{one.count:,}") for one in found.removed]
        show.table(("folder", "file", "content", "removed"), rows, wraps=("folder", "content"))
    if not json:
        for line in found.remains:
            show.line(f"not removed: {line}")
    if not found.removed:
        way = "" if records else "; model folders hold no user names: give --records with the training log"
        raise DataError(f"{folder}: holds nothing of {plural(len(users), 'user')} {listed(users)}{way}")
