"""What a text classifier was learned from and how it did, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from ensue.learning.state import Count
from ensue.learning.state import Metadata as SharedMetadata

Weight = Annotated[float, Field(ge=0, le=1e12)]
Scale = Annotated[float, Field(ge=1e-12, le=1e12)]


@dataclass(kw_only=True)
class Metadata(SharedMetadata):
    """What a classifier learned, and how it did on held-out texts."""

    texts: Count
    """Learned so far."""
    labels: Annotated[list[str], Field(min_length=2)]
    """In the order of the columns of scores."""
    paired: bool
    """Whether pairs of texts were learned."""
    architecture: Annotated[str, Field(pattern="^(flat|hierarchical|pair)$")]
    """What the data made of ``architecture="auto"``: flat, hierarchical or pair."""
    temperature: dict[str, Scale]
    """By model, what its scores are divided by; 1 for those left out."""
    strength: dict[str, Scale]
    """By baseline, how much the data counts beside the penalty."""
    calibration_error: dict[str, float]
    """By model, on held-out texts."""
    validation_accuracy: dict[str, float]
    """By model, on held-out texts."""
    notes: list[str]
    """What who trains should know."""
    encoder: Annotated[list[float], Field(min_length=1, max_length=8)] | None = None
    """What the sentence encoder makes of a text that is always the same, so that no other takes its place."""
    known_vectors: Count = 0
    """Words that have a vector in the file."""
    log: list[dict[str, int | float]] = field(default_factory=list)
    """A row an epoch: accuracy, loss, and how fast the word graphs mix."""
    residual: bool = False
    """Whether the network's scores are added to those of the mean-vector row."""
    blend: Annotated[dict[str, Weight], Field(min_length=1)] | None = None
    """The weight of each model in the pool; ``None`` where nothing is pooled."""
