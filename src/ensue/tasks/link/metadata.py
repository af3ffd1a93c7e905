"""Training data of a linker and its metrics on held-out posts: the ``facts`` of ``settings.json``."""

from __future__ import annotations

from dataclasses import dataclass, field

from ensue.learning.state import Count
from ensue.learning.state import Metadata as SharedMetadata


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Metrics on held-out posts; precision and recall where the probability is at least one half."""

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
    """Training data and results of a fit; the defaults are those of a model that is not fitted."""

    articles: Count
    posts: Count
    links: Count
    validation_posts: Count = 0
    notes: list[str] = field(default_factory=list)
    """Sentences on texts and links that were cut or left out."""
    known_vectors: Count | None = None
    """Words that the file of vectors has."""
    encoder: list[float] | None = None
    """The probe of the installed encoder, by which it is known again."""
    words: Count | None = None
    validation: Validation | None = None
    floors: dict[str, float] | None = None
    """MRR of held-out posts by each score alone (model best)."""
    alone: str | None = None
    """The one score that is used because no weights rank held-out posts better (model best)."""
    penalty: float | None = None
    """L2 penalty that draws the weights to the sum that needs no label (model best)."""
    remembered: Count | None = None
    """Held-out posts that stay in the folder."""
