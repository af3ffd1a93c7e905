"""What a model of task ``next`` was learned from, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from typing import Any

from ensue.tasks.metadata import Count
from ensue.tasks.metadata import Metadata as SharedMetadata

IDLE = "the network was left out: held-out data could not tell that it adds anything to what is counted"
"""What is said of a blend that only counts."""


class Metadata(SharedMetadata):
    """What a model of task ``next`` learned."""

    REQUIRED = frozenset({"sequences", "events", "repeats"})

    sequences: Count = 0
    """Histories."""
    events: Count = 0
    """Events of all histories."""
    values: Count = 0
    """Distinct values."""
    repeats: bool = False
    """Whether any history holds a value twice; where none does, what a history holds is no answer."""
    timed: bool = False
    """Whether events have times."""
    validation_mrr: dict[str, float] | None = None
    """Of each model that was tried, on the held-out part."""
    chosen: str = ""
    """Why ``best`` is a counting row, where it is."""
    training: dict[str, int] | None = None
    """The batch, the steps in all, and those in which the step size rose: as they fitted the log."""
    ended: str = ""
    """How the training ended, where it was cut while it still got better, or where the network was left out."""
    steps: Count = 0
    """Optimiser steps taken in a stream."""
    min_users: dict[str, int] | None = None
    """What was left out because fewer people shared it: see :class:`ensue.tasks.next.check.LeftOut`."""
    forgotten: list[int] | None = None
    """Ids whose values were removed with a person: no answers, and without a value in the vocabulary."""
    index: dict[str, Any] | None = None
    """Of a large catalogue: what was measured when its index was made."""
