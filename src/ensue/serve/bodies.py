"""Bodies of requests as pydantic models, within the limits of a service; FastAPI's document is written from them.

A body says its shape once, as a class; beside the type of a field stands a :class:`Limit`, from which :func:`limited`
takes what a service allows. Records keep the library's own readers, so that a service says of a record what the library
says of it. What pydantic refuses is said in the house's words, by :func:`read` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, ClassVar, NamedTuple, NoReturn, TypeVar

from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from ensue.errors import DataError
from ensue.refresh import MAX_DROP
from ensue.serve.settings import ServeSettings


class Limits(NamedTuple):
    """What narrows the bodies of a task: the settings of a service, the task's record and how it is read."""

    settings: ServeSettings
    record: type = object
    read: Callable[[object, str, ServeSettings, str], object] = lambda record, where, settings, words: record
    """Takes a decoded record, where it stands, and the settings with the name of the one that limits its words."""


@dataclass(frozen=True)
class Limit:
    """Stands beside the type of a field: makes of it and of a service's limits the type that is checked."""

    narrowed: Callable[[Limits, object], object]


class Body(BaseModel):
    """An object of JSON whose fields are known; an integer is no text, and a truth value is no number."""

    model_config = ConfigDict(strict=True, extra="forbid")
    called: ClassVar[str] = "a body"

    @classmethod
    def example(cls) -> str:
        """The least of it, for who sends something else."""
        return f'{{"{next(iter(cls.model_fields))}": …}}'


BodyType = TypeVar("BodyType", bound=Body)


def many(most: str, words: str) -> Limit:
    """Records, as many as one setting allows, of as many words as another."""

    def narrowed(limits: Limits, kind: object) -> object:
        own = limits.settings
        limit: int = getattr(own, most)

        def read(records: object) -> object:
            if not isinstance(records, list):
                return records  # which is refused as no list
            if len(records) > limit:
                raise DataError(f"{len(records)} records exceed the limit of {limit} per request; send them in parts")
            return [limits.read(record, f"records[{at}]", own, words) for at, record in enumerate(records)]

        description = (
            f"a history has at most {own.history:,} values of {own.value_characters:,} characters, a text or post "
            f"{getattr(own, words):,} words and {own.characters:,} characters"
        )
        checks = Field(max_length=limit, description=description), BeforeValidator(read)
        return Annotated[GenericAlias(list, (limits.record,)), *checks]

    return Limit(narrowed)


def one(words: str) -> Limit:
    """A record, of as many words as a setting allows."""

    def narrowed(limits: Limits, kind: object) -> object:
        def read(record: object) -> object:
            return limits.read(record, "record", limits.settings, words)

        return Annotated[limits.record, BeforeValidator(read)]

    return Limit(narrowed)


def whole(least: int) -> Limit:
    """A whole number up to the largest k."""
    return Limit(lambda limits, kind: Annotated[kind, Field(ge=least, le=limits.settings.most)])


class Predict(Body):
    """Records to be answered."""

    records: Annotated[list[object], many("records", "words")]
    k: Annotated[int, whole(1)] = Field(10, description="number of choices per record")
    evidence: bool = Field(True, description="whether each choice comes with its attributions")


class Explain(Body):
    """Records whose answers are to be explained."""

    records: Annotated[list[object], many("explained", "explained_words")]
    k: Annotated[int, whole(1)] = Field(3, description="number of choices per record")


class Figure(Body):
    """A record, and which choice of its answer is to be drawn."""

    record: Annotated[object, one("explained_words")]
    k: Annotated[int, whole(1)] = Field(5, description="number of choices in the answer")
    choice: Annotated[int, whole(0)] = Field(0, description="index of the drawn choice, from 0")


class Update(Body):
    """Records to be learned."""

    records: Annotated[list[object], many("learned", "words")]
    max_drop: float = Field(
        MAX_DROP,
        ge=0,
        lt=1,
        description="refuse the update if the metric it is tested by falls by more than this share; above "
        f"{MAX_DROP:g} it needs the update token",
    )
    test: bool = Field(True, description="whether the update is tested first; false needs the update token")

    @property
    def empty(self) -> bool:
        """Whether there is nothing to learn."""
        return not self.records


class Bodies(NamedTuple):
    """The bodies of a task."""

    predict: type[Predict] = Predict
    explain: type[Explain] = Explain
    figure: type[Figure] = Figure
    update: type[Update] = Update


def limited(name: str, body: type[BodyType], limits: Limits) -> type[BodyType]:
    """A body within the limits of a service."""
    fields: dict[str, tuple[object, object]] = {}
    for key, field in body.model_fields.items():
        for limit in field.metadata:
            if isinstance(limit, Limit):
                kind = limit.narrowed(limits, field.annotation)
                kind = Annotated[kind, Field(description=field.description)] if field.description else kind
                most = limits.settings.most
                fields[key] = kind, min(field.default, most) if isinstance(field.default, int) else field.default
    return create_model(name, __base__=body, **fields)  # type: ignore[call-overload,no-any-return]


def read(body: type[BodyType], decoded: object, where: str = "") -> BodyType:
    """A decoded body.

    Raises:
        DataError: naming ``where``, the field and what to do.
    """
    try:
        return body.model_validate(decoded)
    except ValidationError as error:
        wrong = [(own["type"], own["loc"]) for own in error.errors(include_url=False, include_context=False)]
    place = f"{where}: " if where else ""
    if not wrong[0][1]:
        return _refuse(f"{place or 'the body '}must be an object such as {body.example()}")
    fields = {field.alias or name: field for name, field in body.model_fields.items()}
    if unknown := sorted(str(loc[0]) for kind, loc in wrong if kind == "extra_forbidden"):
        known = ", ".join(fields)
        return _refuse(f"{place}field {unknown[0][:64]!r} is not known; {body.called} has {known}")
    kind, loc = min(wrong, key=lambda own: own[0] != "missing")
    name = str(loc[0])
    field = f'field "{name}"' if len(loc) == 1 else f"{name}[{loc[1]}]"
    if kind == "missing":
        return _refuse(f"{place}{field} is missing")
    return _refuse(f"{place}{field} must be {_needed(kind, fields[name])}")


NEEDED = {"bool_type": "true or false", "list_type": "a list", "string_type": "a text", "string_too_short": "a text"}
"""Of pydantic's kinds of errors, what is needed instead."""


def _needed(kind: str, field: FieldInfo) -> str:
    bounds = {type(bound): bound for bound in field.metadata}
    if Lt in bounds:
        return f"a share in [{bounds[Ge].ge:g}, {bounds[Lt].lt:g})"
    if Le in bounds:
        return f"a whole number from {bounds[Ge].ge} to {bounds[Le].le}"
    return NEEDED.get(kind) or f"{field.description}"


def _refuse(sentence: str) -> NoReturn:
    raise DataError(sentence)
