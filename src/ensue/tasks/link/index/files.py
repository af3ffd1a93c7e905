"""The files of an index: written once, named by ``index.json``, and compared with ``B2SUMS`` when they are read.

A change writes its files, then ``B2SUMS`` with what counts before and after it, then ``index.json`` in one step, then
``B2SUMS`` again with what counts now: wherever it stops, the index that stands can be checked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.files import read_stored
from ensue.errors import DataError, ModelFolderError
from ensue.lines import decode_json, one_line
from ensue.store import checksums
from ensue.store.access import access_of, ensure_file
from ensue.store.checksums import chunks, digest, opened, sums_of
from ensue.store.folder import MAX_SETTINGS_BYTES, write_file

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
    next_number: int
    """The number of the next shard."""
    shards: list[Shard]
    gone: str | None
    """The file of rows that were deleted."""
    cells: Lists | None


Number = TypeVar("Number", bound=np.generic)
BITS: Mapping[str, type[np.floating]] = {"float16": np.float16, "float32": np.float32}
"""Types of the numbers of vectors, by name."""
_GONE, _LISTS = re.compile(r"gone-[0-9]+\.npy"), re.compile(r"cells-[0-9]+\.faiss")
_ROWS = {"id": pl.String, "print": pl.UInt64}


def names_of(number: int) -> tuple[str, str]:
    """The files of a shard: vectors and rows."""
    return f"vectors-{number}.npy", f"rows-{number}.parquet"


def half(folder: Path, name: str, reason: str) -> ModelFolderError:
    """What to raise of a file that does not fit."""
    return ModelFolderError(
        f"{folder}/{name}: missing or damaged ({reason}); delete the folder to build the index again"
    )


def read_manifest(folder: Path) -> tuple[Manifest, dict[str, str]]:
    """Return what ``index.json`` says, and the checksums.

    Raises:
        ModelFolderError: no index, half of one, a damaged one, or a newer one.
    """
    data = _manifest_bytes(folder)
    sums = sums_of(folder)
    while (again := _manifest_bytes(folder)) != data:  # another process commits a change just now
        data, sums = again, sums_of(folder)
    # Between the steps of a change the manifest is not named: it is whole, for it is replaced in one step.
    if sums.get(MANIFEST, digest([data])) != digest([data]):
        raise half(folder, MANIFEST, f"its checksum is not the one in {checksums.FILE}")
    try:
        value = decode_json(data)
    except ValueError as error:
        raise ModelFolderError(
            f"{folder}/{MANIFEST}: unreadable ({error}); delete the folder to build it again"
        ) from error
    layout = value.get("format") if isinstance(value, dict) else None
    if isinstance(layout, int) and layout > FORMAT:
        raise ModelFolderError(f"{folder}: has index format {layout}, this version reads {FORMAT}; update ensue")
    if not _is_manifest(value):
        raise ModelFolderError(f"{folder}/{MANIFEST}: not written by ensue; name the folder of an index")
    return value, sums


def _is_manifest(value: object) -> TypeGuard[Manifest]:
    """Whether decoded JSON is a manifest, whose names are those of files of an index and nothing else."""
    match value:
        case {
            "format": 1, "dim": int(dim), "bits": str(bits), "kind": str(), "next_number": int(following),
            "shards": list(shards), "gone": None | str() as gone, "cells": None | dict() as cells,
        }:  # fmt: skip
            counts = [dim, following]
        case _:
            return False
    for part in [*shards, *([cells] if cells is not None else [])]:
        match part:
            case {"number": int(number), "rows": int(rows)}:
                counts += [number, rows]
            case {"name": str(name), "rows": int(rows)} if part is cells and _LISTS.fullmatch(name):
                counts += [rows]
            case _:
                return False
    return bits in BITS and (gone is None or _GONE.fullmatch(gone) is not None) and min(counts) > 0


def _manifest_bytes(folder: Path) -> bytes:
    if not os.path.lexists(folder / MANIFEST):
        unfinished = folder.is_dir() and any(path.name.startswith(("vectors-", "rows-")) for path in folder.iterdir())
        reason = (
            "the index is incomplete; delete the folder" if unfinished else "not an index; give the folder of an index"
        )
        raise ModelFolderError(f"{folder}: {reason}")
    with opened(folder, MANIFEST) as file:
        return file.read(MAX_SETTINGS_BYTES)


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
    lines = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    write_file(folder / checksums.FILE, lines.encode())


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
    """Check that a file is there, is a regular file, and has its checksum.

    Raises:
        ModelFolderError: it is not so.
    """
    try:
        with opened(folder, name) as file:
            fits = digest(chunks(file)) == sums.get(name)
    except (ModelFolderError, OSError) as error:
        raise half(folder, name, "is not a file" if os.path.lexists(folder / name) else "is not there") from error
    if not fits:
        raise half(folder, name, f"its checksum is not the one in {checksums.FILE}")


def read_rows(folder: Path, name: str) -> pl.DataFrame:
    """Return ids and hashes of a shard.

    Raises:
        ModelFolderError: it is damaged.
    """
    with opened(folder, name) as file:
        data = file.read()
    try:
        return read_stored(folder / name, data, _ROWS)
    except (DataError, pl.exceptions.PolarsError) as error:
        raise half(folder, name, one_line(str(error).removeprefix(f"{folder / name}: "))) from error


def read_array(folder: Path, name: str, dtype: type[Number], shape: tuple[int | None, ...]) -> npt.NDArray[Number]:
    """Map an array: what is written to it stays in this process, and torch takes it.

    Args:
        folder: of an index.
        name: of the file.
        dtype: of its numbers, exactly.
        shape: its sizes; ``None`` for any.

    Raises:
        ModelFolderError: another type or shape, or damage.
    """
    try:
        array = np.load(folder / name, mmap_mode="c", allow_pickle=False)
    except Exception as error:  # a header of a stranger is parsed as Python
        raise half(folder, name, one_line(str(error))) from error
    if not isinstance(array, np.ndarray) or array.dtype != dtype or len(array.shape) != len(shape):
        raise half(folder, name, "is not what was written")
    if any(wanted not in (None, size) for wanted, size in zip(shape, array.shape, strict=True)):
        raise half(folder, name, f"{len(array):,} rows where {shape[0]:,} were written")
    return array


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
