"""Exact duplicates: events, rows and whole files that were written twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Index, distinct_numbers, ranges, scrambled
from ensue.lines import part_of, quoted

MIN_SHARE = 0.01
"""Share of the events that must be exact duplicates before anything is said: some clicks are noted twice in any log."""
SAME = 0.95
"""Share of the distinct events that are there equally often in a log that was concatenated."""
MAX_EVENTS = 10_000_000
"""Events that are compared: it takes two seconds and 16 bytes of memory an event."""
MIN_ROWS = 4
"""Events or sequences of which a pattern can be told."""
MIN_DISTINCT = 10
"""Different rows that a file of texts has at least before anything is said."""
_ADVICE = "keep one copy, for a CSV or JSON Lines file by `awk '!seen[$0]++' FILE > NEW`"


def duplicates(histories: Histories) -> str:
    """Return a warning of exact duplicates: what they are, how many, and whether the log looks concatenated.

    Of a log with times an exact duplicate has the sequence, the value and the time of another event. Without times the
    same value may come again; only a log of which everything is there twice is told.

    Args:
        histories: of one log.
    """
    num_events = len(histories.ids)
    if not MIN_ROWS <= num_events <= MAX_EVENTS:
        return ""
    if histories.timed:
        # Times of a session never decrease, so that duplicates are among the neighbours at one time.
        tied = _tied_events(histories)
        counts = np.unique(_event_keys(histories, tied), return_counts=True)[1]
        num_duplicates = len(tied) - len(counts)
        counts = np.append(counts, np.ones(num_events - len(tied), np.int64))
        copies = int(np.median(counts))
        if copies > 1 and float((counts % copies == 0).mean()) >= SAME:
            times = "twice" if copies == 2 else f"{copies} times"
            return f"{_part(num_duplicates, histories)}: the log looks concatenated {times}; {_ADVICE}"
        if num_duplicates >= MIN_SHARE * num_events:
            return f"{_part(num_duplicates, histories)}; {_ADVICE}"
    if _halves_are_equal(histories):
        verb = "is", "are"
        half = part_of(num_events // 2, num_events, "event", *verb, percent=True)
        return f"{half} repeated in the same order: the log looks concatenated twice; keep the first half of the file"
    return ""


def doubled_rows(rows: pl.DataFrame) -> tuple[str, ...]:
    """Return a warning where the second half of some rows is the first half again, nothing otherwise.

    Args:
        rows: of a file of texts, queries or posts, in its order.
    """
    half = len(rows) // 2
    if half < MIN_ROWS or len(rows) % 2 or not rows[:half].equals(rows[half:]):
        return ()
    if rows[:half].n_unique() < max(MIN_DISTINCT, half / 2):  # a few texts that come again and again
        return ()
    share_text = part_of(half, len(rows), "row", "is", "are", percent=True)
    return (f"{share_text} repeated in the same order: the file looks concatenated twice; keep its first half",)


def _tied_events(histories: Histories) -> Index:
    """Return the events that have the session and the time of a neighbour."""
    ties = (histories.times[1:] == histories.times[:-1]) & histories.is_followed()
    is_tied = np.zeros(len(histories.times), np.bool_)
    is_tied[1:] |= ties
    is_tied[:-1] |= ties
    return np.flatnonzero(is_tied)


def _event_keys(histories: Histories, events: Index) -> npt.NDArray[np.uint64]:
    """Return (events,) 64-bit numbers that are equal for an equal session, item and time."""
    owners = (np.searchsorted(histories.offsets, events, side="right") - 1).astype(np.uint64)
    keys = scrambled(owners << np.uint64(32) | histories.ids[events].astype(np.uint64))
    return scrambled(keys ^ scrambled(histories.times[events].view(np.uint64)))


def _halves_are_equal(histories: Histories) -> bool:
    """Return whether the second half of the sequences, or of every sequence, is the first half again."""
    num, lengths = len(histories), histories.lengths
    if num >= MIN_ROWS and num % 2 == 0 and np.array_equal(lengths[: num // 2], lengths[num // 2 :]):
        # The whole log stands there twice: compare its first half with its second.
        columns = (histories.ids, histories.times) if histories.timed else (histories.ids,)
        middle = int(histories.offsets[num // 2])
        if all(np.array_equal(column[:middle], column[middle:]) for column in columns):
            return len(distinct_numbers(histories.ids)) > 1
    if num < MIN_ROWS or (lengths % 2).any() or lengths.max() < 4:
        return False
    halves = lengths // 2
    first = ranges(histories.offsets[:-1], halves)
    return bool((histories.ids[first] == histories.ids[first + np.repeat(halves, halves)]).all())


def _part(num_duplicates: int, histories: Histories) -> str:
    share_text = part_of(num_duplicates, len(histories.ids), "event", "repeats", "repeat", percent=True)
    # The events of a sequence are in order of time, and of one time in that of the file: copies may be apart.
    events = _tied_events(histories)
    _, first, counts = np.unique(_event_keys(histories, events), return_index=True, return_counts=True)
    event = int(events[first[counts > 1].min()])
    owner = int(np.searchsorted(histories.offsets, event, side="right")) - 1
    name = histories.record(owner).id or str(owner + 1)
    value = histories.vocabulary.value(int(histories.ids[event]))
    return f"{share_text} an earlier one of the same session, item and time, such as {quoted(value)} in {quoted(name)}"
