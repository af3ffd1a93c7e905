"""What a text classifier was learned from and how it did, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self


class Metadata:
    """Typed attributes; those that were never set are not written, the others in the order in which they were set."""

    texts: int
    """Learned so far."""
    labels: list[str]
    """In the order of the columns of scores."""
    paired: bool
    """Whether pairs of texts were learned."""
    architecture: str
    """What the data made of ``architecture="auto"``: flat, hierarchical or pair."""
    temperature: dict[str, float]
    """By model, what its scores are divided by; 1 for those left out."""
    strength: dict[str, float]
    """By baseline, how much the data counts beside the penalty."""
    calibration_error: dict[str, float]
    """By model, on held-out texts."""
    validation_accuracy: dict[str, float]
    """By model, on held-out texts."""
    notes: list[str]
    """What who trains should know."""
    encoder: list[float] | None = None
    """What the sentence encoder makes of a text that is always the same, so that no other takes its place."""
    held_out: str = ""
    """Which part of the data was held out."""
    known_vectors: int = 0
    """Words that have a vector in the file."""
    epochs: int = 0
    """Epochs behind the weights."""
    log: list[dict[str, float]]
    """A row an epoch: accuracy, loss, and how fast the word graphs mix."""
    blend: dict[str, float] | None = None
    """The weight of each model in the pool; ``None`` where nothing is pooled."""
    updates: int = 0
    """Since the fit."""

    def to_dict(self) -> dict[str, Any]:
        """As ``settings.json`` holds it under "facts"."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Back from :meth:`to_dict`.

        Raises:
            ValueError: something that every folder holds is missing.
        """
        if not {"texts", "labels", "paired", "architecture", "temperature", "strength"} <= set(fields):
            raise ValueError("facts are missing in settings.json")
        metadata = cls()
        vars(metadata).update(fields)
        return metadata
