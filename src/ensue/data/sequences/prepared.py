"""A prepared log: the columns of its histories as files that are mapped, not read, and a manifest that is written last.

============  ===========================================================================
ids           (events,) int32
times         (events,) float64 seconds; empty where the log has no clock
offsets       (histories + 1,) int64
names         Arrow, a text a history
values        Arrow, the values in order of their ids, from id 2 on
prepared.json what was understood of the log, how it was read, and size and CRC-32 of each file
============  ===========================================================================
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.file_bytes import flush, open_input, read_input
from ensue.data.files import answering
from ensue.data.histories import Histories
from ensue.data.schema import SequencesReport
from ensue.errors import DataError
from ensue.version import __version__
from ensue.vocabulary import FIRST, Vocabulary

MANIFEST = "prepared.json"
FORMAT = 1
_STEP = 2**22
_COLUMNS = {"ids": np.int32, "offsets": np.int64, "times": np.float64}
_TABLES = {"names": "name", "values": "value"}
_PLAIN = pl.CompatLevel.oldest()
"""Texts one after the other: newer forms keep traces of the pieces that they were put together from."""


def is_prepared(path: Path) -> bool:
    """Return whether a folder is what ``ensue prepare`` writes."""
    return (path / MANIFEST).is_file()


@dataclass(frozen=True)
class LogSize:
    """Size of a prepared log."""

    sequences: int
    events: int
    values: int
    """Distinct ones."""


class Writer:
    """Writes the columns into a folder, histories after histories; there is no manifest before the end.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = self.histories = 0
        self._names = 0
        for name in _COLUMNS:
            (folder / name).touch()
        self._put("offsets", np.zeros(1, np.int64))

    def add(self, histories: Histories) -> None:
        """Append histories; their ids are final."""
        self._put("ids", histories.ids)
        self._put("times", histories.times)
        # Offsets of a piece count from its first event: 0 2 5 after 7 events gives 9 12.
        self._put("offsets", histories.offsets[1:] + self.events)
        if len(histories.names):
            pl.DataFrame({"name": histories.names.alias("name")}).write_ipc(
                self.folder / f"names-{self._names:06}", compat_level=_PLAIN
            )
            self._names += 1
        self.events += len(histories.ids)
        self.histories += len(histories)

    def finish(self, values: pl.Series, report: SequencesReport, read: dict[str, object]) -> LogSize:
        """Write what is left, the manifest last.

        Args:
            values: the values in order of their ids.
            report: what was understood.
            read: the files and how they were read, for the manifest.
        """
        pl.DataFrame({"value": values.alias("value")}).write_ipc(self.folder / "values", compat_level=_PLAIN)
        # Names come in pieces, for no file of Arrow can be appended to: they become one file.
        name_files = sorted(self.folder.glob("names-*"))
        if len(name_files) == 1:
            name_files[0].rename(self.folder / "names")
        elif name_files:
            pl.scan_ipc(name_files).sink_ipc(self.folder / "names", compat_level=_PLAIN)
            for name_file in name_files:
                name_file.unlink()
        else:
            pl.DataFrame({"name": []}, schema={"name": pl.String}).write_ipc(self.folder / "names")
        files = {
            name: {"bytes": (self.folder / name).stat().st_size, "crc32": _sum(self.folder / name)}
            for name in (*_COLUMNS, *_TABLES)
        }
        counts = LogSize(self.histories, self.events, len(values))
        manifest = {
            "ensue": __version__,
            "format": FORMAT,
            **asdict(counts),
            "report": asdict(report),
            "read": read,
            "files": files,
        }
        # A folder without a manifest is none: nothing may be missing once it is there.
        (self.folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for path in self.folder.iterdir():
            flush(path)
        flush(self.folder)
        return counts

    def _put(self, name: str, column: npt.NDArray[np.generic]) -> None:
        with (self.folder / name).open("ab") as file:
            np.asarray(column, _COLUMNS[name]).tofile(file)


def read_prepared(path: Path) -> tuple[Histories, SequencesReport]:
    """The histories of a prepared log, their columns mapped: all processes that read it share its pages.

    Raises:
        DataError: the folder is not what was written.
    """
    manifest = _manifest(path)
    try:
        report = manifest["report"]
        # JSON has lists where the report has tuples, and the folder may have been moved.
        report |= {"path": str(path), **{name: tuple(report[name]) for name in ("notes", "warnings")}}
        understood = SequencesReport(**report)
        for name, entry in manifest["files"].items():
            if (path / name).stat().st_size != entry["bytes"] or _sum(path / name) != entry["crc32"]:
                raise DataError(f"{path}: {name} is damaged or was replaced; run `ensue prepare` again")
        ids, offsets, times = (_mapped(path / name, np.dtype(kind)) for name, kind in _COLUMNS.items())
        values = int(manifest["values"])
    except OSError as error:
        raise DataError(
            f"{path}: {Path(str(error.filename)).name} cannot be read ({error.strerror}); run `ensue prepare` again"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: {MANIFEST} is damaged ({error}); run `ensue prepare` again") from error
    with answering(path):
        tables = {name: pl.read_ipc(path / name)[column] for name, column in _TABLES.items()}
    vocabulary = Vocabulary(tables["values"])
    if len(vocabulary) != values + FIRST:
        raise DataError(f"{path}: {MANIFEST} is damaged (values); run `ensue prepare` again")
    return Histories(ids, offsets, vocabulary, times, tables["names"]), understood


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_input(path / MANIFEST))
    except (DataError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: {MANIFEST} cannot be read ({error}); run `ensue prepare` again") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise DataError(f"{path}: {MANIFEST} is not what `ensue prepare` writes; run `ensue prepare` again")
    if manifest["format"] > FORMAT:
        raise DataError(f"{path}: was prepared by a newer ensue ({manifest.get('ensue')}); update ensue")
    return manifest


def _mapped(path: Path, kind: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """A column of a file; who writes into it writes into a copy of the page, never into the file."""
    if not path.stat().st_size:
        return np.empty(0, kind)  # no empty file can be mapped
    return np.asarray(np.memmap(path, kind, "c"))


def _sum(path: Path) -> int:
    checksum = 0
    with open_input(path) as file:
        while step := file.read(_STEP):
            checksum = zlib.crc32(step, checksum)
    return checksum
