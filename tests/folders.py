"""Model folders as tests take them apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl

from ensue.store.checksums import FILE, digest, lines_of
from ensue.store.pack import files_of, read_packed
from ensue.tasks.next.predictor import FittedNext


def resum(folder: Path) -> Path:
    """Make the checksums those of the files that are there, as whoever edits a folder on purpose does."""
    if not folder.is_dir():
        return folder
    files = (path for path in folder.iterdir() if path.is_file())
    (folder / FILE).write_bytes(lines_of({path.name: digest([path.read_bytes()]) for path in files}))
    return folder


def put_vocabulary(folder: Path, values: Sequence[str]) -> None:
    """Give a folder of task ``next`` another vocabulary, which may hold a value twice."""
    fitted = cast(Any, read_packed(FittedNext, folder))
    fitted.vocabulary = pl.Series(values, dtype=pl.String)
    for name, content in files_of(fitted).items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else b"".join(content))
    resum(folder)
