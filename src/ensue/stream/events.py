"""Lines to events in columns; a line that cannot be read is named with its reason, and the others go on.

A line is an event, ``{"session": "s1", "item": "a7", "time": 1700000000}``, its fields under any of the names that
:func:`ensue.data.sequences.columns.find_columns` knows, with perhaps an ``id`` that tells repeats; or a whole history,
``{"values": ["a7", "b3"], "times": [1700000000, 1700000042], "id": "s1"}``, the record's JSON as everywhere.

The first good event says which fields play which role and in which unit the times are; both then hold for the stream.
What the model's folder remembers of its training data (columns, unit, order of day and month, words for missing ids)
comes before what is inferred.
One decoder reads every line: for blocks of 512 lines it takes as long as a reader in bulk, and it alone tells a number
from a text.

Lines that are no events and events with impossible times are written with their reason beside the model folder. The
file's length is committed with the position. A restart cuts the file back to it and reads on from the position, so that
a line is written once, whenever the process was killed. A new file may be read by those who may read the folder.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ensue.data.clock import BANDS, MILLISECONDS, SINCE_1970, UNITS, WORDS, in_seconds, named_unit
from ensue.data.dates import has_year_last, parse_dates
from ensue.data.file_bytes import KEEP
from ensue.data.ids import MISSING
from ensue.data.schema import NO_SCHEMA, DataSchema, kind_weights
from ensue.data.sequences.columns import CLOCK, KIND, KINDS, PARTS, find_columns, named
from ensue.data.sequences.sessions import with_clock
from ensue.data.table import Table, flat
from ensue.errors import DataError, ModelFolderError, SettingError
from ensue.lines import listed, one_line, quoted
from ensue.records import History, normal_id
from ensue.store.access import ensure_file, sibling_access

LONGEST = 2**20
"""Bytes of a line; a longer one is rejected."""
MAX_FIELDS = 1000
"""Fields of an event, at most: to look for the roles of many takes seconds."""
MAX_DATE = 100
"""Characters of a date, at most."""
MAX_ID = 1000
"""Characters of an id of a session, an item or an event, at most: as many as a service lets a value have."""
MARKS = ("id", "event_id", "eventid")
"""Fields that tell one event from a repeat of it."""


@dataclass(frozen=True)
class Events:
    """Events in order of arrival, one entry an event in each column.

    Attributes:
        sessions: what belongs together.
        values: what was seen.
        times: seconds.
        marks: an id that a repeat of the event carries too, or nothing.
        lines: which line each is of.
    """

    sessions: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        """Number of events."""
        return len(self.values)

    def rows(self) -> Iterator[tuple[str, str, float, str, int]]:
        """The session, value, seconds, mark and line of each."""
        return zip(self.sessions, self.values, self.times, self.marks, self.lines, strict=True)


class Reject(Exception):  # noqa: N818 - not an error of the run: the line is rejected
    """Reason why a line is no event."""


class ReaderState(NamedTuple):
    """Roles to fields, and the unit of the times; both empty before the first event."""

    columns: dict[str, str]
    unit: str


class EventReader:
    """Reads lines by the format of the first valid one.

    Args:
        source: the stream's name, for messages.
        columns: roles to fields, where stated.
        unit: of the times, where stated; one of :data:`UNITS`.
        max_id: characters of an id; an event with a longer one is rejected.
        schema: how the training data of the model was read.

    Raises:
        SettingError: an unknown role or unit.
    """

    def __init__(
        self,
        source: str,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        max_id: int = MAX_ID,
        schema: DataSchema = NO_SCHEMA,
        events: str = "",
    ) -> None:
        if unit is not None and unit not in UNITS:
            raise SettingError(f"--time-unit {unit!r} is not known; choose from {', '.join(UNITS)}")
        self.source = Path(source)
        self.stated_columns = dict(columns or {})
        self.stated_unit = unit
        with suppress(DataError):  # that a role is not stated is no mistake; one that does not exist is
            find_columns(self.source, list(self.stated_columns.values()), self.stated_columns, events=events)
        self.columns: dict[str, str] = {}
        self.unit = ""
        self.max_id = max_id
        self.schema = replace(schema, events=events or schema.events)
        self.types_are_stated = bool(events)
        # Kinds of weight 0 are in no session.
        self.event_types = {name for name, weight in kind_weights(self.schema.events).items() if weight}

    @property
    def understood(self) -> str:
        """The fields of each role and the unit of the times, for people; nothing before the first event."""
        fields = ", ".join(f"{role}={name}" for role, name in self.columns.items())
        return f"{fields}; times in {WORDS[self.unit]}" if self.columns else ""

    def state(self) -> ReaderState:
        """Return the detected format, for :meth:`restore`."""
        return ReaderState(columns=self.columns, unit=self.unit)

    def restore(self, state: ReaderState) -> None:
        """Continue with a detected format; what is stated now comes first.

        Raises:
            ValueError: a role or a unit is not known.
        """
        columns, unit = state
        units, roles = (UNITS, {"session", "item", "time"}) if columns else (("", *UNITS), set[str]())
        if columns.keys() - {CLOCK, *PARTS} != roles or unit not in units:
            raise ValueError("the reader's columns or unit are not known")
        self.columns = {} if self.stated_columns else dict(columns)
        self.unit = self.stated_unit or unit

    def read(self, lines: Sequence[bytes], locations: Sequence[str]) -> tuple[Events, list[tuple[int, str]]]:
        """Return the events of lines, and (line, reason) for each rejected one; empty lines are skipped.

        Args:
            lines: as they came, without the newline.
            locations: where each stands, a name for a history that has none.
        """
        events = Events()
        rejects = []
        for number, (line, location) in enumerate(zip(lines, locations, strict=True)):
            try:
                self._read(line, location, events)
                events.lines.extend([number] * (len(events) - len(events.lines)))
            except (Reject, DataError) as reason:
                rejects.append((number, str(reason)))
        return events, rejects

    def _read(self, line: bytes, location: str, events: Events) -> None:
        record = decode(line)
        if record is None:
            return
        if len(record) > MAX_FIELDS:
            raise Reject(f"an event of {len(record):,} fields, more than the {MAX_FIELDS:,} that one may have")
        if "values" in record:
            self._read_history(record, location, events)
            return
        record = flat(record) if dict in map(type, record.values()) else record
        if self.event_types and not self._is_chosen(record):
            return
        columns = self._roles(record)
        session, value = (self._id(record, columns[role], role) for role in ("session", "item"))
        if CLOCK in columns:
            cells = {role: [record.get(name)] for role, name in columns.items()}
            frame = pl.DataFrame(cells, dict.fromkeys(cells, pl.String), strict=False)
            joined = with_clock(Table("", frame, lambda _: "event", columns, ()))
            record |= {columns["time"]: joined.frame["time"].cast(pl.String)[0]}
        seconds, unit = self._seconds(record, columns["time"])
        # The first id that is not empty.
        mark = next((_name(record, name, "id") for name in MARKS if record.get(name) not in (None, "")), "")
        # Everything is checked before the format is taken over from this event.
        self._require_short([session, value, mark])
        self.columns = columns
        self.unit = unit
        events.sessions.append(session)
        events.values.append(value)
        events.times.append(seconds)
        events.marks.append(mark)

    def _is_chosen(self, record: Mapping[str, object]) -> bool:
        """Return whether an event is of a type that is read; one without a type is, unless types are stated.

        Raises:
            Reject: types are stated, and no field of the event holds one.
        """
        # What was stated comes before what training data had, and both before a guess.
        fields = (self.stated_columns.get(KIND, ""), self.schema.columns.get(KIND, ""), *named(list(record), KINDS))
        kind = next((record[name] for name in fields if name in record), None)
        if kind is None and self.types_are_stated:
            raise Reject(f"no field holds the event type; the fields are {listed(record)}")
        return kind is None or str(kind) in self.event_types

    def _read_history(self, record: dict[str, object], location: str, events: Events) -> None:
        try:
            history = History.from_fields(record, "history")
        except DataError as error:
            raise Reject(str(error)) from error
        if len(history.times) != len(history.values):
            raise Reject('field "times" is missing; a stream needs one time per value')
        if history.times and history.times[-1] >= MILLISECONDS:
            raise Reject(f"times[{len(history.times) - 1}] cannot be seconds, a history's unit")
        if "" in history.values:
            raise Reject('field "values" holds an empty value')
        self._require_short([history.id, *history.values])
        events.sessions.extend([history.id or location] * len(history.values))
        events.values.extend(history.values)
        events.times.extend(history.times)
        events.marks.extend([""] * len(history.values))

    def _id(self, record: dict[str, object], field: str, role: str) -> str:
        """Return the id of a role."""
        text = _name(record, field, role)
        if text.strip() in MISSING and self.schema.missing != KEEP:
            raise Reject(
                f"field {quoted(field)} ({role}) holds {quoted(text)}, a word for a missing id; fit the model with "
                "--missing keep where it is one"
            )
        return text

    def _require_short(self, ids: Sequence[str]) -> None:
        if (longest := max(map(len, ids))) > self.max_id:
            raise Reject(f"an id has {longest:,} characters, more than the {self.max_id:,} that one may have")

    def _roles(self, record: dict[str, object]) -> dict[str, str]:
        if self.columns:
            return self.columns
        try:
            fields, _ = find_columns(
                self.source, list(record), self.stated_columns, self.schema, samples=[record] * (not self.stated_unit)
            )
        except DataError as error:
            raise Reject(str(error).removeprefix(f"{self.source}: ")) from error
        if "time" not in fields:
            raise Reject(f"no field is recognised as the time; the fields are {listed(record)}")
        return {role: fields[role] for role in ("session", "item", "time", CLOCK, *PARTS) if role in fields}

    def _seconds(self, record: dict[str, object], name: str) -> tuple[float, str]:
        time = record.get(name)
        if time is None or time == "":
            raise Reject(f"field {quoted(name)} (time) is missing")
        number, seems = _number(time, name, self.schema.day_first)
        stated_unit = self.stated_unit or named_unit(name)
        usual = self.schema.time_unit
        if usual == "iso" or seems == "iso":
            usual = None
        unit = self.unit or stated_unit or usual or seems
        # Dates and numbers in one stream: one of the two would be read wrongly.
        if (unit == "iso") != (seems == "iso"):
            raise Reject(f"time {quoted(time)} is not in the stream's unit, {WORDS[unit]}")
        # the usual unit decides about numbers that may be of any, such as hours from 0
        inferred = not stated_unit and (usual is None or number >= SINCE_1970)
        if unit in BANDS and inferred and unit != seems:
            raise Reject(f"time {quoted(time)} looks like {WORDS[seems]}, but the stream is in {WORDS[unit]}")
        seconds = float(in_seconds(np.array([number]), unit)[0])
        if not abs(seconds) < MILLISECONDS:
            raise Reject(f"time {quoted(time)} cannot be {WORDS[unit]}")
        return seconds, unit


def decode(line: bytes) -> dict[str, object] | None:
    """The JSON object of a line, ``None`` for an empty one.

    Raises:
        Reject: too long, not UTF-8, not JSON, or no object.
    """
    if len(line) > LONGEST:
        raise Reject(f"longer than {LONGEST:,} bytes")
    try:
        # A byte order mark at the beginning of a file is no part of its first line.
        text = line.decode("utf-8-sig").strip()
        record = json.loads(text) if text else None
    except UnicodeDecodeError as error:
        raise Reject(f"not UTF-8 ({error.reason} at byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise Reject(f"not JSON ({one_line(str(error))})") from error
    if text and not isinstance(record, dict):
        raise Reject("not a JSON object")
    return record


def _name(record: dict[str, object], field: str, role: str) -> str:
    value = record.get(field)
    if value is None or value == "":
        raise Reject(f"field {quoted(field)} ({role}) is missing")
    try:
        text = normal_id(value)
        text.encode()
    except UnicodeEncodeError as error:
        raise Reject(f"field {quoted(field)} holds half a character ({error.reason})") from error
    except DataError as error:
        raise Reject(f"field {quoted(field)} ({role}): {error}") from error
    return text


def _number(time: object, field: str, day_first: bool | None) -> tuple[float, str]:
    """Return a time as a number, and the unit it looks like; dates in seconds since 1970."""
    if isinstance(time, bool) or not isinstance(time, str | int | float):
        raise Reject(f"field {quoted(field)} (time) must be a number or a date")
    try:
        number = float(time)
    except OverflowError as error:
        raise Reject(f"field {quoted(field)} (time) is too large") from error
    except ValueError:
        return _date(str(time).strip(), day_first), "iso"
    if not math.isfinite(number):
        raise Reject(f"time {quoted(time)} is not a finite number")
    # since 1970, each unit begins where the one before would mean a year after 5138
    return number, BANDS[1 + sum(number >= MILLISECONDS * 1e3**power for power in range(3))]


def _date(text: str, day_first: bool | None) -> float:
    """Return the seconds of a date, UTC where it names no zone."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return _usual_date(text, day_first)
    return (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp()


def _usual_date(text: str, day_first: bool | None) -> float:
    """Return the seconds of a date in another form that files have, such as ``03/04/2024 10:00``."""
    if len(text) <= MAX_DATE:
        if has_year_last(text) and day_first is None:
            raise Reject(
                f"time {quoted(text)} may be day-first or month-first, and the training data does not decide it; "
                "write ISO dates"
            )
        with suppress(DataError):
            return float(parse_dates(pl.Series([text]), str, day_first).numbers[0])
    raise Reject(f"time {quoted(text)} is not a number or an ISO date")


NUM_SHOWN = 5
"""Rejected lines of a run that its summary shows."""


def rejects_of(folder: Path) -> Path:
    """Return where the rejected lines of a folder's stream are."""
    location = folder.resolve()
    return location.with_name(f"{location.name}.rejects.jsonl")


class Rejected(NamedTuple):
    """Place of a rejected line, and the reason."""

    place: str
    reason: str


class Rejects:
    """The file ``FOLDER.rejects.jsonl``; it is made with the first line.

    Args:
        folder: the model folder.
        length: bytes that were committed.
    """

    def __init__(self, folder: Path, length: int) -> None:
        self.path = rejects_of(folder)
        self.first: list[Rejected] = []
        """The first rejected lines of this run."""
        self.length = 0
        self._access = sibling_access(folder)
        if self.path.exists():
            with self._written():
                self.length = min(length, self.path.stat().st_size)
                # Lines after the last commit are read again, and written again where they are rejected again.
                os.truncate(self.path, self.length)

    def add(self, line: bytes, location: str, reason: str) -> None:
        """Write one line; of one that is too long, the beginning."""
        if len(self.first) < NUM_SHOWN:
            self.first.append(Rejected(location, reason))
        text = line.decode("utf-8", "backslashreplace")
        entry = {"place": location, "reason": reason, "line": text[:1000] if len(line) > LONGEST else text}
        data = f"{json.dumps(entry)}\n".encode()
        with self._written():
            if not self.length:
                ensure_file(self.path, self._access)
            with self.path.open("ab") as file:
                file.write(data)
        self.length += len(data)

    def flush(self) -> None:
        """Wait until everything so far is on the disk."""
        if self.length:
            with self._written(), self.path.open("rb") as file:
                os.fsync(file.fileno())

    @contextmanager
    def _written(self) -> Iterator[None]:
        """Report errors of the file.

        Raises:
            ModelFolderError: it cannot be written, or is no file.
        """
        try:
            if self.path.exists() and not self.path.is_file():
                raise ModelFolderError(f"{self.path}: is not a regular file; move it away")
            yield
        except OSError as error:
            raise ModelFolderError(f"{self.path}: cannot be written ({error.strerror})") from error
