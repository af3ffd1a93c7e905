"""``ensue prepare``: a log of any size as mapped columns, in bounded memory, exactly as the reader would give it.

Events are hashed by sequence into parts (:mod:`~ensue.data.sequences.batches`), each part is put in order alone
(:mod:`~ensue.data.sequences.parts`), and all parts are read side by side, a window of sequences in order of first
arrival at a time, in which values get their ids, times their order and sequences their pauses.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.clock import in_seconds
from ensue.data.histories import Histories, Index, offsets_of
from ensue.data.packed import is_several
from ensue.data.sequences.batches import Batches
from ensue.data.sequences.columns import is_user_log
from ensue.data.sequences.dataset import (
    SequencesReport,
    cut_notes,
    in_order,
    pause_of,
    read_file,
    report_of,
    require_times,
    sorted_note,
)
from ensue.data.sequences.parts import PartReader, merged, ordered, write_part
from ensue.data.sequences.pieces import Cursor
from ensue.data.sequences.prepared import FORMAT, Counts, Writer, flush, is_prepared
from ensue.data.sequences.sessions import check_gap, cut
from ensue.data.sequences.shares import Share, find_shares, read_share, write_share
from ensue.data.sequences.sources import Source, files_of, keeps_sequences, notes_on_files, sources_of
from ensue.data.table import ReadOptions, skipped
from ensue.errors import DataError, EnsueError, SettingError
from ensue.lines import plural, quoted
from ensue.version import __version__
from ensue.vocabulary import FIRST, Vocabulary

Progress = Callable[[str, int, int], None]
"""Told what is done, how many rows of it, and of how many; 0 where that is not known."""
PART = 2**20
"""Events of a part, and of a window of all parts, about: what is sorted should fit the processor's cache."""
MOST_BITS = 12
_BLOCK = 13
_ROOM = {True: 100, False: 160}
"""Bytes on disk that an event takes at most in between and in the end, where sequences are numbers and where texts."""
_PROBE = 2**16


def prepare(
    data: Sequence[Path],
    output: Path,
    options: ReadOptions,
    *,
    sort: bool = True,
    gap: float | None = None,
    merge: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> tuple[SequencesReport, Counts]:
    """Write a log as a folder that every reader of sequences maps.

    The same call goes on where another was killed, unless the files or the options have changed since.

    Args:
        data: files, folders or patterns; those of one event a row are read as one log, another file alone.
        output: the folder to write; it must not be there.
        options: how the files are read.
        sort: see :func:`ensue.data.sequences.reading.read`.
        gap: minutes, as there.
        merge: put together what :func:`prepare_share` wrote of the same files by the same options; the folder is, byte
            for byte, what comes without.
        progress: told now and then.

    Returns:
        What was understood, and how much there is.

    Raises:
        DataError: the first row that does not fit, a disk that is full or cannot be written.
        SettingError: a place that is taken, or options that mean nothing to this log.
    """
    check_gap(gap)
    _require_free(output)
    files = _files(data)
    shown = data[0] if len(data) == 1 else Path(f"{data[0]} and {len(data) - 1} more")
    place = output.resolve()
    with _writing(place), _work(place) as work:
        whole = work / "whole"
        if len(files) == 1 and not (merge or is_several(data[0])) and keeps_sequences(files[0], options):
            _start(work, {})
            found = _copy(files[0], options, whole, sort, gap)
        else:
            sources = sources_of(files, options)
            plan = _plan(sources, options, sort, gap)
            begun = _begun(plan, sources, options)
            shares = find_shares(place, begun) if merge else []
            batches = _batches(sources, options, work, {**begun, "shares": [str(folder) for folder in shares]})
            if merge:
                for folder in shares:
                    batches.take(read_share(folder, batches))
            else:
                batches.go_on()
                _read(batches, progress)
            found = _put_together(shown, batches, options, work, sort, gap, progress, plan)
        whole.rename(place)
        flush(place.parent)
    return found


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
    place = share.folder(output.resolve())
    _require_free(place)
    begun = _begun(_plan(sources, options, sort, gap), sources, options)
    with _writing(place), _work(place) as work:
        batches = _batches(sources, options, work, begun, share.of)
        batches.cursor, batches.until = Cursor(low), high
        batches.go_on()
        _read(batches, progress)
        write_share(work / "whole", batches, share, begun)
        (work / "whole").rename(place)
        flush(place.parent)
    return share.folder(output), batches.rows


def _require_free(output: Path) -> None:
    if output.exists():
        what = "already holds a prepared log" if is_prepared(output) else "already exists"
        raise SettingError(f"{output}: {what}; choose another folder, or remove it first")


def _files(data: Sequence[Path]) -> list[Path]:
    files = [file for path in data for file in files_of(path)]
    twice = next((file for file, count in Counter(file.resolve() for file in files).items() if count > 1), None)
    if twice is not None:
        raise SettingError(f"{twice}: is listed twice; list each file once")
    return files


def _batches(
    sources: Sequence[Source], options: ReadOptions, work: Path, begun: dict[str, object], shares: int = 1
) -> Batches:
    """Those of a log, none of them read yet; what was begun otherwise goes."""
    if not _start(work, begun):
        rows = _rows(sources, options) // shares
        _require_room(work, rows * _ROOM[all(source.whole_numbers for source in sources)])
    return Batches(work, sources, options, _bits(sources, options))


def _rows(sources: Sequence[Source], options: ReadOptions) -> int:
    return sum(source.rows or _guess(source, options) for source in sources)


def _bits(sources: Sequence[Source], options: ReadOptions) -> int:
    """Of the hash of a sequence that choose its part."""
    rows = _rows(sources, options)
    return min((-(-rows // PART) - 1).bit_length() if rows > PART else 0, MOST_BITS)


def _begun(plan: dict[str, object], sources: Sequence[Source], options: ReadOptions) -> dict[str, object]:
    """All that what is written in between depends on."""
    return {**plan, "bits": _bits(sources, options), "polars": pl.__version__}


def _read(batches: Batches, progress: Progress) -> None:
    """What is left of their files."""
    own = batches.sources[batches.cursor.source : batches.until]
    exact = batches.rows + sum(source.rows for source in own) if all(source.rows for source in own) else 0
    batches.read(lambda done: None if done == exact else progress("read", done, exact))
    progress("read", batches.rows, batches.rows)


def _put_together(
    shown: Path,
    batches: Batches,
    options: ReadOptions,
    work: Path,
    sort: bool,
    gap: float | None,
    progress: Progress,
    read: dict[str, object],
) -> tuple[SequencesReport, Counts]:
    """From batches to the columns that stay."""
    if not batches.rows:
        none = f"{shown}: none of {plural(len(batches.sources), 'file')} holds an event"
        raise DataError("; ".join([none, *batches.ids.warnings]))
    for number in range(1 << batches.bits):
        if not (work / f"{number:06}.part").exists():
            write_part(work / f"{number:06}.part", ordered(batches.part(number)))
            (work / f"{number:06}.part").touch()
        progress("put in order", batches.rows * (number + 1) >> batches.bits, batches.rows)
    return _merge(shown, batches, options, work, sort, gap, progress, read)


def _merge(
    shown: Path,
    batches: Batches,
    options: ReadOptions,
    work: Path,
    sort: bool,
    gap: float | None,
    progress: Progress,
    read: dict[str, object],
) -> tuple[SequencesReport, Counts]:
    """All parts side by side, window after window, into the columns that stay."""
    alike = batches.head
    assert alike is not None
    clock = None if batches.clock is None else batches.clock.end(alike.layout, options.times)
    require_times(shown, gap, timed=clock is not None)
    users = is_user_log(alike.columns) and "session" not in options.columns and clock is not None and clock.absolute
    minutes = pause_of(gap, alike.layout, users=users)
    places = [work / f"{number:06}.part" for number in range(1 << batches.bits)]
    readers = [PartReader(place, timed=clock is not None, numbers=batches.numbers) for place in places]
    ids_of, order = np.zeros(batches.codes.count, np.int32), list[Index]()
    before = num_sorted = 0
    writer = Writer(work / "whole")
    for bound in _windows(places, batches.rows):
        part = merged([reader.until(bound) for reader in readers])
        new = pl.Series(part.values[ids_of[part.values] == 0]).unique(maintain_order=True).to_numpy()
        ids_of[new] = np.arange(len(new)) + FIRST + sum(map(len, order))
        order.append(new)
        names = part.names.cast(pl.String)
        found = Histories(ids_of[part.values], offsets_of(part.lengths), Vocabulary(), names=names)
        before += len(found)
        if clock is not None:
            timed = replace(found, times=in_seconds(part.times, clock.scale))
            where = partial(_place, shown, timed)
            found, count = in_order(timed, pl.Series(part.times), where, sort or alike.unordered)
            num_sorted += count
        writer.add(cut(found, minutes) if minutes else found)
        progress("written", writer.events, batches.rows)
    notes = (
        *batches.notes,
        *batches.ids.notes,
        *notes_on_files(len(batches.sources), len(batches.sources) - batches.filled),
        *((skipped(batches.empty),) if batches.empty else ()),
        *alike.remarks,
        *sorted_note(num_sorted, before),
        *cut_notes(before, writer.histories, gap, alike.layout, users=users),
    )
    report = report_of(shown, alike.layout, alike.columns, clock, notes, batches.ids.warnings, events=options.events)
    return report, writer.finish(batches.codes.every().gather(np.concatenate(order)), report, read)


def _windows(places: Sequence[Path], rows: int) -> list[int]:
    """Rows of the log between which sequences begin that have about ``PART`` events."""
    events = np.zeros((rows >> _BLOCK) + 1)
    for place in places:
        first = np.fromfile(place.with_suffix(".first"), np.int64)
        lengths = np.fromfile(place.with_suffix(".lengths"), np.int64)
        events += np.bincount(first >> _BLOCK, lengths, minlength=len(events))
    window = np.cumsum(events).astype(np.int64) // PART
    return [*((np.flatnonzero(np.diff(window)) + 1) << _BLOCK).tolist(), rows]


def _place(shown: Path, histories: Histories, event: int) -> str:
    """The sequence of an event, for messages: the rows of the log are not kept."""
    owner = int(np.searchsorted(histories.offsets, event, side="right")) - 1
    return f"{shown}: sequence {quoted(histories.names[owner])}"


def _copy(
    path: Path, options: ReadOptions, whole: Path, sort: bool, gap: float | None
) -> tuple[SequencesReport, Counts]:
    """A file with a sequence a row: read whole, as ever."""
    histories, report = read_file(path, options, sort=sort, gap=gap)
    writer = Writer(whole)
    writer.add(histories)
    values = pl.Series(histories.vocabulary.values, dtype=pl.String)
    return report, writer.finish(values, report, _plan([], options, sort, gap))


def _plan(sources: Sequence[Source], options: ReadOptions, sort: bool, gap: float | None) -> dict[str, object]:
    """All that the outcome depends on."""
    files = [[str(source.path.resolve()), source.size, source.path.stat().st_mtime_ns] for source in sources]
    return {"ensue": __version__, "format": FORMAT, "sort": sort, "gap": gap, **asdict(options), "files": files}


def _guess(source: Source, options: ReadOptions) -> int:
    """About how many rows a file of text has, by its first lines."""
    content = options.open(source.path, in_pieces=True)
    head = content.data[:_PROBE]
    return len(content.data) * head.count(b"\n") // len(head) + 1


@contextmanager
def _work(place: Path) -> Iterator[Path]:
    """The folder beside a place in which all is written first; it goes when all is done, or the log is refused.

    Raises:
        DataError: another process is at work there.
    """
    work = place.with_name(f".{place.name}.preparing")
    place.parent.mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    descriptor = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(f"{place}: another process prepares it; wait until it has finished, or stop it") from error
        try:
            yield work
        except EnsueError:  # whoever mends what was wrong begins anew
            shutil.rmtree(work)
            raise
        shutil.rmtree(work)
    finally:
        os.close(descriptor)


def _start(work: Path, plan: dict[str, object]) -> bool:
    """Whether a folder holds what was begun by this very plan; otherwise it is emptied and the plan written."""
    note, text = work / "plan.json", json.dumps(plan, indent=1)
    shutil.rmtree(work / "whole", ignore_errors=True)
    begun = note.exists() and note.read_text(encoding="utf-8") == text
    if not begun:
        for left in work.iterdir():
            left.unlink()
        note.write_text(text, encoding="utf-8")
    (work / "whole").mkdir()
    return begun


def _require_room(work: Path, needed: int) -> None:
    free = shutil.disk_usage(work).free
    if needed > free:
        raise DataError(
            f"{work.parent}: has {free / 1e9:.3g} GB of free space, and preparing the log may need "
            f"{needed / 1e9:.3g} GB; free some, or choose a folder on another disk"
        )


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """What cannot be written is one error, and the place stays as it is.

    Raises:
        DataError: in place of an error of the system.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise DataError(
            f"{place}: cannot be written ({reason}); nothing was written; the same command resumes once there is space"
        ) from error
