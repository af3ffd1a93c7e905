"""What a text classifier was learned from and how it did, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from ensue.tasks.metadata import Metadata as SharedMetadata


class Metadata(SharedMetadata):
    """What a classifier learned, and how it did on held-out texts."""

    REQUIRED = frozenset({"texts", "labels", "paired", "architecture", "temperature", "strength"})

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
    known_vectors: int = 0
    """Words that have a vector in the file."""
    log: list[dict[str, float]]
    """A row an epoch: accuracy, loss, and how fast the word graphs mix."""
    residual: bool = False
    """Whether the network's scores are added to those of the mean-vector row."""
    blend: dict[str, float] | None = None
    """The weight of each model in the pool; ``None`` where nothing is pooled."""
