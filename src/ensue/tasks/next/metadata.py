"""What a model of task ``next`` was learned from, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(init=False)
class Metadata:
    """Counts and choices of all that was learned so far; what was never set is not written.

    The instance's own attributes are what is written, in the order in which they were first set.
    """

    sequences: int = 0
    """Histories."""
    events: int = 0
    """Events of all histories."""
    values: int = 0
    """Distinct values."""
    repeats: bool = False
    """Whether any history holds a value twice; where none does, what a history holds is no answer."""
    timed: bool = False
    """Whether events have times."""
    epochs: int = 0
    """Epochs behind the weights."""
    held_out: str = ""
    """Which part of the data early stopping looked at."""
    validation_mrr: dict[str, float] | None = None
    """Of each model that was tried, on the held-out part."""
    steps: int = 0
    """Optimiser steps taken in a stream."""
    updates: int = 0
    """Updates since the fit."""
    version: int = 1
    """Of the folder."""
    answered: list[dict[str, Any]] | None = None
    """Digests and answers of the latest updates over HTTP, so that none is learned twice."""

    def to_dict(self) -> dict[str, Any]:
        """As ``settings.json`` holds it under "facts"."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Back from :meth:`to_dict`.

        Raises:
            ValueError: counts are missing.
        """
        if not {"sequences", "events", "repeats"} <= set(fields):
            raise ValueError("facts are missing in settings.json")
        metadata = cls()
        vars(metadata).update(fields)
        return metadata
