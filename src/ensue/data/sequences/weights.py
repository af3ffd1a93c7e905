"""Kinds, weights and propensities of the events of a log, and the events of weight 0, which are negatives.

The weight of an event is that of its kind times what its row states, 1 unless stated. Events of weight 0 (a dislike, an
item that was shown and not clicked) are no part of a session. Each is a negative of the next event of its session,
unless the session has an event of positive weight with the same item.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from ensue.data.dates import Where
from ensue.data.histories import EventColumns, Histories, Index, Negatives, offsets_of
from ensue.data.schema import MAX_EVENT_WEIGHT
from ensue.data.sequences.columns import KIND, NUMBERS, PROPENSITY, WEIGHT
from ensue.data.table import ReadOptions, Table
from ensue.errors import DataError
from ensue.lines import plural, quoted

MAX_NEGATIVES = 100
"""Negatives of an event at most, the latest: bounds the memory of a training batch."""
_ALLOWED = {WEIGHT: f"a number from 0 to {MAX_EVENT_WEIGHT:,.0f}", PROPENSITY: "a probability above 0 and at most 1"}


def read_numbers(table: Table) -> Table:
    """Return a table whose weights and propensities are numbers.

    Raises:
        DataError: the first row that has neither an empty cell nor such a number.
    """
    for role in NUMBERS:
        if role in table.frame.columns:
            column = table.frame[role]
            texts = column.cast(pl.String).str.strip_chars()
            # Text of white space is an empty cell, which is refused if the row is an event.
            texts = texts.set(texts == "", None)
            numbers = texts.cast(pl.Float64, strict=False)
            is_allowed = (numbers >= 0) & (numbers <= MAX_EVENT_WEIGHT)
            if role == PROPENSITY:
                is_allowed &= (numbers > 0) & (numbers <= 1)
            _refuse(role, table, (texts.is_not_null() & ~is_allowed.fill_null(value=False)), table.where)
            table = replace(table, frame=table.frame.with_columns(numbers.alias(role)))
    return table


def event_columns(table: Table, options: ReadOptions, order: Index | None) -> EventColumns:
    """Return kinds, weights and propensities for :class:`Histories`, each only where the log has it.

    Args:
        table: events, as in the file.
        options: how they are read.
        order: (events,) their order by session; ``None`` for that of the file.

    Raises:
        DataError: an event has no weight or no propensity.
    """
    frame = table.frame if order is None else table.frame[order]
    columns = EventColumns()
    for role in NUMBERS:
        if role in table.frame.columns:
            _refuse(role, table, table.frame[role].is_null(), table.where)
    weights = np.ones(len(frame))
    if KIND in frame.columns:
        kinds = frame[KIND].to_numpy().astype(np.int16)
        columns["kinds"] = kinds
        columns["kind_names"] = options.event_types
        weights = np.array([*options.kind_weights.values()])[kinds]
    if WEIGHT in frame.columns:
        weights = weights * frame[WEIGHT].to_numpy()
    if (weights != 1).any():
        columns["weights"] = weights
    if options.off_policy and PROPENSITY in frame.columns:
        columns["propensities"] = frame[PROPENSITY].to_numpy()
    return columns


def _refuse(role: str, table: Table, is_wrong: pl.Series, where: Where) -> None:
    for row in is_wrong.arg_true()[:1]:
        value = table.frame[role][row]
        name = quoted(table.columns[role])
        problem = "is empty" if value is None else f"holds {quoted(value, 40)}"
        raise DataError(f"{where(row)}: column {name} ({role}) {problem}; give {_ALLOWED[role]}")


def without_negatives(histories: Histories) -> tuple[Histories, tuple[str, ...]]:
    """Return the events of positive weight, the others as their negatives, and a note on those.

    Of a session with the events view a, impression b, impression c, click c, impression d the events are a and c, and b
    is a negative of c: c has a click, and nothing follows d.

    Args:
        histories: with weights, or without.

    Raises:
        DataError: no event has a positive weight.
    """
    is_event = histories.weights > 0
    if is_event.all():
        return histories, ()
    if not is_event.any():
        raise DataError("every event has weight 0, so no session is left; give a kind a positive weight")
    owners = histories.sequence_index()
    events = np.flatnonzero(is_event)
    unweighted = np.flatnonzero(~is_event)
    # The next event of positive weight, by its number among those; one past the last where none follows.
    following = np.searchsorted(events, unweighted)
    owner_of_following = np.append(owners[events], -1)[following]
    # A (session, item) pair as one number; a pair with an event is no negative.
    pairs = owners << 32 | histories.ids
    is_negative = (owner_of_following == owners[unweighted]) & ~np.isin(pairs[unweighted], pairs[events])
    # Others stay in the order of the log, so those of one event are a run; its last MAX_NEGATIVES are kept.
    counts = np.bincount(following[is_negative], minlength=len(events))
    negatives = unweighted[is_negative]
    from_end = np.repeat(np.cumsum(counts), counts) - np.arange(len(negatives))
    is_late = from_end <= MAX_NEGATIVES
    stored_negatives = Negatives(histories.ids[negatives[is_late]], offsets_of(np.minimum(counts, MAX_NEGATIVES)))
    positive = replace(histories.keep(is_event), negatives=stored_negatives)
    if (positive.weights == 1).all():
        positive = replace(positive, weights=positive.weights[:0])
    note = (
        f"{plural(len(unweighted), 'event')} of weight 0 {'is' if len(unweighted) == 1 else 'are'} in no session; "
        f"{len(stored_negatives.ids):,} of them are negatives of the next event in training"
    )
    return positive.select(positive.lengths > 0), (note,)
