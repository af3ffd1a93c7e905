"""The one reader of tables: CSV, TSV, JSON Lines, Parquet and sheets, their columns by role.

A kind of record says which names speak for themselves (:mod:`ensue.data.schema`); the rest is the same for all kinds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_path
from ensue.data.clock import UNITS, TimeOptions
from ensue.data.dates import Where
from ensue.data.delimited import Delimited, Types, with_columns
from ensue.data.file_bytes import DROP, KEEP, REPORT, contains
from ensue.data.files import Content, open_file
from ensue.data.layouts import dig
from ensue.data.schema import NO_SCHEMA, DataSchema, FindColumns, kind_weights
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted
from ensue.records import normal_id

ADVICE = "give texts or numbers"
"""What to do with a column of something else, unless its reader says more."""
JSON = "json"
"""The one column of originals that are JSON."""
ListRoles = Callable[[str], bool]
"""Whether the cells of a role may hold lists."""
_SAMPLES = 100
_ROUNDED_NUMBER = r"-?\d(?:\.\d+)?[eE]\+?(?:1[5-9]|[2-9]\d)"
"""A number of JSON that a float has rounded."""
_ROUNDED = re.compile(rf":\s*{_ROUNDED_NUMBER}\s*[,}}]".encode())


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of reading a file, the same for every kind of record."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Role -> column, where the names do not speak for themselves."""
    events: str = ""
    """Event types of a log that are read, such as view,purchase or view=1,purchase=10. [default: all]"""
    time_unit: str | None = None
    """One of ``UNITS``; found out unless stated."""
    encoding: str = ""
    sheet: str = ""
    max_unpacked: float | None = None
    day_first: bool | None = None
    schema: DataSchema = NO_SCHEMA
    missing: str = ""
    """These six as in :class:`~ensue.data.file_bytes.Opening`."""
    off_policy: bool = False
    """Keep events of weight 0 and the propensities of a log, for off-policy evaluation."""

    def __post_init__(self) -> None:
        if self.missing not in ("", DROP, KEEP, REPORT):
            raise SettingError(f"missing: {self.missing!r} is not known; choose from {DROP}, {KEEP}")
        if self.time_unit not in (None, *UNITS):
            raise SettingError(f"time_unit: {self.time_unit!r} is not known; the units are {', '.join(UNITS)}")

    @property
    def event_types(self) -> tuple[str, ...]:
        """The event types that are read: as stated, or as of the training data; none for all."""
        return tuple(self.kind_weights)

    @property
    def kind_weights(self) -> dict[str, float]:
        """The weight of each event type that is read."""
        return kind_weights(self.events or self.schema.events)

    @property
    def missing_ids(self) -> str:
        """Return the policy for rows whose id is missing: as stated, or as for the training data."""
        return self.missing or self.schema.missing

    @property
    def times(self) -> TimeOptions:
        """Return the options of parsing times."""
        return TimeOptions(
            unit=self.time_unit,
            day_first=self.day_first,
            usual_unit=self.schema.time_unit,
            usual_day_first=self.schema.day_first,
        )

    def open(self, path: str | Path, *, in_pieces: bool = False) -> Content:
        """Open a file, see :func:`~ensue.data.files.open_file`; the columns of a table without a header get names."""
        content = open_file(
            require_path(path),
            in_pieces=in_pieces,
            encoding=self.encoding,
            sheet=self.sheet,
            max_unpacked=self.max_unpacked,
            schema=self.schema,
        )
        return with_columns(content, (self.columns or self.schema.columns).values(), self.encoding)


@dataclass(frozen=True)
class Table:
    """The rows of a file, before what they say is looked at."""

    layout: str
    frame: pl.DataFrame
    """A column a role, named by it; anything may be null."""
    where: Where
    """The place of a row in the file."""
    columns: dict[str, str]
    """Role -> column."""
    notes: tuple[str, ...]
    originals: Callable[[], pl.DataFrame] | None = None
    """Reads all columns of the same rows anew; of JSON the objects in a column ``json``."""
    warnings: tuple[str, ...] = ()
    names: pl.Series | None = None
    """(sequences,) the names of the sequences, or nothing, where the column ``session`` counts those of the file."""
    event_types: Mapping[str, int] = field(default_factory=dict)
    """Event type -> rows that have it, where types of a log are chosen: of all rows, also those that are left out."""

    def select(self, is_kept: pl.Series) -> Table:
        """The rows that a mask keeps."""
        return self.take(is_kept.arg_true())

    def take(self, rows: pl.Series) -> Table:
        """The rows of some numbers, in the order of these."""
        originals = self.originals
        # Places and originals are looked up when they are needed, by the row of the whole table.
        return replace(
            self,
            frame=self.frame[rows],
            where=lambda row: self.where(int(rows[row])),
            originals=None if originals is None else lambda: originals()[rows],
        )

    def filled(self, path: Path, kind: str, *, every: bool = False) -> Table:
        """The rows that hold anything, and a note on the others.

        Args:
            path: the file, for messages.
            kind: what a row is called.
            every: whether the others stay.

        Raises:
            DataError: none holds anything.
        """
        table, empty = self.without_empty()
        if not len(table.frame):
            raise DataError(f"{path}: has a header but no {kind}")
        if every or not empty:
            return self
        return replace(table, notes=(*self.notes, skipped(empty)))

    def without_empty(self) -> tuple[Table, int]:
        """The rows that hold anything, and how many do not."""
        # The kind of an event alone is no event.
        frame = self.frame.drop("kind", strict=False)
        if not len(frame) or not min(frame.null_count().row(0)):
            return self, 0  # a column without a gap: no row is empty
        is_filled = ~frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        return (self, 0) if is_filled.all() else (self.select(is_filled), len(is_filled) - int(is_filled.sum()))


def read_together(contents: Sequence[Content], read: Callable[[Content], Table], noun: str = "table") -> Table:
    """Read files as one table, one below the other; notes on the files come before those on their rows.

    Args:
        contents: the files.
        read: reads one of them.
        noun: what the table is called in a note.

    Raises:
        DataError: a file that cannot be read, or that has other columns than the first.
    """
    tables = [read(content) for content in contents]
    first = tables[0]
    notes = dict[str, None]()  # a set in order
    columns = [table.columns or {name: name for name in table.frame.columns} for table in tables]
    for content, table, names in zip(contents, tables, columns, strict=True):
        notes |= dict.fromkeys((*content.notes, *table.notes))
        require_columns_of(content.path, names, contents[0].path, columns[0])
    if len(tables) == 1:
        return replace(first, notes=tuple(notes))
    return replace(
        first,
        frame=pl.concat([table.frame for table in tables], how="vertical_relaxed"),
        where=place_in_files([len(table.frame) for table in tables], [table.where for table in tables]),
        notes=(*notes, f"{len(tables):,} files read as one {noun}, ordered by name"),
        originals=lambda: pl.concat([table.originals() for table in tables if table.originals], how="diagonal_relaxed"),
        warnings=tuple(dict.fromkeys(warning for table in tables for warning in table.warnings)),
    )


def place_in_files(sizes: Sequence[int], places: Sequence[Where]) -> Where:
    """Return the place of a row of files, one below the other: of 3 and 2 rows, row 3 is row 0 of the second file."""
    ends = np.cumsum(sizes)  # of files with 3 and 2 rows, 3 5

    def where(row: int) -> str:
        file = int(np.searchsorted(ends, row, side="right"))
        return places[file](row - (int(ends[file - 1]) if file else 0))

    return where


def require_columns_of(path: Path, columns: Mapping[str, str], first: Path, first_columns: Mapping[str, str]) -> None:
    """Refuse a file whose columns are not those of the first file that it is read with.

    Raises:
        DataError: naming both files and their columns.
    """
    if columns != first_columns:
        columns_here, columns_there = (
            ", ".join(f"{role}={name}" for role, name in roles.items()) for roles in (columns, first_columns)
        )
        raise DataError(
            f"{path}: its columns are {columns_here}, but those of {first} are {columns_there}; rename them, set "
            "--columns, or select files by a pattern in quotes, such as 'logs/*.parquet'"
        )


def skipped(empty: int) -> str:
    """A note on rows that hold nothing."""
    return f"{plural(empty, 'empty row')} skipped"


def read_table(
    content: Content, find: FindColumns, advice: str = ADVICE, may_be_list: ListRoles = lambda role: False
) -> Table:
    """A table as it comes, all its columns as texts, by the roles that ``find`` gives them.

    Args:
        content: the file.
        find: what gives its columns roles.
        advice: what to do with a column of something else.
        may_be_list: whether the cells of a role may hold lists, which are read as texts of JSON.

    Raises:
        DataError: what ``find`` says, or the first row that does not fit.
    """
    if content.parquet:
        table = read_parquet(content, find, advice, may_be_list)
        lists = [name for name, kind in table.frame.schema.items() if kind.is_nested()]
        # An object with one field is written as {"list": ["a", "b"]}, of which the path takes the list.
        texts = (pl.struct(list=pl.col(name)).struct.json_encode().str.json_path_match("$.list") for name in lists)
        frame = table.frame.with_columns(text.alias(name) for name, text in zip(lists, texts, strict=True))
        return replace(table, frame=frame.cast(pl.String))
    if content.json:
        return read_json(content, find, advice, may_be_list)
    find(content.names())  # errors about columns come before those about rows
    delimited = Delimited.of(content)
    return replace(read_delimited(delimited, *find(delimited.names)), originals=delimited.whole)


def read_delimited(
    delimited: Delimited, columns: dict[str, str], notes: tuple[str, ...], types: Types | None = None
) -> Table:
    """The columns of some roles; texts unless a type is given for a column's name.

    Raises:
        DataError: the first row that does not fit.
    """
    frame = by_role(delimited.read(columns.values(), types), columns)
    layout = "tsv" if delimited.separator == "\t" else "csv"
    table = Table(layout, frame, delimited.where, columns, notes, partial(delimited.whole, delimited.names))
    if delimited.header or len(set(columns.values())) < 2 or set(frame.dtypes) != {pl.String}:
        return table
    # Files that were written one after the other: the second may begin with a mark of UTF-8.
    names = (pl.col(role).str.strip_prefix("\ufeff") == name for role, name in columns.items())
    repeats = frame.select(pl.all_horizontal(names).fill_null(value=False)).to_series()
    for row in repeats.arg_true()[:1]:
        note = f"{plural(int(repeats.sum()), 'repeated header')} left out, first {table.where(row)}"
        return replace(table.select(~repeats), notes=(*notes, note))
    return table


def read_parquet(
    content: Content, find: FindColumns, advice: str = ADVICE, may_be_list: ListRoles = lambda role: False
) -> Table:
    """A table of Parquet or a sheet, numbers, times and lists as they are; see :func:`read_table`.

    Raises:
        DataError: a column of anything but texts, numbers and times.
    """
    schema = content.schema()
    columns, notes = find(list(schema))
    for role, name in columns.items():
        # Durations get a message of their own from the reader of times.
        refused = (pl.Binary, pl.Object) if role == "time" else (pl.Binary, pl.Object, pl.Duration)
        inner = getattr(schema[name], "inner", schema[name]) if may_be_list(role) else schema[name]
        if inner.is_nested() or inner in refused:
            raise DataError(f"{content.path}: column {quoted(name)} ({role}) holds {schema[name]}; {advice}")
    frame = by_role(content.table(columns.values()), columns)
    return Table(content.layout, frame, content.place, columns, notes, content.table)


def read_json(
    content: Content, find: FindColumns, advice: str = ADVICE, may_be_list: ListRoles = lambda role: False
) -> Table:
    """JSON Lines, an object a row; see :func:`read_table`.

    Raises:
        DataError: a line that is no object, or a field that holds more than a text or a number.
    """
    samples = sample_objects(content)
    columns, notes = find(names_of(map(flat, samples)))
    for role, name in columns.items():
        # Truth values are labels and features, and no ids.
        refused = (dict, *(() if may_be_list(role) else (list,)), *((bool,) if role in ("session", "item") else ()))
        if any(isinstance(sample.get(name), refused) for sample in samples):
            raise DataError(
                f"{content.path}: field {quoted(name)} holds something other than a text or a number; {advice}"
            )
    frame = _with_rounded(content, read_fields(content, dict.fromkeys(columns.values(), pl.String())))
    lines = partial(json_lines, content)
    return Table("jsonl", by_role(frame, columns), content.place_of_line, columns, notes, lines)


def _with_rounded(content: Content, frame: pl.DataFrame) -> pl.DataFrame:
    """Fields of JSON Lines with numbers such as ``1.2346e+18`` as the file has them.

    The reader of JSON writes all the digits of such a float, as if they were known: ids that were rounded to it would
    look like others.
    """
    # A search of the bytes is cheap: nearly no file holds such a number.
    if not contains(content.data, _ROUNDED):
        return frame
    lines = content.column_of_lines()
    lines = lines.filter(lines.str.contains(r"\S"))
    # The text of the number, as in "id": 1.2346e+18, takes the place of its digits where a line has one.
    for name in frame.columns:
        written = lines.str.extract(rf'"{re.escape(name)}"\s*:\s*({_ROUNDED_NUMBER})\s*[,}}]')
        signed = written.str.replace(r"[eE]\+?", "e+")
        frame = frame.with_columns(pl.coalesce(signed, pl.col(name)).alias(name))
    return frame


def json_lines(content: Content) -> pl.DataFrame:
    """The objects of JSON Lines in one column ``json``."""
    return pl.DataFrame({JSON: [line.strip() for _, line in content.filled()]})


def read_fields(content: Content, kinds: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Fields of JSON Lines as columns; ``a.b`` is the field ``b`` of an object ``a``.

    Args:
        content: the file.
        kinds: field -> what it holds.

    Raises:
        DataError: a line that is no object, or holds something else.
    """
    field_names = names_of(sample_objects(content))
    paths = {name: [name] if name in field_names else name.split(".") for name in kinds}
    frame = read_objects(content, _structs([(path, kinds[name]) for name, path in paths.items()]), read_object)
    fields = {
        name: reduce(lambda outer, step: outer.struct.field(step), path, pl.col(head))
        for name, (head, *path) in paths.items()
    }
    return frame.select(**fields)


def _structs(paths: Sequence[tuple[Sequence[str], pl.DataType]]) -> dict[str, pl.DataType]:
    """Return field -> type: of the paths ``a`` and ``b.c`` that of ``a``, and a struct with the field ``c``."""
    schema: dict[str, pl.DataType] = {}
    for head in dict.fromkeys(path[0] for path, _ in paths):
        inner = [(path[1:], kind) for path, kind in paths if path[0] == head]
        schema[head] = pl.Struct(_structs(inner)) if inner[0][0] else inner[0][1]
    return schema


def flat(fields: Mapping[str, object]) -> dict[str, object]:
    """Return an object with the fields of inner objects beside its own: of ``{"a": {"b": 1}}`` ``{"a.b": 1}``."""
    pending = [*fields.items()]
    flattened = dict[str, object]()
    for name, value in pending:  # an object's own fields come before those of its inner objects
        if isinstance(value, dict):
            pending += [(f"{name}.{field}", inner) for field, inner in value.items()]
        else:
            flattened.setdefault(name, value)
    return flattened


def read_objects(
    content: Content, schema: Mapping[str, pl.DataType | type[pl.DataType]], require: Callable[[str, str], object]
) -> pl.DataFrame:
    """Fields of JSON Lines as columns.

    Args:
        content: the file.
        schema: field -> what it holds.
        require: raises at a line, given with its place, that holds something else.

    Raises:
        DataError: what ``require`` finds, or else what polars complains about.
    """
    try:
        return pl.read_ndjson(content.source, schema=schema)
    except pl.exceptions.PolarsError as error:
        for number, line in content.filled():
            require(line, f"{content.path}, line {number}")
        # Python writes NaN and Infinity, which JSON does not know: they are nothing.
        objects = (json.loads(line, parse_constant=lambda _: None) for _, line in content.filled())
        plain = "\n".join(json.dumps(fields, ensure_ascii=False) for fields in objects)
        # Every line is as required: what polars complained about may be such a number.
        with suppress(pl.exceptions.PolarsError):
            return pl.read_ndjson(plain.encode(), schema=schema)
        content.refuse(error)


def sample_objects(content: Content) -> list[dict[str, object]]:
    """The objects in the first lines.

    Raises:
        DataError: a line that is none.
    """
    return [read_object(line, f"{content.path}, line {number}") for number, line in islice(content.filled(), _SAMPLES)]


def sample_rows(content: Content, delimited: Delimited | None = None) -> list[dict[str, object]]:
    """Return column -> value of each of the first rows of a table; ``delimited`` is how a text is taken apart."""
    if content.parquet:
        return replace(content, part=(content.part[0] if content.part else 0, _SAMPLES)).table().to_dicts()
    if content.json:
        return sample_objects(content)
    delimited = delimited or Delimited.of(content)
    rows = islice((row for _, row in delimited.rows() if any(row)), not content.header, _SAMPLES)
    return [dict(zip(delimited.names, row, strict=False)) for row in rows]


def names_of(samples: Iterable[Mapping[str, object]]) -> list[str]:
    """The fields that objects have, in order of first appearance."""
    return list(dict.fromkeys(name for sample in samples for name in sample))


def read_object(line: str, where: str) -> dict[str, object]:
    """The JSON object in a line.

    Raises:
        DataError: the line is none.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({quoted(error)}); expected one object per line") from error
    if not isinstance(fields, dict):
        raise DataError(f"{where}: not a JSON object; expected one object per line")
    return fields


def by_role(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Columns under the names of their roles."""
    return frame.select(pl.col(name).alias(role) for role, name in columns.items())


def nothing() -> pl.DataFrame:
    """No columns: records that were not read from a file have no originals."""
    return pl.DataFrame()


AUTHORS = ("user", "user_id", "userid", "username", "screen_name", "author", "author_id", "author_name")
"""Fields that name who wrote a text, in the order in which they are looked for."""


def rows_of(originals: pl.DataFrame, users: Collection[str], column: str, path: Path) -> npt.NDArray[np.bool_]:
    """Return whether some users wrote each row of a file.

    Args:
        originals: (rows) all columns; of JSON one column ``json`` of objects.
        users: their ids.
        column: the column that names them, of JSON perhaps a path such as ``user.screen_name``; one of ``AUTHORS``
            where it is empty.
        path: the file.

    Raises:
        DataError: there is no such column.
    """
    if originals.columns == [JSON]:
        objects = [json.loads(line) for line in originals[JSON]]
        # The first field that holds a name in any object is that of all.
        lists = ([dig(fields, path) for fields in objects] for path in ((column,) if column else AUTHORS))
        names = next((values for values in lists if any(isinstance(name, str | int) for name in values)), None)
    else:
        author = next((name for name in ([column] if column else AUTHORS) if name in originals.columns), None)
        names = None if author is None else originals[author].to_list()
    if names is None:
        problem = f"column {quoted(column)} is not there" if column else "no column is recognised as the author's"
        raise DataError(f"{path}: {problem}; name it with --user-column")
    user_ids = {*users}
    return np.array([isinstance(name, str | int) and normal_id(name) in user_ids for name in names], np.bool_)


def extended(originals: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """The columns of a file, and others beside them.

    Args:
        originals: (rows) all columns; of JSON one column ``json`` of objects.
        added: (rows) columns; one whose name is taken gets ``ensue_`` before it.

    Returns:
        Both. Of JSON one column ``json``, the added fields within its objects.
    """
    if originals.columns != [JSON]:
        names = _free(added.columns, set(originals.columns))
        return originals.hstack(added.rename(dict(zip(added.columns, names, strict=True))))
    # Objects have fields of their own each: a name is taken where any of them has it.
    objects = [json.loads(line) for line in originals[JSON]]
    names = _free(added.columns, {name for fields in objects for name in fields})
    merged = (fields | dict(zip(names, row, strict=True)) for fields, row in zip(objects, added.rows(), strict=True))
    return pl.DataFrame({JSON: [json.dumps(fields, ensure_ascii=False) for fields in merged]})


def _free(names: Sequence[str], taken: Collection[str]) -> list[str]:
    return [f"ensue_{name}" if name in taken else name for name in names]
