"""Which files a name stands for, a file, a folder or a pattern such as ``logs/*.parquet``; and their rows as one table.

The files of a folder are read as if they stood one below the other, in the order of their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ensue.data.file_bytes import ending, files_in, is_several
from ensue.data.files import answering
from ensue.data.sequences.rows import (
    find_roles,
    id_columns,
    normalise_ids,
    read_rows,
    recognise_layout,
    require_event_types,
)
from ensue.data.table import ReadOptions, Table, place_in_files, require_columns_of, skipped
from ensue.errors import DataError
from ensue.lines import listed, plural

ENDINGS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".inter", ".txt", ".dat", ".log")
"""Endings of the files that are read of a folder; each may be packed."""
_MAX_EXAMPLES = 3


@dataclass(frozen=True)
class LogFile:
    """A file with one event a row, and what its head says."""

    path: Path
    layout: str
    columns: dict[str, str]
    """Role -> column."""
    size: int
    """Bytes on disk."""
    rows: int
    """Number of rows of Parquet; 0 for other files."""
    whole_numbers: frozenset[str]
    """Roles whose column holds whole numbers of at most 64 bits."""


def files_of(path: Path) -> list[Path]:
    """The files that a name stands for, in the order of their names.

    Of a folder those whose names end as in ``ENDINGS``.

    Raises:
        DataError: a folder without such a file, or a pattern that no file fits.
    """
    if not is_several(path):
        return [path]
    inside = files_in(path)
    if not path.is_dir():
        return inside
    logs = [file for file in inside if ending(file) in ENDINGS]
    if not logs:
        content_text = listed((str(file.relative_to(path)) for file in inside[:_MAX_EXAMPLES]), _MAX_EXAMPLES)
        raise DataError(
            f"{path}: is a folder; name a file in it, or one that holds files that end in {', '.join(ENDINGS)} (packed "
            f"or not): this one holds {content_text}{' and more' * (len(inside) > _MAX_EXAMPLES)}"
        )
    return logs


def sources_of(files: Sequence[Path], options: ReadOptions) -> list[LogFile]:
    """Return the layout, columns and size of each file, by its head.

    Raises:
        DataError: a file that cannot be read, keeps a sequence a row, or differs from the first in its kind or in the
            columns that are read.
    """
    # Heads are compared before any file is read: a log of hours is refused at once.
    sources = [_source(path, options) for path in files]
    first = sources[0]
    for other in sources[1:]:
        if other.layout != first.layout:
            raise DataError(
                f"{other.path}: is {other.layout}, but {first.path} is {first.layout}; files that are read together "
                "must be of one kind: select files by a pattern in quotes, such as 'logs/*.parquet'"
            )
        require_columns_of(other.path, other.columns, first.path, first.columns)
    return sources


def _source(path: Path, options: ReadOptions) -> LogFile:
    if path.is_file() and not path.stat().st_size:
        raise DataError(f"{path}: is empty; fetch it again, or remove it from the folder")
    content = options.open(path, in_pieces=True)
    layout = recognise_layout(content, options)
    if layout.shape != "events":
        raise DataError(
            f"{path}: has one session per row ({layout.description}), and such files are read one at a time; give one "
            "file"
        )
    columns, _ = find_roles(content, options, layout.name)
    schema = content.schema() if content.parquet else {}
    # Only Parquet has types; ids of more than 64 bits are texts for DuckDB.
    wide = (pl.UInt64, pl.Int128, pl.UInt128)
    whole_numbers = frozenset(
        role for role, name in columns.items() if schema and schema[name].is_integer() and schema[name] not in wide
    )
    return LogFile(path, layout.name, columns, path.stat().st_size, content.num_rows() if schema else 0, whole_numbers)


def rows_together(path: Path, sources: Sequence[LogFile], options: ReadOptions) -> Table:
    """The events of files, one below the other, none without content.

    Raises:
        DataError: the first row that does not fit, times of two kinds, or no event in any file.
    """
    tables = list[Table]()
    notes = dict[str, None]()  # a set in order
    ids = id_columns(options)
    empty = rowless = 0
    types = Counter[str]()
    for source in sources:
        content = options.open(source.path)
        table, without = read_rows(content, options, source.layout).without_empty()
        types += Counter(table.event_types)
        empty += without
        rowless += not len(table.frame)
        notes |= dict.fromkeys((*content.notes, *table.notes))
        # Each file's ids become whole numbers or texts, which can stand in one column.
        tables += [ids.plain(table)] if len(table.frame) else []
    notes |= dict.fromkeys(require_event_types(path, types, options))
    if not tables:
        raise DataError(f"{path}: none of {plural(len(sources), 'file')} holds an event")
    # Numbers and dates cannot be told apart once they are texts in one column.
    first_kind = _time_kind(tables[0])
    for table in tables:
        if (kind := _time_kind(table)) != first_kind:
            raise DataError(
                f"{table.where(0)}: times are {kind} here, but {first_kind} at {tables[0].where(0)}; write all times "
                "in the same way"
            )
    where = place_in_files([len(table.frame) for table in tables], [table.where for table in tables])
    frame = pl.concat([_texts(table.frame) for table in tables], how="vertical_relaxed")
    all_notes = (*notes, *notes_on_files(len(sources), rowless), *((skipped(empty),) if empty else ()))
    return normalise_ids(Table(tables[0].layout, frame, where, tables[0].columns, all_notes), ids)


def notes_on_files(files: int, rowless: int) -> tuple[str, ...]:
    """Return how many files were read as one log, and how many of them hold no event."""
    if files == 1:
        return ()
    without = f"; {plural(rowless, 'file holds', 'files hold')} no event" if rowless else ""
    return (f"{files:,} files read as one log, ordered by name{without}",)


def _time_kind(table: Table) -> str:
    """Return ``numbers``, ``dates`` (as Parquet has them), ``texts``, or nothing where there are no times."""
    if "time" not in table.frame.columns:
        return ""
    kind = table.frame["time"].dtype
    return "dates" if kind.is_temporal() else "numbers" if kind.is_numeric() else "texts"


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Sequences and values as texts, so that files that keep them as numbers and as texts go together."""
    texts = [name for name in ("session", "item") if frame[name].dtype != pl.Categorical]  # categories are texts
    return frame.with_columns(pl.col(texts).cast(pl.String))


def keeps_sequences(path: Path, options: ReadOptions) -> bool:
    """Return whether each row of a file holds a whole sequence."""
    with answering(path):
        content = options.open(path, in_pieces=True)
        return recognise_layout(content, options).shape != "events"
