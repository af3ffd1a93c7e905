"""Which histories train a model and which watch it: by time where there is a clock."""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Histories, concat_histories
from ensue.errors import DataError, SettingError
from ensue.vocabulary import Vocabulary

DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that histories can be put in order of their start."""


def dated(histories: Histories) -> bool:
    """Return whether the clock is one for all histories."""
    return histories.timed and float(histories.times.min()) > DATED


def is_later(later: Histories, earlier: Histories) -> bool:
    """Return whether no history of ``later`` starts before the last one of ``earlier``.

    Without times that count from 1970, the order in which both were given decides; with times on one side alone,
    nothing does.
    """
    if later.timed != earlier.timed:
        return False
    if not (dated(later) and dated(earlier)):
        return True
    starts, earlier_starts = (part.times[part.offsets[:-1][part.lengths > 0]] for part in (later, earlier))
    return bool(starts.min() >= earlier_starts.max())


def append_histories(first: Histories, second: Histories) -> Histories:
    """Return histories one after the other, in a vocabulary of the items of both."""
    vocabulary = Vocabulary(first.vocabulary.values)
    vocabulary.add(second.vocabulary.values)
    return concat_histories(first.encode(vocabulary), second.encode(vocabulary))


def hold_out(histories: Histories, share: float = 0.1, *, by_time: bool = True) -> tuple[Histories, Histories, str]:
    """Split off the last histories: by the time of their first event, or as they stand.

    Args:
        histories: at least two.
        share: part to hold out, between 0 and 1; at least one history stays on either side.
        by_time: whether to go by time. Pass ``SequencesReport.absolute``: clocks that start anew with every history
            order nothing. Without times the order is the file's.

    Returns:
        The histories to train on, those held out (both in their former order), and the rule for the protocol card.

    Raises:
        DataError: fewer than two histories.
        SettingError: a share outside (0, 1).
    """
    if not 0 < share < 1:
        raise SettingError(f"share: {share} is not between 0 and 1")
    if len(histories) < 2:
        raise DataError(f"{len(histories)} history cannot be split in two; give at least 2")
    num_held = min(max(round(share * len(histories)), 1), len(histories) - 1)
    order = np.arange(len(histories))
    timed = by_time and histories.timed and bool((histories.lengths > 0).all())
    if timed:
        order = np.argsort(histories.times[histories.offsets[:-1]], kind="stable")
    train, held_out = np.sort(order[:-num_held]), np.sort(order[-num_held:])
    rule = "by start time" if timed else "in file order"
    return histories.select(train), histories.select(held_out), f"the last {num_held} of {len(histories)} {rule}"
