"""The command ``demo``: a made-up event, five small models, and their page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli.options import Json, Seed


def demo(
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder to write: models, scenario, logs")] = Path(
        "ensue-demo"
    ),
    serve: Annotated[bool | None, typer.Option("--serve/--no-serve", help="serve the page after training")] = None,
    host: Annotated[str, typer.Option(help="address of the page")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port; 0: any free one", min=0, max=65535)] = 8000,
    html: Annotated[Path | None, typer.Option(help="plot one explained cascade to this page")] = None,
    json: Json = False,
) -> None:
    """Train five small models on a made-up event and serve a page that shows them.

    Takes a minute or two, needs no network, and the page is for this machine alone.
    """
    from ensue.cli.story import tell  # imports torch

    tell(seed, output, serve, host, port, html, as_json=json)
