"""Columns by role, the schema of a model's training data, and the report of how a file was read.

The schema is stored in the model's folder, so that later files of the model need no options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from ensue.errors import DataError, SettingError
from ensue.lines import listed, quoted


@dataclass(frozen=True, kw_only=True)
class DataSchema:
    """Columns and options that the training data was read with; the default is no training data.

    A later file of the same model is read by them wherever no option says otherwise. They are weaker than options: a
    column that the file lacks is looked for by its name, and an encoding applies only to what is not UTF-8.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    """Role -> column, both stated and found by name; empty for layouts without columns."""
    encoding: str = ""
    """Stated encoding, such as cp1252."""
    sheet: str = ""
    """Stated name of an Excel sheet."""
    time_unit: str | None = None
    """Stated unit; an inferred unit is inferred again."""
    day_first: bool | None = None
    """True if dates such as 03/04/2024 begin with the day: as stated, or as a date of the training data proved."""
    sort: bool = True
    """True if events may be put in order of time."""
    gap: float | None = None
    """Minutes of pause that end a session, as stated; 0 where a stated column tells the sessions."""
    rules: str = ""
    """Stated rules for query logs."""
    events: str = ""
    """Stated event types that are read, such as view,purchase or view=1,purchase=10, of a column of them."""
    missing: str = ""
    """Stated policy for rows whose id is missing."""

    def to_dict(self) -> dict[str, object]:
        """Return what differs from the defaults, as JSON holds it."""
        # Folders stay readable when a field with a default is added.
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        default = DataSchema()
        return {name: value for name, value in values.items() if value != getattr(default, name)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Rebuild from :meth:`to_dict`.

        Raises:
            ValueError: a value of another type, as in a damaged folder.
        """
        # A folder may be damaged or made by hand: every value must have the type of its field.
        number = (int, float)
        kinds: dict[str, type | tuple[type, ...]] = {"columns": dict, "gap": number, "day_first": bool, "sort": bool}
        columns = values.get("columns")
        texts = [*columns, *columns.values()] if isinstance(columns, dict) else []
        wrong = [name for name, value in values.items() if not isinstance(value, kinds.get(name, str))]
        if wrong or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"the stored schema is invalid ({', '.join(wrong) or 'columns'})")
        return cls(**values)  # type: ignore[arg-type]

    def __str__(self) -> str:
        """Show the columns, for messages."""
        return ", ".join(f"{role}={name}" for role, name in self.columns.items())

    def present(self, names: Collection[str], stated: Mapping[str, str]) -> dict[str, str]:
        """Return the columns of the training data that a file has, for the roles that are not stated.

        Args:
            names: the columns of the file.
            stated: role -> column.
        """
        # A column that is stated in another role here is not looked for in its former one.
        return {
            role: name
            for role, name in self.columns.items()
            if name in names and role not in stated and name not in stated.values()
        }


NO_SCHEMA = DataSchema()
"""Schema of a file that is read for no model."""


FoundColumns = tuple[dict[str, str], tuple[str, ...]]
"""Role -> column, and a note wherever two columns would have fitted."""
FindColumns = Callable[[Sequence[str]], FoundColumns]
"""Gives the columns of a table their roles."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns a kind of record has, and the names that speak for themselves."""

    known: Mapping[str, tuple[str, ...]]
    """Role -> names as ``plain`` leaves them, the surest first."""
    needed: tuple[str, ...]
    """Roles of which a table has one at least; messages name the first."""
    doubted: tuple[str, ...]
    """Roles of which a note says that another column would have fitted."""
    example: str
    """Example of --columns for messages."""
    plain: Callable[[str], str]
    """A name without what does not tell it from others."""

    def find(
        self,
        path: Path,
        names: Sequence[str],
        stated: Mapping[str, str],
        among: Iterable[str] = (),
        trained: DataSchema = NO_SCHEMA,
        **paired: str,
    ) -> FoundColumns:
        """The column of each role.

        Args:
            path: the file, for messages.
            names: its columns.
            stated: role -> column.
            among: the columns that may be found; all unless given.
            trained: how the training data was read; its columns come before those found by name.
            paired: role -> column, of columns that are known by standing together.

        Raises:
            DataError: a stated column that is missing, or no column for any role that is needed.
            SettingError: one column in two roles.
        """
        require_columns(path, names, stated)
        # Columns of the training data count as stated: a note says where they differ from those here.
        usual = trained.present(names, stated)
        stated = {**{role: name for role, name in usual.items() if role in self.known}, **stated}
        columns = {**paired, **stated}
        notes = list[str]()
        candidates = list(among) or names
        for role, words in self.known.items():
            free = [name for name in candidates if name not in columns.values()]
            fitting = [name for word in words for name in free if self.plain(name) == word]
            if role not in columns and fitting:
                columns[role] = fitting.pop(0)  # the surest; the others are named in a note
            if role in self.doubted and role not in stated:
                notes += [
                    f"{role} is {quoted(columns[role])}; {quoted(name)} would fit too; choose with --columns"
                    for name in fitting[:1]
                ]
        if not columns.keys() & set(self.needed):
            raise DataError(
                f"{path}: no column is recognised as the {self.needed[0]}; the columns are {listed(names)}; name them "
                f"with --columns {self.example}{trained_on(trained)}"
            )
        notes += renamed(columns, trained)
        return {role: columns[role] for role in self.known if role in columns}, tuple(notes)


def renamed(columns: Mapping[str, str], trained: DataSchema) -> list[str]:
    """Return a note for each role whose column in the training data is not the one that is read here.

    Args:
        columns: role -> column.
        trained: how the training data was read.
    """
    return [
        f"{role} is {quoted(columns[role])}; in the training data it was {quoted(name)}"
        for role, name in trained.columns.items()
        if role in columns and columns[role] != name
    ]


def trained_on(trained: DataSchema) -> str:
    """Return what an error about columns adds for the file of a model: the columns that the model was trained on."""
    return f" (the training data had {trained})" if trained.columns else ""


def require_roles(stated: Mapping[str, str], allowed: Iterable[str]) -> None:
    """Refuse a stated role that a kind of record does not have.

    Raises:
        SettingError: naming it.
    """
    for role in stated:
        if role not in (roles := tuple(allowed)):
            raise SettingError(f"columns: role {role!r} is not known; the roles are {', '.join(roles)}")


def require_columns(path: Path, names: Sequence[str], stated: Mapping[str, str]) -> None:
    """Refuse stated columns that a file does not have, or one of them in two roles.

    Raises:
        DataError: a column that is missing.
        SettingError: one column in two roles.
    """
    for role, name in stated.items():
        if name not in names:
            raise DataError(f"{path}: column {quoted(name)} ({role}) is missing; the columns are {listed(names)}")
    require_distinct(stated)


def require_distinct(stated: Mapping[str, str]) -> None:
    """Refuse one column in two roles.

    Raises:
        SettingError: naming all columns.
    """
    if len(set(stated.values())) < len(stated):
        raise SettingError(f"columns: {', '.join(stated.values())} names one column twice; give each role its own")


def plain_name(name: str) -> str:
    """``Review_Text`` and ``reviewText`` alike."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def split_words(*lines: str) -> tuple[str, ...]:
    """Return the words of some lines: names of columns, the most specific first."""
    return tuple(" ".join(lines).split())


def name_table(text: str) -> dict[str, tuple[str, ...]]:
    """Return role -> names of text such as ``user: user userid time: date``; names hold no colon."""
    # The names of a role end before the next word with a colon behind it.
    rows = re.findall(r"(\w+):((?:\s+[^\s:]+(?!\S))*)", text)
    return {role: tuple(names.split()) for role, names in rows}


MAX_EVENT_WEIGHT = 1e9
"""Weight of an event at most, since sums over all events must stay finite in single precision."""


def kind_weights(text: str) -> dict[str, float]:
    """Return the weight of each kind of event, 1 where none is stated: ``view,cart=3`` is view 1 and cart 3.

    Raises:
        SettingError: a weight is not a number of at least 0, or every weight is 0.
    """
    weights = dict[str, float]()
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, number = part.rpartition("=") if "=" in part else (part, "", "1")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not name.strip() or not 0 <= weight <= MAX_EVENT_WEIGHT:
            raise SettingError(
                f"--events {part}: the weight is not a number from 0 to {MAX_EVENT_WEIGHT:,.0f}; write it as in cart=3"
            )
        if name.strip() in weights:
            raise SettingError(f"--events {text}: {name.strip()} appears twice; give each kind one weight")
        weights[name.strip()] = weight
    if text and not weights:
        raise SettingError(f"--events {text}: names no kind; write it as in view=1,cart=3")
    if weights and not any(weights.values()):
        raise SettingError(f"--events {text}: every weight is 0, so no event is left; give one a positive weight")
    return weights


FindingRow = tuple[str, str, str]
"""Name, value and note of one finding."""
MAX_COUNTS = 20
"""Counts that a finding lists."""


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """The file and its layout."""

    path: str
    layout: str
    columns: dict[str, str]
    """Role -> column; empty for layouts without columns."""


@dataclass(frozen=True, kw_only=True)
class Clocked(SourceFile):
    """A file whose rows may have times."""

    time: str
    """One sentence, always meant to be printed."""
    unit: str | None
    absolute: bool
    """True if the times are since 1970."""
    day_first: bool | None = None
    """True if dates begin with the day, where the year comes last; ``None`` elsewhere."""


@dataclass(frozen=True, kw_only=True)
class ReadReport(SourceFile):
    """Report of reading a file, with the fields that all kinds of records share."""

    notes: tuple[str, ...]
    byte_order_mark: bool = False
    """True if tables written beside the file should begin with a byte-order mark."""
    warnings: tuple[str, ...] = ()
    """Warnings about the data, one sentence each; ``check`` prints them with its own."""

    @property
    def details(self) -> str:
        """Details after layout and columns, such as the format of times; may be empty."""
        return f"time: {self.time}" if isinstance(self, Clocked) else ""

    @property
    def sentences(self) -> list[str]:
        """Rows left out, one line per reason."""
        return []


@dataclass(frozen=True, kw_only=True)
class SequencesReport(ReadReport, Clocked):
    """Report of reading a log of events."""

    events: str = ""
    """The event types that were read, where they were chosen."""


class CheckFindings(Protocol):
    """Findings of ``check``: a dataclass, whose fields go into JSON by ``dataclasses.asdict``."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rows(self) -> tuple[Any, ...]:
        """The first records."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on problems."""

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts by name, the first ``MAX_COUNTS`` of them: ``good 200, bad 180``."""
    # An empty label is shown as a dash.
    listed = [f"{name or '-'} {count:,}" for name, count in [*counts.items()][:MAX_COUNTS]]
    others_text = [f"and {len(counts) - MAX_COUNTS:,} more"] if len(counts) > MAX_COUNTS else []
    return ", ".join([*listed, *others_text])
