"""Preparation of training data: targets, k-anonymity filter, repeats, fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Histories, Mask, distinct_numbers, scrambled
from ensue.data.shared_runs import people_of, shared_runs
from ensue.errors import DataError
from ensue.lines import plural
from ensue.tasks.next.settings import SharedSettings

USER_UNIT = "sessions; all sessions of one user count as one"
"""Unit of the k-anonymity threshold."""
MIN_REPEAT_SHARE = 0.05
MIN_IMMEDIATE_REPEAT_SHARE = 0.2
"""Shares from which repeats, and immediate repeats, may be recommended."""


class Exclusion(StrEnum):
    """Items of a history that are no answer to it."""

    NONE = "none"
    LAST = "last"
    """The latest event alone: the item just viewed."""
    SEEN = "seen"
    """All of them."""


EXCLUSION_RULES = {
    Exclusion.SEEN: "predict leaves out items already in the session, unless --include-seen is set",
    Exclusion.LAST: "predict leaves out the item just viewed; --exclude-seen leaves out all items of the session",
    Exclusion.NONE: "predict may answer with items already in the session; --exclude-seen leaves them out",
}
"""What ``predict`` leaves out, and the option that changes it."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Events left out because too few people share them; written to JSON by ``dataclasses.asdict``.

    Attributes:
        threshold: how many people must share what is learned.
        people: how many there are.
        values: distinct values that fewer have.
        events: of those values.
        steps: from one event to the next, in no run that enough people share.
    """

    threshold: int
    people: int
    values: int
    events: int
    steps: int

    @property
    def sentence(self) -> str:
        """Return the counts as a sentence."""
        return (
            f"min_users {self.threshold}: left out {plural(self.values, 'item')} ({plural(self.events, 'event')}) and "
            f"{plural(self.steps, 'transition')} that fewer than {self.threshold} of {self.people:,} users share "
            f"(users are {USER_UNIT})"
        )


def require_targets(histories: Histories, where: str) -> None:
    """Refuse data in which nothing follows anything.

    Raises:
        DataError: every sequence has at most one event.
    """
    if not len(histories) or histories.lengths.max() < 2:
        raise DataError(f"{where}: every session has one event, so there is nothing to predict")


def shared_part(histories: Histories, min_users: int, where: str) -> Histories:
    """Return the runs of events that enough people share (:mod:`ensue.data.shared_runs`); all of it for 1.

    Raises:
        DataError: nothing that follows anything is left.
    """
    if min_users == 1:
        return histories
    runs = shared_runs(histories, min_users)
    if not len(runs) or runs.lengths.max() < 2:
        raise DataError(
            f"{where}: no two consecutive events are shared by {min_users} users (users are {USER_UNIT}), so nothing "
            "may be used for training; give a longer log, or lower --min-users (min_users)"
        )
    return runs


def left_out(histories: Histories, runs: Histories, min_users: int) -> LeftOut:
    """Return what :func:`shared_part` leaves out of some histories."""
    values = np.setdiff1d(histories.ids, runs.ids)
    return LeftOut(
        threshold=min_users,
        people=len(distinct_numbers(people_of(histories))),
        values=len(values),
        events=int(np.isin(histories.ids, values).sum()),
        steps=int(np.maximum(histories.lengths - 1, 0).sum() - np.maximum(runs.lengths - 1, 0).sum()),
    )


def left_out_by(histories: Histories, min_users: int | None) -> LeftOut | None:
    """Return :func:`left_out` of a threshold that was asked for, ``None`` where none was.

    Raises:
        SettingError: the threshold is below 1.
    """
    if min_users is None:
        return None
    SharedSettings(min_users=min_users)
    return left_out(histories, shared_runs(histories, min_users), min_users)


def repeat_shares(histories: Histories) -> tuple[float, float]:
    """Return the share of events whose history holds their item already, and of those that repeat the one before.

    The first event of each history can repeat nothing and is left out; without any other event both shares are 0.

    Args:
        histories: in ids of any vocabulary.
    """
    num_targets = int(np.maximum(histories.lengths - 1, 0).sum())
    # A (history, item) pair as one number; every duplicate is a repeat.
    pairs = histories.sequence_index() << 32 | histories.ids
    num_repeats = len(pairs) - len(distinct_numbers(pairs))
    num_immediate = count_neighbours(histories, histories.ids[1:] == histories.ids[:-1])
    return num_repeats / max(num_targets, 1), num_immediate / max(num_targets, 1)


def exclusion_sentence(exclusion: Exclusion, repeat_share: float, immediate_repeat_share: float) -> str:
    """Say what ``predict`` leaves out, and the shares of repeats in the training data behind that.

    Args:
        exclusion: what is left out.
        repeat_share: see :func:`repeat_shares`.
        immediate_repeat_share: see there.
    """
    repeats = f"{100 * repeat_share:.1f} % of the events repeat an earlier item of their session"
    if repeat_share:
        repeats += f", {100 * immediate_repeat_share:.1f} % the previous item"
    return f"{repeats}: {EXCLUSION_RULES[exclusion]}"


def default_exclusion(repeat_share: float, immediate_repeat_share: float) -> Exclusion:
    """Return what ``predict`` leaves out unless it is told: items of a history, where they hardly ever come again.

    Args:
        repeat_share: see :func:`repeat_shares`.
        immediate_repeat_share: see there.
    """
    if repeat_share < MIN_REPEAT_SHARE:
        return Exclusion.SEEN
    return Exclusion.LAST if immediate_repeat_share < MIN_IMMEDIATE_REPEAT_SHARE else Exclusion.NONE


def count_neighbours(histories: Histories, holds: Mask) -> int:
    """Return for how many pairs of neighbouring events of one sequence ``holds`` is true."""
    return int((holds & histories.is_followed()).sum())


def fingerprints(histories: Histories) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash per history, (histories,), equal for equal sequences: a sum of (position, value) hashes."""
    owners = histories.sequence_index()
    positions = np.arange(len(histories.ids)) - histories.offsets[owners]
    mixed = scrambled((positions << 32 | histories.ids).astype(np.uint64))
    # Sums modulo 2^64 per history, as differences of cumulative sums.
    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return ends[histories.offsets[1:]] - ends[histories.offsets[:-1]]
