"""The reader of sequences: a file, the files of a folder or of a pattern, or what ``ensue prepare`` wrote."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import gettempdir
from typing import Unpack

from ensue.arguments import id_list, require_path
from ensue.data.file_bytes import DROP, KEEP, SUFFIXES, Opening, is_several, packing, temporary_folder
from ensue.data.histories import Histories
from ensue.data.schema import DataSchema, SequencesReport, kind_weights
from ensue.data.sequences.columns import PROPENSITY
from ensue.data.sequences.dataset import read_file, read_together
from ensue.data.sequences.prepared import is_prepared, read_prepared
from ensue.data.sequences.sessions import check_gap
from ensue.data.sequences.sources import LogFile, files_of, keeps_sequences, sources_of
from ensue.data.table import ReadOptions
from ensue.errors import SettingError

LARGE_ROWS = 20_000_000
LARGE_BYTES = 10**9
"""A log of more rows of Parquet, or more bytes of text, is prepared first: held whole, it would take 3 to 5 GB."""
PACKED = 6
"""Number of times its size a packed log comes to, about."""


def read(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    events: Collection[str] | Mapping[str, float] = (),
    time_unit: str | None = None,
    sort: bool = True,
    gap: float | None = None,
    off_policy: bool = False,
    **opening: Unpack[Opening],
) -> tuple[Histories, SequencesReport]:
    """Read a file of events or of sequences; its layout is found by its shape.

    Args:
        path: a plain or packed file, Parquet or Excel; a folder, or a pattern such as ``logs/*.parquet``, of files with
            one event a row, which are read as one log in the order of their names; or what ``ensue prepare`` wrote,
            whose columns are mapped.
        columns: ``session``, ``item`` and ``time`` to column names, where the names do not speak for themselves; also
            ``kind`` and ``weight`` of events, and ``propensity``.
        events: the event types that are read, such as ``("view", "purchase")``, of a table with a column of them
            (``event``, ``action``, ``type`` and the like, or ``columns={"kind": …}``); all unless given. With weights,
            ``{"view": 1, "purchase": 10, "dislike": 0}``, see :mod:`ensue.data.sequences.weights`.
        time_unit: ``s``, ``ms``, ``us``, ``ns``, ``h``, ``days`` (Excel's, since 1899-12-30) or ``iso``; found out
            unless stated.
        sort: whether to put the events of a sequence in order of time, or to refuse those that are not; ties keep the
            file's order. Layouts known to be in no order (Diginetica, RetailRocket's events, RecBole) are sorted
            anyway.
        gap: minutes: a sequence is cut wherever the next event comes later than that, ``u`` into ``u#1``, ``u#2``, ….
            0 never cuts. Unless stated, 30 for a click log that knows users, items and times since 1970 but no
            sessions, and otherwise 0.
        off_policy: whether events of weight 0 and propensities are kept, for off-policy evaluation.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``day_first``, see :class:`Opening`.

    Returns:
        Histories in order of first appearance, times in seconds, and what was understood.

    Raises:
        DataError: naming the file, the line, the field and what to do.
        SettingError: an unknown role or unit, a gap that is no pause, or one for a file without times.

    Example:
        >>> from ensue.data.sequences import read
        >>> histories, understood = read("clicks.csv")
        >>> len(histories), histories.vocabulary.values[0]
        (836, 'bridge-closes')
    """
    weighted = [f"{name}={weight}" for name, weight in events.items()] if isinstance(events, Mapping) else events
    types = ",".join(id_list(weighted, "events"))
    options = ReadOptions(columns=columns or {}, events=types, time_unit=time_unit, off_policy=off_policy, **opening)
    check_gap(gap)
    if PROPENSITY in options.columns and not off_policy:
        raise SettingError(f"columns: {PROPENSITY} is read for off-policy evaluation alone; remove it here")
    source = require_path(path)
    if is_prepared(source):
        _require_plain(source, options, sort or not options.schema.sort, gap)
        return read_prepared(source)
    gap = options.schema.gap if gap is None else gap
    # Heads of several files, and of a large one, say whether all of it fits into memory.
    sources = sources_of(files_of(source), options) if is_several(source) else _large_file(source, options)
    if sources and _is_large(sources):
        return _through_a_folder(source, options, sort, gap)
    if is_several(source):
        return read_together(source, sources, options, sort=sort, gap=gap)
    return read_file(source, options, sort=sort, gap=gap)


def _large_file(path: Path, options: ReadOptions) -> list[LogFile]:
    """A plain file with one event a row that may be large; otherwise none, and nothing of it is read."""
    begin = b""
    # The reader says what is wrong with other files; what is read from a pipe is gone.
    with suppress(OSError), path.open("rb") if path.is_file() else BytesIO() as file:
        begin = file.read(6)
    # Of most files the size alone tells, and no header is read. A packed file is unpacked once, to be read.
    if packing(begin) or not begin or path.stat().st_size < (LARGE_ROWS if begin[:4] == b"PAR1" else LARGE_BYTES):
        return []
    return [] if keeps_sequences(path, options) else sources_of([path], options)


def _is_large(sources: Sequence[LogFile]) -> bool:
    # Parquet counts by its rows, text by its bytes.
    text = sum(
        source.size * (PACKED if source.path.suffix.lower() in SUFFIXES else 1) for source in sources if not source.rows
    )
    return text > LARGE_BYTES or sum(source.rows for source in sources) > LARGE_ROWS


def _through_a_folder(
    path: Path, options: ReadOptions, sort: bool, gap: float | None
) -> tuple[Histories, SequencesReport]:
    """A large log by way of a temporary folder, which goes once it is mapped: its pages live while they are used."""
    from ensue.data.sequences.prepare import prepare  # few logs are large

    with temporary_folder() as folder:
        prepare([path], folder / "log", options, sort=sort, gap=gap)
        histories, report = read_prepared(folder / "log")
    reason = f"more than {LARGE_ROWS:,} rows of Parquet, or {LARGE_BYTES / 1e9:g} GB of text"
    note = (
        f"the log is large ({reason}) and was prepared in {gettempdir()} first; `ensue prepare` does that once "
        "for all commands"
    )
    return histories, replace(report, path=str(path), notes=(*report.notes, note))


def require_weights(path: Path, schema: DataSchema) -> None:
    """Refuse a prepared log, which stores no weights of events, for a model that was trained with weights of kinds.

    Raises:
        SettingError: naming the file.
    """
    if is_prepared(path) and {*kind_weights(schema.events).values()} - {1.0}:
        message = f"a prepared log stores no weights of events, but the model was trained with {schema.events}"
        raise SettingError(f"{path}: {message}; give the log that it was prepared from")


def _require_plain(path: Path, options: ReadOptions, sort: bool, gap: float | None) -> None:
    """Refuse options of reading where a log was read already.

    Raises:
        SettingError: naming the first.
    """
    options_stated = {
        "--columns": bool(options.columns),
        "--events": bool(options.events),
        "--time-unit": options.time_unit is not None,
        "--day-first": options.day_first is not None,
        "--no-sort": not sort,
        "--session-gap": gap is not None,
        "--encoding": bool(options.encoding),
        "--sheet": bool(options.sheet),
        "--missing": options.missing in (DROP, KEEP),
    }
    for name in filter(options_stated.get, options_stated):
        raise SettingError(f"{path}: is a prepared log; remove {name} here and give it to `ensue prepare`")
