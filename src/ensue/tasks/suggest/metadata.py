"""What a suggester was learned from and how it did, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ensue.data.queries.rules import Normalisation
from ensue.tasks.metadata import Metadata as SharedMetadata


class Metadata(SharedMetadata):
    """What a suggester learned, and how it did on held-out sessions."""

    REQUIRED = frozenset({"sessions", "queries", "tokens", "normalisation"})
    KEYS: ClassVar[Mapping[str, str]] = {"validation_mrr": "validation_mrr@10"}

    sessions: int
    """Learned so far."""
    queries: int
    """Of all sessions."""
    distinct: int
    """Different ones at the fit."""
    tokens: int
    """That the network knows, but for the special ones."""
    normalisation: Normalisation
    """How typed queries are normalised."""
    notes: list[str]
    """What who trains should know."""
    validation_loss: float = 0.0
    """Mean cross-entropy a token on held-out sessions, in nats."""
    found_in_pool: float = 0.0
    """Share of the true next queries that are among the candidates, on held-out sessions."""
    mix: dict[str, float] | None = None
    """The weight of each of the features that candidates are ordered by; ``None``: by the network alone."""
    mixture: dict[str, float] | None = None
    """The weight of the network and of each counting model in their mixture; ``None``: counting takes no part."""
    validation_mrr: dict[str, float] | None = None
    """MRR@10 on held-out sessions, by the network alone, the mixture, the weights, and each counting model."""
    word_cost: float | None = None
    """What a word costs in the choice of what leads; ``None``: the likeliest leads."""
    validation_bleu: dict[str, float] | None = None
    """BLEU of what leads on held-out sessions, the likeliest and the chosen."""
