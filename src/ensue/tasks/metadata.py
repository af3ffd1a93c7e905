"""What a model was learned from and how it did: the "facts" of ``settings.json``, which the card shows too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Protocol, Self, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

Count = Annotated[int, Field(ge=0, le=2**62)]
"""How many of something there are."""


def require_fact(name: str, kind: Any, value: object) -> None:
    """Check the type of one of the "facts" of ``settings.json``.

    Args:
        name: what the message calls it.
        kind: its annotation.
        value: decoded JSON.

    Raises:
        ValueError: it is of another type, or out of its range.
    """
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise ValueError(f"metadata field {name} in settings.json: {error.errors()[0]['msg']}") from error


class Noted(Protocol):
    """What those who keep the folders of any task note there."""

    version: int | None
    """Of the folder; ``None`` for the first."""
    answered: list[dict[str, Any]] | None
    """Digests and answers of the latest updates over HTTP, so that none is learned twice."""

    examples: dict[str, object] | None
    """Some held-out records; see :mod:`ensue.tasks.held_examples`."""
    reading: dict[str, object] | None
    """How the training data was read (:class:`ensue.data.schema.DataSchema`); ``None`` where no file was."""

    def to_dict(self) -> dict[str, Any]:
        """As ``settings.json`` holds it under "facts"."""
        ...


class Metadata:
    """Typed attributes; those that were never set are not written, the others in the order in which they were set."""

    REQUIRED: ClassVar[frozenset[str]]
    """Keys that every folder of the task holds."""
    KEYS: ClassVar[Mapping[str, str]] = {}
    """Attributes that ``settings.json`` calls otherwise."""

    held_out: str = ""
    """Which part of the data was held out."""
    epochs: Count = 0
    """Epochs behind the weights."""
    updates: Count = 0
    """Since the fit."""
    version: int | None = None
    """Of the folder; ``None`` for the first."""
    answered: list[dict[str, Any]] | None = None
    """Digests and answers of the latest updates over HTTP, so that none is learned twice."""
    examples: dict[str, object] | None = None
    """Some held-out records (:mod:`ensue.tasks.held_examples`); ``None`` where none are kept."""
    reading: dict[str, object] | None = None
    """How the training data was read (:class:`ensue.data.schema.DataSchema`); ``None`` where no file was."""

    def to_dict(self) -> dict[str, Any]:
        """As ``settings.json`` holds it under "facts"."""
        return {self.KEYS.get(name, name): value for name, value in vars(self).items()}

    def unset(self, name: str) -> None:
        """Forget an attribute, as if it had never been set."""
        vars(self).pop(name, None)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Back from :meth:`to_dict`.

        Raises:
            ValueError: something that every folder holds is missing.
        """
        if not set(fields) >= cls.REQUIRED:
            raise ValueError("metadata is missing in settings.json")
        metadata, names = cls(), {key: name for name, key in cls.KEYS.items()}
        kinds = get_type_hints(cls, include_extras=True)
        for key, value in fields.items():
            name = names.get(key, key)
            if name not in kinds and name in dir(cls):  # a newer ensue may note more, but replaces no method
                raise ValueError(f"metadata field {key} in settings.json is the name of a method")
            if name in kinds and type(value) is not kinds[name]:  # one of that class was made before it came here
                require_fact(key, kinds[name], value)
            setattr(metadata, name, value)
        return metadata
