"""The verb ``demo``: a made-up event, five small models, and the page that asks them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    seed: Annotated[int, typer.Option(help="the same seed gives the same story and the same models")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="the folder to write: models, story.json and the logs")
    ] = Path("ensue-demo"),
    serve: Annotated[
        bool | None,
        typer.Option("--serve/--no-serve", help="show the page when all is learned; without a terminal, try it once"),
    ] = None,
    host: Annotated[str, typer.Option(help="address of the page")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free", min=0, max=65535)] = 8000,
    html: Annotated[Path | None, typer.Option(help="draw one explained cascade into this page")] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """A made-up event whose truth is known: five small models, counting beside them, and a page to ask them.

    Takes a minute or two. Nothing is fetched, and the page is for this machine alone.
    """
    from ensue.cli.story import tell  # imports torch

    tell(seed, output, serve, host, port, html, as_json=json)
