"""What a model of task ``next`` was learned from, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ensue.tasks.metadata import Count
from ensue.tasks.metadata import Metadata as SharedMetadata
from ensue.tasks.next.item_index import IndexFacts

IDLE = "the network was left out: it does not improve on the baselines on held-out data"
"""What is said of a blend that only counts."""
MIN_REPEAT_SHARE, MIN_IMMEDIATE_REPEAT_SHARE = 0.05, 0.2
"""Shares from which repeats, and immediate repeats, may be recommended."""


class Exclusion(StrEnum):
    """Items of a history that are no answer to it."""

    NONE = "none"
    LAST = "last"
    """The latest event alone: the item just viewed."""
    SEEN = "seen"
    """All of them."""


@dataclass(kw_only=True)
class Metadata(SharedMetadata):
    """What a model of task ``next`` learned."""

    sequences: Count
    """Histories."""
    events: Count
    """Events of all histories."""
    values: Count
    """Distinct values."""
    repeats: bool
    """Whether any history holds a value twice; where none does, what a history holds is no answer."""
    repeat_share: float
    """Share of the events of the training data, the first of each history left out, whose history holds their item."""
    immediate_repeat_share: float
    """Share of the same events that repeat the item just before them."""
    exclusion: Exclusion
    """What ``predict`` leaves out by default, as the two shares suggest (:func:`default_exclusion`)."""
    timed: bool
    """Whether events have times."""
    validation_mrr: dict[str, float] | None = None
    """Of each model that was tried, on the held-out part."""
    chosen: str = ""
    """Why ``best`` is a counting row, where it is."""
    members: dict[str, float] | None = None
    """The weight of each member of an ensemble."""
    training: dict[str, int] | None = None
    """The batch, the steps in all, and those in which the step size rose: as they fitted the log."""
    ended: str = ""
    """How the training ended, where it was cut while it still got better, or where the network was left out."""
    steps: Count = 0
    """Optimiser steps taken in a stream."""
    min_users: dict[str, int] | None = None
    """What was left out because fewer people shared it: see :class:`ensue.tasks.next.training_data.LeftOut`."""
    forgotten: list[int] | None = None
    """Ids whose values were removed with a person: no answers, and without a value in the vocabulary."""
    item_columns: dict[str, str] | None = None
    """The type of each feature of items, by column."""
    index: IndexFacts | None = None
    """Of a large catalogue: what was measured when its index was made."""

    @property
    def ruled_out(self) -> Exclusion:
        """What metrics rule out: all that a history holds where the training data never repeats an item."""
        return Exclusion.NONE if self.repeats else Exclusion.SEEN


EXCLUSION_RULES = {
    Exclusion.SEEN: "predict leaves out items already in the session, unless --include-seen is set",
    Exclusion.LAST: "predict leaves out the item just viewed; --exclude-seen leaves out all items of the session",
    Exclusion.NONE: "predict may answer with items already in the session; --exclude-seen leaves them out",
}
"""What ``predict`` leaves out, and the option that changes it."""


def exclusion_sentence(exclusion: Exclusion, repeat_share: float, immediate_repeat_share: float) -> str:
    """Say what ``predict`` leaves out, and the shares of repeats in the training data behind that.

    Args:
        exclusion: what is left out.
        repeat_share: see :class:`Metadata`.
        immediate_repeat_share: see there.
    """
    repeats = f"{100 * repeat_share:.1f} % of the events repeat an earlier item of their session"
    if repeat_share:
        repeats += f", {100 * immediate_repeat_share:.1f} % the previous item"
    return f"{repeats}: {EXCLUSION_RULES[exclusion]}"


def default_exclusion(repeat_share: float, immediate_repeat_share: float) -> Exclusion:
    """Return what ``predict`` leaves out unless it is told: items of a history, where they hardly ever come again.

    Args:
        repeat_share: see :class:`Metadata`.
        immediate_repeat_share: see there.
    """
    if repeat_share < MIN_REPEAT_SHARE:
        return Exclusion.SEEN
    return Exclusion.LAST if immediate_repeat_share < MIN_IMMEDIATE_REPEAT_SHARE else Exclusion.NONE
