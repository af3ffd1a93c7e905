"""What a linker learned from, and how it did on held-out posts: the ``facts`` of ``settings.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from ensue.tasks.metadata import Count, require_fact

REQUIRED = {"articles", "posts", "links", "held_out"}
"""What a folder's facts must hold at least."""


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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Validation:
        """What :meth:`to_dict` gave."""
        ends = {name: tuple(values[name]) for name in ("precision_interval", "recall_interval")}
        return cls(**{**values, **ends})

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(kw_only=True)
class Metadata:
    """What was learned from what; the defaults are those of a model that learned nothing."""

    articles: Count = 0
    posts: Count = 0
    links: Count = 0
    held_out: str = ""
    """The rule by which posts were held out."""
    validation_posts: Count = 0
    notes: list[str] = field(default_factory=list)
    """What was cut or left out, in words."""
    known_vectors: Count | None = None
    """Words that the file of vectors has."""
    encoder: list[float] | None = None
    """The probe of the installed encoder, by which it is known again."""
    epochs: Count | None = None
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
    updates: Count | None = None
    version: int | None = None
    """Of the folder; ``None`` for the first."""
    answered: list[dict[str, Any]] | None = None
    """Digests and answers of the latest updates over HTTP, so that none is learned twice."""
    examples: dict[str, object] | None = None
    """Some held-out posts (:mod:`ensue.tasks.held_examples`); ``None`` where none are kept."""
    reading: dict[str, object] | None = None
    """How the training data was read (:class:`ensue.data.schema.DataSchema`); ``None`` where no file was."""
    others: dict[str, Any] = field(default_factory=dict)
    """What else the folder held that this was read from, such as a field of a newer ensue."""
    written: tuple[str, ...] = ()
    """The order of the names in the folder that this was read from, which stays."""

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Metadata:
        """What :meth:`to_dict` gave.

        Raises:
            ValueError: something is missing.
        """
        if not facts.keys() >= REQUIRED:
            raise ValueError("metadata is missing in settings.json")
        names = {own.name for own in fields(cls)} - {"others", "written"}
        own = {name: value for name, value in facts.items() if name in names}
        kinds = get_type_hints(cls, include_extras=True)
        for name, value in own.items():
            require_fact(name, kinds[name], value)
        if own.get("validation") is not None:
            own["validation"] = Validation.from_dict(own["validation"])
        others = {name: value for name, value in facts.items() if name not in names}
        return cls(**own, others=others, written=tuple(facts))

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, without what there is nothing to say of."""
        values = {own.name: getattr(self, own.name) for own in fields(self) if own.name not in ("others", "written")}
        if self.validation is not None:
            values["validation"] = self.validation.to_dict()
        values |= self.others
        order = dict.fromkeys([*self.written, *values])
        left_out = set() if self.held_out else REQUIRED  # nothing was learned: a folder of it is refused
        return {name: values[name] for name in order if name not in left_out and values.get(name) is not None}
