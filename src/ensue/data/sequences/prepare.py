"""``ensue prepare``: a log of any size as memory-mapped columns, in bounded memory, equal to what the reader returns.

The files are read piece by piece into batches (:mod:`~ensue.data.sequences.batches`). DuckDB groups the events by
session, in order of first arrival, and spills to disk what exceeds its memory limit. The sorted events are then read in
windows of whole sessions, in which items get their ids, times their order and sessions their pauses.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.clock import in_seconds
from ensue.data.file_bytes import flush, is_several, memory_at_hand
from ensue.data.histories import Histories, Index, offsets_of
from ensue.data.schema import SequencesReport
from ensue.data.sequences.batches import Batches, Cursor, Share, find_shares, read_share, write_share
from ensue.data.sequences.columns import WEIGHT, is_user_log
from ensue.data.sequences.dataset import cut_notes, in_order, pause_of, read_file, report_of, require_times, sorted_note
from ensue.data.sequences.prepared import FORMAT, LogSize, Writer, is_prepared
from ensue.data.sequences.rows import is_unordered, remarks_on
from ensue.data.sequences.sessions import check_gap, cut
from ensue.data.sequences.sources import LogFile, files_of, keeps_sequences, notes_on_files, sources_of
from ensue.data.table import ReadOptions, skipped
from ensue.errors import DataError, EnsueError, SettingError
from ensue.lines import plural, quoted
from ensue.version import __version__
from ensue.vocabulary import FIRST, Vocabulary

Progress = Callable[[str, int, int], None]
"""Called with the step, its number of rows so far, and of how many; 0 where that is not known."""
WINDOW = 2**20
"""Events of a window, about."""
_ROOM = {True: 100, False: 160}
"""Bytes on disk that an event takes at most, temporary files included, where sessions are numbers and where texts."""
_PROBE = 2**16
_COPIES = {
    "events": (
        "SELECT code, {time} FROM events JOIN sessions USING (session) JOIN items USING (item) ORDER BY first, row"
    ),
    "sessions": "SELECT session::VARCHAR AS name, length FROM sessions ORDER BY first",
    "items": "SELECT item::VARCHAR AS value FROM items ORDER BY code",
}
"""Name of a Parquet file -> the query that fills it."""


def prepare(
    data: Sequence[Path],
    output: Path,
    options: ReadOptions,
    *,
    sort: bool = True,
    gap: float | None = None,
    merge: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> tuple[SequencesReport, LogSize]:
    """Write a log as a folder that every reader of sequences maps.

    The same call goes on where another was killed, unless the files or the options have changed since.

    Args:
        data: files, folders or patterns; those of one event a row are read as one log, another file alone.
        output: the folder to write; it must not be there.
        options: how the files are read.
        sort: see :func:`ensue.data.sequences.read`.
        gap: minutes, as there.
        merge: put together what :func:`prepare_share` wrote of the same files by the same options; the folder is, byte
            for byte, what comes without.
        progress: told now and then.

    Returns:
        What was understood, and how much there is.

    Raises:
        DataError: the first row that does not fit, a disk that is full or cannot be written.
        SettingError: a place that is taken, options that mean nothing to this log, or DuckDB is not installed.
    """
    check_gap(gap)
    if find_spec("duckdb") is None:
        raise SettingError("`ensue prepare`, and logs that are too large for memory, need: pip install 'ensue[large]'")
    _require_free(output)
    files = _files(data)
    name = data[0] if len(data) == 1 else Path(f"{data[0]} and {len(data) - 1} more")
    target = output.resolve()
    with _work(target) as work:
        # A file with a sequence in each row is read whole: such files are small.
        if len(files) == 1 and not (merge or is_several(data[0])) and keeps_sequences(files[0], options):
            _start(work, {})
            outcome = _copy(files[0], options, work / "whole", sort, gap)
        else:
            sources = sources_of(files, options)
            plan = _plan(sources, options, sort, gap)
            shares = find_shares(target, plan) if merge else []
            batches = _batches(sources, options, work, {**plan, "shares": [str(folder) for folder in shares]})
            for folder in shares:
                batches.take(read_share(folder, batches))
            if not merge:
                batches.resume()
                _read(batches, progress)
            _sort(name, batches, work, progress)
            outcome = _write(name, batches, options, work, sort, gap, progress, plan)
    return outcome


def prepare_share(
    data: Sequence[Path],
    output: Path,
    options: ReadOptions,
    share: Share,
    *,
    sort: bool = True,
    gap: float | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[Path, int]:
    """Read a share of the files of a log, alone on its machine; :func:`prepare` puts all shares together.

    Args:
        data: all files, folders or patterns, as there: their heads are read, and the rows of this share.
        output: the folder that all shares will come to; beside it stands a folder with the shares.
        options: how the files are read.
        share: which.
        sort: see :func:`prepare`.
        gap: as there.
        progress: told now and then.

    Returns:
        The folder of the share, and how many events it holds.

    Raises:
        DataError: the first row that does not fit, a disk that is full or cannot be written.
        SettingError: a place that is taken, or more shares than files.
    """
    check_gap(gap)
    _require_free(output)
    sources = sources_of(_files(data), options)
    low, high = share.of_files([source.size for source in sources])
    target = share.folder(output.resolve())
    _require_free(target)
    plan = _plan(sources, options, sort, gap)
    with _work(target) as work:
        batches = _batches(sources, options, work, plan, share.of)
        batches.state.cursor = Cursor(low)
        batches.end = high
        batches.resume()
        _read(batches, progress)
        write_share(work / "whole", batches, share, plan)
    return share.folder(output), batches.state.rows


def _require_free(output: Path) -> None:
    if output.exists():
        problem = "already holds a prepared log" if is_prepared(output) else "already exists"
        raise SettingError(f"{output}: {problem}; choose another folder, or remove it first")


def _files(data: Sequence[Path]) -> list[Path]:
    files = [file for path in data for file in files_of(path)]
    twice = next((file for file, count in Counter(file.resolve() for file in files).items() if count > 1), None)
    if twice is not None:
        raise SettingError(f"{twice}: is listed twice; list each file once")
    return files


def _batches(
    sources: Sequence[LogFile], options: ReadOptions, work: Path, plan: dict[str, object], shares: int = 1
) -> Batches:
    """Return the batches of a log before any is read; those of another plan are removed.

    Raises:
        SettingError: events have weights, which a prepared log does not store.
    """
    if WEIGHT in sources[0].columns or {*options.kind_weights.values()} - {1.0}:
        raise SettingError(
            f"{sources[0].path}: a prepared log, as of a log of many GB, stores no weights of events; read one kind of "
            "events with --events, without weights"
        )
    if not _start(work, plan):
        rows = sum(source.rows or _guess(source, options) for source in sources) // shares
        needed = rows * _ROOM[all("session" in source.whole_numbers for source in sources)]
        if needed > (free := shutil.disk_usage(work).free):
            raise DataError(
                f"{work.parent}: has {free / 1e9:.3g} GB of free space, and preparing the log may need "
                f"{needed / 1e9:.3g} GB; free some, or choose a folder on another disk"
            )
    return Batches(work, sources, options)


def _read(batches: Batches, progress: Progress) -> None:
    """Read what is left of the files."""
    sources = batches.sources[batches.state.cursor.source : batches.end]
    total = batches.state.rows + sum(source.rows for source in sources) if all(source.rows for source in sources) else 0
    batches.read(lambda done: None if done == total else progress("read", done, total))
    progress("read", batches.state.rows, batches.state.rows)


def _sort(shown: Path, batches: Batches, work: Path, progress: Progress) -> None:
    """Write the events grouped by session, the sessions and the items of a log as Parquet files.

    Raises:
        DataError: the log holds no event, or the disk cannot be written.
    """
    if not batches.state.rows:
        none = f"{shown}: none of {plural(len(batches.sources), 'file')} holds an event"
        raise DataError("; ".join([none, *batches.ids.warnings]))
    import duckdb  # an extra

    # The number of a row in the whole log keeps the order of events within a session.
    events = " UNION ALL ".join(
        f"SELECT *, file_row_number + {num_before} AS row FROM read_parquet({_literal(path)}, file_row_number = true)"
        for path, num_before in batches.files
    )
    time = "time" if batches.state.clock else "NULL AS time"
    statements = [
        f"SET memory_limit = '{max(memory_at_hand() // 4, 2**29) // 2**20} MiB'",
        f"SET temp_directory = {_literal(work / 'sorted' / 'spilled')}",
        "SET preserve_insertion_order = false",  # of queries without ORDER BY
        f"CREATE VIEW events AS {events}",
        "CREATE TABLE sessions AS SELECT session, min(row) AS first, count(*) AS length FROM events GROUP BY session",
        "CREATE TABLE items AS SELECT item, (row_number() OVER () - 1)::INTEGER AS code "
        "FROM (SELECT DISTINCT item FROM events)",
        *(
            f"COPY ({query.format(time=time)}) TO {_literal(work / 'sorted' / name)} (FORMAT parquet)"
            for name, query in _COPIES.items()
        ),
    ]
    try:
        with duckdb.connect() as database, ThreadPoolExecutor(1) as pool:
            # In the main thread DuckDB would replace the exception that a signal raises by an error of its own.
            running = pool.submit(lambda: [database.execute(statement) for statement in statements])
            try:
                running.result()
            except KeyboardInterrupt:
                database.interrupt()
                raise
    except duckdb.Error as error:
        raise OSError(str(error)) from error
    progress("put in order", batches.state.rows, batches.state.rows)


def _literal(path: Path) -> str:
    """Return a path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def _write(
    name: Path,
    batches: Batches,
    options: ReadOptions,
    work: Path,
    sort: bool,
    gap: float | None,
    progress: Progress,
    plan: dict[str, object],
) -> tuple[SequencesReport, LogSize]:
    """Write the sorted events, window after window, into the columns of the prepared log."""
    layout = batches.state.layout
    columns = batches.state.columns
    clock = None if batches.state.clock is None else batches.state.clock.format(layout, options.times)
    require_times(name, gap, timed=clock is not None)
    users = is_user_log(columns) and "session" not in options.columns and clock is not None and clock.absolute
    minutes = pause_of(gap, layout, users=users)
    items = pl.read_parquet(work / "sorted" / "items")["value"]
    ids_of = np.zeros(len(items), np.int32)  # 0 for items that no window has held yet
    order = list[Index]()
    num_sessions = num_sorted = num_items = 0
    writer = Writer(work / "whole")
    for events, sessions in _windows(work / "sorted"):
        codes = events["code"].to_numpy()
        # New items get the next ids in order of first arrival, as a reader of the whole log gives them.
        new = pl.Series(codes[ids_of[codes] == 0]).unique(maintain_order=True).to_numpy()
        ids_of[new] = np.arange(len(new)) + FIRST + num_items
        num_items += len(new)
        order.append(new)
        histories = Histories(
            ids_of[codes], offsets_of(sessions["length"].to_numpy()), Vocabulary(), names=sessions["name"]
        )
        num_sessions += len(histories)
        if clock is not None:
            histories = replace(histories, times=in_seconds(events["time"].to_numpy(), clock.scale))
            where = partial(_place, name, histories)
            histories, count = in_order(histories, events["time"], where, sort or is_unordered(layout, columns))
            num_sorted += count
        writer.add(cut(histories, minutes) if minutes else histories)
        progress("written", writer.events, batches.state.rows)
    notes = (
        *batches.state.notes,
        *batches.ids.notes,
        *notes_on_files(len(batches.sources), len(batches.sources) - batches.state.filled),
        *((skipped(batches.state.empty),) if batches.state.empty else ()),
        *remarks_on(layout, columns),
        *sorted_note(num_sorted, num_sessions),
        *cut_notes(num_sessions, writer.histories, gap, layout, users=users),
    )
    report = report_of(name, layout, columns, clock, notes, batches.ids.warnings, events=options.events)
    return report, writer.finish(items.gather(np.concatenate(order)), report, plan)


def _windows(folder: Path) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the events and the sessions of each window."""
    ends = pl.read_parquet(folder / "sessions", columns=["length"])["length"].cum_sum().to_numpy()
    events, sessions = pl.scan_parquet(folder / "events"), pl.scan_parquet(folder / "sessions")
    # A window ends with the last session that begins and ends within WINDOW events, or holds one longer session.
    low = first = 0
    while low < len(ends):
        high = max(low + 1, int(np.searchsorted(ends, first + WINDOW, side="right")))
        end = int(ends[high - 1])
        yield events.slice(first, end - first).collect(), sessions.slice(low, high - low).collect()
        low = high
        first = end


def _place(name: Path, histories: Histories, event: int) -> str:
    """The sequence of an event, for messages: the rows of the log are not kept."""
    owner = int(np.searchsorted(histories.offsets, event, side="right")) - 1
    return f"{name}: sequence {quoted(histories.names[owner])}"


def _copy(
    path: Path, options: ReadOptions, folder: Path, sort: bool, gap: float | None
) -> tuple[SequencesReport, LogSize]:
    """A file with a sequence a row: read whole, as ever."""
    histories, report = read_file(path, options, sort=sort, gap=gap)
    writer = Writer(folder)
    writer.add(histories)
    values = pl.Series(histories.vocabulary.values, dtype=pl.String)
    return report, writer.finish(values, report, _plan([], options, sort, gap))


def _plan(sources: Sequence[LogFile], options: ReadOptions, sort: bool, gap: float | None) -> dict[str, object]:
    """All that the outcome depends on."""
    files = [[str(source.path.resolve()), source.size, source.path.stat().st_mtime_ns] for source in sources]
    return {"ensue": __version__, "format": FORMAT, "sort": sort, "gap": gap, **asdict(options), "files": files}


def _guess(source: LogFile, options: ReadOptions) -> int:
    """About how many rows a file of text has, by its first lines."""
    content = options.open(source.path, in_pieces=True)
    head = content.data[:_PROBE]  # its lines per byte are those of the file
    return len(content.data) * head.count(b"\n") // len(head) + 1


@contextmanager
def _work(target: Path) -> Iterator[Path]:
    """Yield a folder beside an output folder, whose folder ``whole`` becomes the output folder once all is done.

    It goes when all is done or the log is refused; otherwise the same command finds it again.

    Raises:
        DataError: another process is at work there, or in place of an error of the system.
    """
    work = target.with_name(f".{target.name}.preparing")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield work
            (work / "whole").rename(target)
            flush(target.parent)
            shutil.rmtree(work)
        except EnsueError:  # whoever mends what was wrong begins from scratch
            shutil.rmtree(work)
            raise
        finally:
            os.close(descriptor)
    except BlockingIOError as error:
        raise DataError(f"{target}: another process prepares it; wait until it has finished, or stop it") from error
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise DataError(
            f"{target}: cannot be written ({reason}); nothing was written; the same command resumes once there is space"
        ) from error


def _start(work: Path, plan: dict[str, object]) -> bool:
    """Return whether a folder holds batches of this plan; otherwise empty it and write the plan."""
    note = work / "plan.json"
    text = json.dumps(plan, indent=1)
    # Batches of the same plan stay; what was made from them is made again.
    for name in ("whole", "sorted"):
        shutil.rmtree(work / name, ignore_errors=True)
    is_resumed = note.exists() and note.read_text(encoding="utf-8") == text
    if not is_resumed:
        for other_plan in work.iterdir():
            other_plan.unlink()
        note.write_text(text, encoding="utf-8")
    for name in ("whole", "sorted"):
        (work / name).mkdir()
    return is_resumed
