"""The command ``serve``: model folders over HTTP, with their web page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ensue.cli.options import OwnModels, present
from ensue.errors import SettingError
from ensue.experiments import read_interleaved, read_split
from ensue.registry import task_of
from ensue.settings import changed, parse

TOKEN, UPDATE_TOKEN = "ENSUE_TOKEN", "ENSUE_UPDATE_TOKEN"


def serve(
    folders: Annotated[list[str], typer.Argument(metavar="FOLDER...", help="model folders: FOLDER or NAME=FOLDER")],
    host: Annotated[str, typer.Option(help=f"address; any but this machine's needs {TOKEN}")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port; 0: any free one", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="processes", min=1)] = 1,
    queue: Annotated[str | None, typer.Option(help="queue of `ensue stream`: sqlite:FILE or redis://…")] = None,
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME:A=SHARE,B=SHARE", help="A/B test of models at one address")
    ] = None,
    interleave: Annotated[
        list[str] | None, typer.Option(metavar="NAME:A,B", help="address whose lists are interleaved of two models")
    ] = None,
    shown: Annotated[Path | None, typer.Option(help="file to which lists of variants are appended")] = None,
    scenario: Annotated[Path | None, typer.Option(help="demo scenario, written by `ensue demo`")] = None,
    edges: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="true edges to plot, 'from to' per line")
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="host name of the service; repeatable")] = None,
    model: OwnModels = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="refuse updates over HTTP")] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="limit=value, such as patience=5")] = None,
) -> None:
    """Serve models over HTTP, with a web page.

    Replaced folders are loaded at once. Clients send ENSUE_TOKEN, and ENSUE_UPDATE_TOKEN for updates and events.
    """
    models = named(folders)
    for folder in models.values():
        task_of(folder)  # no model is folders out before anything is imported
    try:
        from ensue.serve.server import run
        from ensue.serve.settings import ServeSettings
    except ImportError as error:
        raise SettingError(f"the service needs {error.name}; install it with: pip install 'ensue[serve]'") from error

    # Settings by name go through the same checks as those of a model.
    (settings,) = changed(
        {**parse(set_ or []), "hosts": tuple(allow_host or ()), "learn": not read_only}, ServeSettings()
    )
    run(
        models,
        host=host,
        port=port,
        workers=workers,
        story=scenario,
        edges=_edges(edges or []),
        queue=queue,
        experiments=[*map(read_split, split or []), *map(read_interleaved, interleave or [])],
        shown=shown,
        token=os.environ.get(TOKEN, ""),
        update_token=os.environ.get(UPDATE_TOKEN, ""),
        settings=settings,
    )


def _edges(texts: list[str]) -> dict[str, Path]:
    """``NAME=FILE``.

    Raises:
        SettingError: of another form.
        DataError: there is no such file.
    """
    if wrong := [text for text in texts if "=" not in text]:
        raise SettingError(f"--edges {wrong[0]}: write NAME=FILE, with the name of a served model before the file")
    pairs = (text.partition("=") for text in texts)
    return {name: present(Path(path)) or Path(path) for name, _, path in pairs}


def named(texts: list[str]) -> dict[str, Path]:
    """``NAME=FOLDER``, or a folder whose last part is its name.

    Raises:
        SettingError: a name twice.
    """
    folders: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        folder = Path(path if equals else text)
        name = name if equals else folder.resolve().name
        if name in folders:
            raise SettingError(f"two folders are named {name!r}; write NAME=FOLDER for one of them")
        folders[name] = folder
    return folders
