"""The first step of a prepared log: its files read piece by piece into batches of hashed events on disk.

A batch counts once its JSON stands beside it, which also says where reading goes on: whoever is killed loses the batch
that was being read.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.files import answering
from ensue.data.ids import IdColumns
from ensue.data.sequences.codes import Codes
from ensue.data.sequences.parts import parted
from ensue.data.sequences.pieces import ROWS, Cursor, pieces
from ensue.data.sequences.rows import Rows, id_columns, read_rows
from ensue.data.sequences.running_clock import RunningClock
from ensue.data.sequences.slices import read_numbers, read_texts, write_slices
from ensue.data.sequences.sources import Source
from ensue.data.table import ReadOptions, Table


@dataclass(frozen=True)
class Head:
    """What the rows of a log have in common."""

    layout: str
    columns: dict[str, str]
    remarks: tuple[str, ...]
    unordered: bool


@dataclass
class Batches:
    """What of a log stands in batches.

    Attributes:
        folder: where they stand.
        sources: the files of the log.
        options: how they are read.
        bits: of a sequence's hash that choose its part.
    """

    folder: Path
    sources: Sequence[Source]
    options: ReadOptions
    bits: int
    cursor: Cursor = field(default_factory=Cursor)
    until: int | None = None
    """The file before which reading ends; ``None`` for the last."""
    rows: int = 0
    """Events so far."""
    empty: int = 0
    """Rows that hold nothing."""
    filled: int = 0
    """Files that hold an event."""
    latest: int = -1
    """The latest such file."""
    notes: dict[str, None] = field(default_factory=dict)
    clock: RunningClock | None = None
    head: Head | None = None
    """What all events have in common; ``None`` before there was one."""
    bases: list[int] = field(default_factory=list)
    offsets: list[list[int]] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    """Of each batch, at which byte the sequences of each part begin."""
    codes: Codes = field(default_factory=Codes)
    ids: IdColumns = field(init=False)

    def __post_init__(self) -> None:
        self.ids = id_columns(self.options)

    @property
    def numbers(self) -> bool:
        """Whether sequences are whole numbers in every file."""
        return all(source.whole_numbers for source in self.sources)

    def go_on(self) -> None:
        """Take up the batches that stand there whole; what comes after the first that does not is made anew."""
        while (note := self._path(".json")).exists():
            found = json.loads(note.read_text(encoding="utf-8"))
            if any(_crc(self._path(end)) != crc for end, crc in found["crc32"].items()):
                return
            self.codes.add(read_texts(self._path(".new"), 0, self._path(".new").stat().st_size))
            self.bases.append(self.rows)
            self.offsets.append(found["offsets"])
            self.places.append(found["places"])
            self.cursor = Cursor(**found["cursor"])
            self.clock = None if found["clock"] is None else RunningClock.from_dict(found["clock"])
            self.rows, self.empty, self.filled, self.latest = (
                found[name] for name in ("rows", "empty", "filled", "latest")
            )
            self.notes = dict.fromkeys(found["notes"])
            self.ids = self.ids.resume(found["ids"])
            self.head = Head(**{**found["head"], "remarks": tuple(found["head"]["remarks"])})

    def read(self, progress: Callable[[int], None]) -> None:
        """Read what is left of the log.

        Args:
            progress: told the number of events so far.

        Raises:
            DataError: the first row that does not fit.
        """
        held, count = list[pl.DataFrame](), 0
        for rows, cursor in self._rows(self.cursor):
            rows = replace(rows, table=self.ids.normalise(rows.table, self._tables))
            if len(rows.table.frame):
                held.append(self._events(rows))
                count += len(held[-1])
            self.cursor = cursor
            if count >= ROWS:
                self._write(pl.concat(held, rechunk=True))
                held, count = [], 0
                progress(self.rows)
        if count:
            self._write(pl.concat(held, rechunk=True))
            progress(self.rows)

    def take(self, other: Batches) -> None:
        """Put the batches of another, which has read the files that follow, behind these; what stands there is kept.

        The columns are linked, but for values, whose numbers become those of this one.
        """
        numbers = self.codes.of(other.codes.every()) if other.codes.count else np.empty(0, np.int32)
        for batch, offsets in enumerate(other.offsets):
            note, sums = self._path(".json"), dict[str, int]()
            held = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {"?": 0}
            if any(_crc(self._path(end)) != crc for end, crc in held.items()):
                for name in other._kinds:
                    place, begun = self._path(f".{name}"), other.folder / f"{batch:06}.{name}"
                    place.unlink(missing_ok=True)
                    if name == "item":
                        numbers[np.fromfile(begun, np.int32)].tofile(place)
                    else:
                        link(begun, place)
                    sums[f".{name}"] = _crc(place)
                _put(note, sums)
            self.bases.append(self.rows)
            self.offsets.append(offsets)
            self.places.append(other.places[batch])
            self.rows += offsets[-1]
        self.empty, self.filled = self.empty + other.empty, self.filled + other.filled
        self.notes |= other.notes
        self.ids.take(other.ids)
        self.head = self.head or other.head
        if other.clock is not None:
            self.clock = other.clock if self.clock is None else self.clock.then(other.clock)

    def part(self, number: int) -> pl.DataFrame:
        """The events of a part, in the order of the log."""
        found = {
            name: [pl.Series(dtype=pl.String) if kind is None else pl.Series(np.empty(0, kind))]
            for name, kind in {**self._kinds, "row": np.int64}.items()
        }
        for batch, base in enumerate(self.bases):
            low, high = self.offsets[batch][number : number + 2]
            for name, kind in self._kinds.items() if high > low else ():
                path = self.folder / f"{batch:06}.{name}"
                if kind is None:
                    column = read_texts(path, *self.places[batch][number : number + 2])
                else:
                    column = pl.Series(read_numbers(path, kind, low, high))
                found[name].append(column.cast(pl.Int64) + base if name == "row" else column)
        return pl.DataFrame({name: pl.concat(columns).rechunk() for name, columns in found.items()})

    @property
    def _kinds(self) -> dict[str, type | None]:
        """What the columns of a batch hold, ``None`` for texts."""
        kinds: dict[str, type | None] = {
            "session": np.int64 if self.numbers else None,
            "item": np.int32,
            "row": np.uint32,
        }
        return kinds if self.clock is None else {**kinds, "time": np.float64}

    def _rows(self, cursor: Cursor) -> Iterator[tuple[Rows, Cursor]]:
        """The events of each piece, and where the next begins; notes are taken on the way."""
        for number, source in [*enumerate(self.sources)][cursor.source : self.until]:
            with answering(source.path):
                content = self.options.open(source.path, in_pieces=True)
                begin = cursor if number == cursor.source else Cursor(number)
                for part, then in pieces(content, source.layout, begin):
                    rows = read_rows(part, self.options, source.layout)
                    table, without = rows.table.without_empty()
                    self.empty += without
                    self.notes |= dict.fromkeys((*content.notes, *table.notes))
                    if len(table.frame) and number != self.latest:
                        self.filled, self.latest = self.filled + 1, number
                    yield replace(rows, table=table), then

    def _events(self, rows: Rows) -> pl.DataFrame:
        rows.require_filled()
        self.head = self.head or Head(rows.layout, rows.columns, rows.remarks, rows.unordered)
        frame = rows.table.frame
        columns = {
            "session": frame["session"].cast(pl.Int64 if self.numbers else pl.String),
            "item": pl.Series(self.codes.of(frame["item"])),
        }
        if (times := rows.times()) is not None:
            self.clock = self.clock or RunningClock()
            columns["time"] = pl.Series(self.clock.add(times, rows.table.where, self.options.times, self._look_through))
        return pl.DataFrame(columns)

    def _look_through(self, look: Callable[[pl.Series], str | None]) -> str | None:
        """The first thing that is said of the times of some piece of the log."""
        other = replace(self, cursor=Cursor(), until=None, notes={})
        for rows, _ in other._rows(Cursor()):
            times = rows.times()
            if times is not None and times.dtype == pl.String and (found := look(times.str.strip_chars())) is not None:
                return found
        return None

    def _tables(self) -> Iterator[Table]:
        """All pieces of the log, from its beginning."""
        other = replace(self, cursor=Cursor(), until=None, notes={})
        return (rows.table for rows, _ in other._rows(Cursor()))

    def _write(self, events: pl.DataFrame) -> None:
        events = events.with_columns(pl.Series("row", np.arange(len(events), dtype=np.uint32)))
        events, offsets = parted(events, self.bits)
        new = self.codes.taken()
        written = {name: write_slices(self._path(f".{name}"), events[name], offsets) for name in self._kinds}
        written["new"] = write_slices(self._path(".new"), new, [0, len(new)])
        places = written["session"]
        sums = {f".{name}": _crc(self._path(f".{name}")) for name in written}
        note = self._path(".json")
        self.bases.append(self.rows)
        self.offsets.append(offsets)
        self.places.append(places)
        self.rows += len(events)
        found = {
            "offsets": offsets,
            "places": places,
            "cursor": asdict(self.cursor),
            "clock": None if self.clock is None else asdict(self.clock),
            "rows": self.rows,
            "empty": self.empty,
            "filled": self.filled,
            "latest": self.latest,
            "notes": list(self.notes),
            "ids": self.ids.to_json(),
            "head": None if self.head is None else asdict(self.head),
            "crc32": sums,
        }
        _put(note, found)

    def _path(self, end: str) -> Path:
        """A file of the next batch."""
        return self.folder / f"{len(self.bases):06}{end}"


def link(begun: Path, place: Path) -> None:
    """The same file under another name; a copy where a disk has no links or another begins."""
    try:
        place.hardlink_to(begun)
    except OSError:
        shutil.copyfile(begun, place)


def _put(note: Path, found: Mapping[str, object]) -> None:
    """Write a note at once or not at all."""
    whole = note.with_suffix(".tmp")
    whole.write_text(json.dumps(found), encoding="utf-8")
    whole.replace(note)


def _crc(path: Path) -> int:
    try:
        return zlib.crc32(path.read_bytes())
    except OSError:
        return -1
