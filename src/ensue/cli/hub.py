"""The commands ``push`` and ``pull``: model folders on a model hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue import hub
from ensue.cli import display
from ensue.cli.options import Folder
from ensue.store.card import stored_lines

Repository = Annotated[str, typer.Argument(help="OWNER/NAME on the hub")]


def push(
    folder: Folder,
    repository: Repository,
    public: Annotated[bool, typer.Option("--public", help="let everybody see it [default: private]")] = False,
    license_: Annotated[str, typer.Option("--license", help="licence for the metadata, such as apache-2.0")] = "",
) -> None:
    """Upload a model folder and its card to the Hugging Face hub, privately (extra hub)."""
    pushed = hub.push(folder, repository, public=public, license=license_)
    visible = "private" if pushed.is_private else "public"
    display.log(f"pushed {folder} to {pushed.address} ({visible}); it holds of the training data:")
    for line in stored_lines(folder):
        display.log(line)


def pull(
    repository: Repository,
    output: Annotated[Path, typer.Option("--output", "-o", help="model folder to write")],
    revision: Annotated[str, typer.Option(help="branch, tag or commit [default: the latest]")] = "",
) -> None:
    """Download a model folder from the Hugging Face hub, after comparing its checksums (extra hub)."""
    commit = hub.pull(repository, output, revision=revision)
    display.log(f"saved {output}: {repository} at commit {commit}")
