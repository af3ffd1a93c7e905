"""The reader of sequences: a file, the files of a folder or of a pattern, or what ``ensue prepare`` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from ensue.data.histories import Histories
from ensue.data.packed import Opening
from ensue.data.sequences.dataset import SequencesReport, read_file, read_together
from ensue.data.sequences.sessions import check_gap
from ensue.data.sequences.sources import files_of, is_several, sources_of
from ensue.data.table import ReadOptions


def read(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    sort: bool = True,
    gap: float | None = None,
    **opening: Unpack[Opening],
) -> tuple[Histories, SequencesReport]:
    """Read a file of events or of sequences; its layout is found by its shape.

    Args:
        path: a plain or packed file, Parquet or Excel; a folder, or a pattern such as ``logs/*.parquet``, of files with
            one event a row, which are read as one log in the order of their names.
        columns: ``sequence``, ``value`` and ``time`` to column names, where the names do not speak for themselves.
        time_unit: ``s``, ``ms``, ``h`` or ``iso``; found out unless stated.
        sort: whether to put the events of a sequence in order of time, or to refuse those that are not; ties keep the
            file's order. Layouts known to be in no order (Diginetica, RetailRocket's events, RecBole) are sorted
            anyway.
        gap: minutes: a sequence is cut wherever the next event comes later than that, ``u`` into ``u#1``, ``u#2``, ….
            0 never cuts. Unless stated, 30 for a click log that knows users, items and times since 1970 but no
            sessions, and otherwise 0.
        opening: ``encoding``, ``sheet`` and ``max_unpacked``, see :class:`~ensue.data.packed.Opening`.

    Returns:
        Histories in order of first appearance, times in seconds, and what was understood.

    Raises:
        DataError: naming the file, the line, the field and what to do.
        SettingError: an unknown role or unit, a gap that is no pause, or one for a file without times.
    """
    options = ReadOptions(columns=columns or {}, time_unit=time_unit, **opening)
    check_gap(gap)
    place = Path(path)
    if is_several(place):
        return read_together(place, sources_of(files_of(place), options), options, sort=sort, gap=gap)
    return read_file(place, options, sort=sort, gap=gap)
