"""The commands ``pack`` and ``unpack``: a model folder as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ensue.cli import display
from ensue.cli.options import Folder, require_output
from ensue.store import archive
from ensue.store.card import stored_lines


def pack(
    folder: Folder, output: Annotated[Path, typer.Option("--output", "-o", help="file to write, such as next.ensue")]
) -> None:
    """Write a model folder as one file with checksums, the same bytes for the same folder."""
    require_output(output, [], formats=(archive.SUFFIX,))
    archive.pack(folder, output)
    display.log(f"wrote {output} ({output.stat().st_size / 1e6:,.1f} MB); it holds of the training data:")
    for line in stored_lines(folder):
        display.log(line)


def unpack(
    file: Annotated[Path, typer.Argument(help="file written by `ensue pack`")],
    output: Annotated[Path, typer.Option("--output", "-o", help="model folder to write")],
) -> None:
    """Write the model folder that a packed file holds, after comparing its checksums."""
    archive.unpack(file, output)
    display.log(f"saved {output}")
