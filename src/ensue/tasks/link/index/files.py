"""The files of an index: written once, named by ``index.json``, and compared with ``B2SUMS`` when they are read.

A change writes its files, then ``B2SUMS`` with what counts before and after it, then ``index.json`` in one step, then
``B2SUMS`` again with what counts now: wherever it stops, the index that stands can be checked. An index of before there
were checksums has none until its next change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.stored import read_stored
from ensue.errors import DataError, ModelFolderError
from ensue.store import checksums
from ensue.store.access import access_of, ensure_file
from ensue.store.checksums import chunks, digest, opened, sums_of
from ensue.store.folder import write_file

FORMAT = 1
MANIFEST = "index.json"


class Shard(TypedDict):
    """Files written once."""

    number: int
    rows: int


class Lists(TypedDict):
    """The file of inverted lists, and how many rows it has."""

    name: str
    rows: int


class Manifest(TypedDict):
    """What ``index.json`` says."""

    format: int
    dim: int
    bits: str
    kind: str
    next: int
    """The number of the next shard."""
    shards: list[Shard]
    gone: str | None
    """The file of rows that were deleted."""
    cells: NotRequired[Lists | None]
    checksums: NotRequired[str]


_KEYS = {"format", "dim", "bits", "kind", "next", "shards", "gone"}
_ROWS = {"id": pl.String, "print": pl.UInt64}


def names_of(number: int) -> tuple[str, str]:
    """The files of a shard: vectors and rows."""
    return f"vectors-{number}.npy", f"rows-{number}.parquet"


def half(folder: Path, name: str, reason: str) -> ModelFolderError:
    """What to raise of a file that does not fit."""
    return ModelFolderError(
        f"{folder}/{name}: missing or damaged ({reason}); delete the folder to build the index anew"
    )


def read_manifest(folder: Path) -> tuple[Manifest, dict[str, str]]:
    """What ``index.json`` says, and the checksums that there are.

    Raises:
        ModelFolderError: no index, half of one, a damaged one, or a newer one.
    """
    sums, data = sums_of(folder), _manifest_bytes(folder)
    while (again := sums_of(folder)) != sums:  # somebody commits a change just now
        sums, data = again, _manifest_bytes(folder)
    if sums.get(MANIFEST, digest([data])) != digest([data]):
        raise half(folder, MANIFEST, f"its checksum is not the one in {checksums.FILE}")
    try:
        manifest: Manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(
            f"{folder}/{MANIFEST}: unreadable ({error}); delete the folder to build it anew"
        ) from error
    if not isinstance(manifest, dict) or not manifest.keys() >= _KEYS:
        raise ModelFolderError(f"{folder}/{MANIFEST}: not written by ensue; name the folder of an index")
    if manifest["format"] > FORMAT:
        raise ModelFolderError(
            f"{folder}: an index of format {manifest['format']}, this ensue reads {FORMAT}; update ensue"
        )
    if "checksums" in manifest and manifest["shards"] and not sums:
        raise half(folder, checksums.FILE, "no checksum is there")
    return manifest, sums


def _manifest_bytes(folder: Path) -> bytes:
    if not os.path.lexists(folder / MANIFEST):
        unfinished = folder.is_dir() and any(path.name.startswith(("vectors-", "rows-")) for path in folder.iterdir())
        reason = (
            "an index that was never finished; delete the folder" if unfinished else "no index; name the folder of one"
        )
        raise ModelFolderError(f"{folder}: {reason}")
    with opened(folder, MANIFEST) as file:
        return file.read()


def write_manifest(folder: Path, manifest: Manifest, sums: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Commit a change.

    Args:
        folder: where.
        manifest: what ``index.json`` shall say.
        sums: checksums of the files that it names.
        before: those of the files that count until then.

    Raises:
        ModelFolderError: it cannot be written.
    """
    data = json.dumps(manifest).encode()
    either = {name: value for name, value in (*before.items(), *sums.items()) if name != MANIFEST}
    _write_sums(folder, either)
    write_file(folder / MANIFEST, data)
    _write_sums(folder, {**sums, MANIFEST: digest([data])})


def _write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    if sums:
        write_file(folder / checksums.FILE, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode())
    else:
        (folder / checksums.FILE).unlink(missing_ok=True)


def sums_for(folder: Path, names: Iterable[str], sums: Mapping[str, str]) -> dict[str, str]:
    """The checksums of some files; those that ``sums`` has are not computed again."""
    every = {}
    for name in names:
        if name in sums:
            every[name] = sums[name]
            continue
        with opened(folder, name) as file:
            every[name] = digest(chunks(file))
    return every


def require_file(folder: Path, name: str, sums: Mapping[str, str]) -> None:
    """A file must be there, be a file, and have its checksum, where there are any.

    Raises:
        ModelFolderError: it is not so.
    """
    try:
        with opened(folder, name) as file:
            fits = not sums or digest(chunks(file)) == sums.get(name)
    except ModelFolderError as error:
        raise half(folder, name, "is no file" if os.path.lexists(folder / name) else "is not there") from error
    if not fits:
        raise half(folder, name, f"its checksum is not the one in {checksums.FILE}")


def read_rows(folder: Path, name: str) -> pl.DataFrame:
    """Ids and hashes of a shard.

    Raises:
        ModelFolderError: it is damaged.
    """
    with opened(folder, name) as file:
        data = file.read()
    try:
        return read_stored(folder / name, data, _ROWS)
    except DataError as error:
        raise half(folder, name, str(error).removeprefix(f"{folder / name}: ")) from error


def save(path: Path, array: npt.NDArray[np.generic]) -> None:
    """Write an array.

    Raises:
        ModelFolderError: the disk is full or the place cannot be written.
    """
    try:
        ensure_file(path, access_of(path.with_name(MANIFEST)))
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise ModelFolderError(f"{path}: cannot be written ({error.strerror}); the index is unchanged") from error


def save_rows(path: Path, frame: pl.DataFrame) -> None:
    """Write ids and hashes.

    Raises:
        ModelFolderError: the disk is full or the place cannot be written.
    """
    try:
        ensure_file(path, access_of(path.with_name(MANIFEST)))
        frame.write_parquet(path)
        flush(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ModelFolderError(f"{path}: cannot be written ({error}); the index is unchanged") from error


def flush(path: Path) -> None:
    """Bring a file to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
