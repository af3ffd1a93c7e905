"""What a suggester was learned from and how it did, as ``settings.json`` keeps it and the card shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ensue.data.queries.rules import Normalisation

KEYS = {"validation_mrr": "validation_mrr@10"}
"""Attributes that ``settings.json`` calls otherwise."""


class Metadata:
    """Typed attributes; those that were never set are not written, the others in the order in which they were set."""

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
    held_out: str = ""
    """Which sessions were held out."""
    epochs: int = 0
    """Epochs behind the weights."""
    validation_loss: float = 0.0
    """Mean cross-entropy a token on held-out sessions, in nats."""
    found_in_pool: float = 0.0
    """Share of the true next queries that are among the candidates, on held-out sessions."""
    mix: dict[str, float] | None = None
    """The weight of each of the features that candidates are ordered by; ``None``: by the network alone."""
    validation_mrr: dict[str, float] | None = None
    """MRR@10 on held-out sessions, by the network alone and by the weights."""
    word_cost: float | None = None
    """What a word costs in the choice of what leads; ``None``: the likeliest leads."""
    validation_bleu: dict[str, float] | None = None
    """BLEU of what leads on held-out sessions, the likeliest and the chosen."""
    updates: int = 0
    """Since the fit."""

    def to_dict(self) -> dict[str, Any]:
        """As ``settings.json`` holds it under "facts"."""
        return {KEYS.get(name, name): value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Back from :meth:`to_dict`.

        Raises:
            ValueError: something that every folder holds is missing.
        """
        if not {"sessions", "queries", "tokens", "normalisation"} <= set(fields):
            raise ValueError("facts are missing in settings.json")
        metadata, names = cls(), {key: name for name, key in KEYS.items()}
        vars(metadata).update((names.get(key, key), value) for key, value in fields.items())
        return metadata
