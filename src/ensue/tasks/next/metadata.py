"""What a model of task ``next`` was learned from, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.learning.metadata import Count
from ensue.learning.metadata import Metadata as SharedMetadata
from ensue.tasks.next.item_index import IndexFacts
from ensue.tasks.next.training_data import Exclusion


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
    """What ``predict`` leaves out by default, as the two shares suggest."""
    timed: bool
    """Whether events have times."""
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
