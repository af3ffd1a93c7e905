"""What a model was learned from and how it did: the "facts" of ``settings.json``, which the card shows too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field

from ensue.store.pack import pack, unpack

Count = Annotated[int, Field(ge=0, le=2**62)]
"""How many of something there are."""


@dataclass(kw_only=True)
class Metadata:
    """Fields that the metadata of every task have; a field at its default is not written."""

    held_out: str = ""
    """Which part of the data was held out."""
    validation_mrr: dict[str, float] | None = None
    """MRR of each model that was tried, on held-out data (of ``suggest`` MRR@10)."""
    epochs: Count = 0
    """Epochs behind the weights."""
    updates: Count = 0
    """Since the fit."""
    version: Annotated[int, Field(ge=1)] | None = None
    """Of the folder; ``None`` for the first."""
    answered: list[dict[str, Any]] | None = None
    """Digests and answers of the latest updates over HTTP, so that none is learned twice."""
    examples: dict[str, object] | None = None
    """Some held-out records (:mod:`ensue.learning.held_examples`); ``None`` where none are kept."""
    reading: dict[str, object] | None = None
    """How the training data was read (:class:`ensue.data.schema.DataSchema`); ``None`` where no file was."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as ``settings.json`` holds them under "facts", those of the task first."""
        facts, _ = pack(self)
        return {name: facts[name] for name in sorted(facts, key=Metadata.__annotations__.__contains__)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the metadata that :meth:`to_dict` wrote.

        Raises:
            ValueError: a field is missing, unknown, or of another type.
        """
        return unpack(cls, facts, {}, "facts")
