"""Arguments and options that several verbs share, and the reading of a log as they say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ensue.settings import parse

if TYPE_CHECKING:
    from ensue.data.histories import Histories
    from ensue.data.tables import Understood

Columns = Annotated[str, typer.Option(help="roles to column names: sequence=…,value=…,time=…")]
TimeUnit = Annotated[str | None, typer.Option(help="unit of the times: s, ms, h or iso; found out unless stated")]
Sort = Annotated[bool, typer.Option("--sort", help="put the events of a sequence in order of time")]
Gap = Annotated[float | None, typer.Option(help="minutes of pause that end a session; 0 never cuts")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Folder = Annotated[Path, typer.Argument(help="a model folder made by `ensue fit`")]


def read_log(
    path: Path, columns: str, time_unit: str | None, sort: bool, gap: float | None
) -> tuple[Histories, Understood]:
    """The histories of a file, after showing what was understood of it."""
    from ensue.cli import show
    from ensue.data.tables import read

    histories, understood = read(
        path, columns=parse(columns.split(",")) if columns else None, time_unit=time_unit, sort=sort, gap=gap
    )
    show.understood(understood)
    return histories, understood
