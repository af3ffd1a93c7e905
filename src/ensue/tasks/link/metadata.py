"""What a linker learned from, and how it did on held-out posts: the ``facts`` of ``settings.json``."""

from __future__ import annotations

from dataclasses import dataclass, field

from ensue.learning.state import Count
from ensue.learning.state import Metadata as SharedMetadata


@dataclass(frozen=True, kw_only=True)
class Validation:
    """How the model does on held-out posts; precision and recall where its probability is at least one half."""

    mrr: float
    precision: float
    precision_interval: tuple[float, float]
    """95 %."""
    recall: float
    recall_interval: tuple[float, float]
    """95 %."""
    first_said: float | None = None
    """The mean probability of the posts' first articles."""
    first_right: float | None = None
    """The share of them that is right."""


@dataclass(kw_only=True)
class Metadata(SharedMetadata):
    """What was learned from what; the defaults are those of a model that learned nothing."""

    articles: Count
    posts: Count
    links: Count
    validation_posts: Count = 0
    notes: list[str] = field(default_factory=list)
    """What was cut or left out, in words."""
    known_vectors: Count | None = None
    """Words that the file of vectors has."""
    encoder: list[float] | None = None
    """The probe of the installed encoder, by which it is known again."""
    words: Count | None = None
    validation: Validation | None = None
    floors: dict[str, float] | None = None
    """Of ``best``: the MRR of held-out posts by each score alone."""
    alone: str | None = None
    """Of ``best``: the one score that stands because no weights rank held-out posts better."""
    penalty: float | None = None
    """Of ``best``: how strongly the weights are drawn to the sum that needs no label."""
    remembered: Count | None = None
    """Held-out posts that stay in the folder."""
