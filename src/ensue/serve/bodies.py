"""Bodies of requests: read up to a limit, decoded, and checked; whatever is wrong has a message.

A body says its shape once, as a pydantic model; next to the type of a field stands a :class:`Limit`, from which
:func:`limited` takes what a service allows, and FastAPI's document is written from the result. Records keep the
library's own readers, so that a service says of a record what the library says of it. What pydantic refuses is said in
the words of the library, by :func:`read` alone. A record that would hold a model for long is refused before the model
sees it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import GenericAlias
from typing import Annotated, ClassVar, NamedTuple, NoReturn, TypeAlias, TypeVar

from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, create_model
from pydantic.fields import FieldInfo
from starlette.requests import ClientDisconnect, Request

from ensue.arguments import id_list
from ensue.data.encodings import mend_halves
from ensue.errors import DataError
from ensue.lines import refuse_number
from ensue.records import History, Post, Text
from ensue.refresh import MAX_DROP
from ensue.serve.problems import RequestError
from ensue.serve.settings import ServeSettings

AnyRecord: TypeAlias = History | Text | Post
Read = TypeVar("Read")
LARGE = 2**14
"""Bytes from which a body is read in a thread, so that the others do not wait for it."""
KEY_LENGTH = 255
"""Characters of an Idempotency-Key."""
_READING = ThreadPoolExecutor(1, "ensue-bodies")  # one large body at a time: more would only wait for each other
NESTED = (dict, list)  # a tuple: looked at a million times for one body, and a union is made anew each time
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""A name that can be a part of an address and of a file."""
JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl")


async def read_body(request: Request, limit: int, patience: float) -> bytes:
    """Return the bytes of a body.

    Raises:
        RequestError: too large, too slow, or of another type than JSON.
    """
    # A browser sends text/plain without asking the service first, so a page of somebody else cannot send JSON.
    kind = request.headers.get("content-type", JSON_TYPES[0]).split(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise RequestError(415, "the body is not JSON by its Content-Type", "send Content-Type: application/json")
    # Refused before a byte of it is read; a body without a length is counted as it comes.
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    chunks = []
    size = 0
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {patience:g} s") from None
    except ClientDisconnect:
        raise RequestError(400, "the client went away") from None
    return b"".join(chunks)


async def read_request(request: Request, settings: ServeSettings, kind: type[BodyType]) -> BodyType:
    """Return the body of a request that asks something.

    Raises:
        RequestError: it is not JSON in UTF-8, too large, too deep, or has too many parts.
        DataError: naming the field and what to do.
    """
    body = await read_body(request, settings.body_bytes, settings.patience)
    return await read_apart(body, settings, partial(read, kind))


async def read_apart(body: bytes, settings: ServeSettings, then: Callable[[object], Read]) -> Read:
    """Decode the bytes of a body and read them by ``then``; large ones in a thread.

    Raises:
        RequestError: it is not JSON in UTF-8, too deep, or has too many parts.
        DataError: of ``then``.
    """
    # To another thread and back takes longer than a small body does.
    if len(body) <= LARGE:
        return then(decode(body, settings.depth, settings.body_values))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_READING, lambda: then(decode(body, settings.depth, settings.body_values)))


def decode(body: bytes, depth: int, max_values: int) -> object:
    """Decode JSON; half a character becomes U+FFFD.

    Raises:
        RequestError: not UTF-8, not JSON, too deep, of more parts, or with a field twice.
    """
    # Counted in the bytes: Python objects of a body take many times its memory.
    if sum(map(body.count, (b",", b"[", b"{"))) > max_values:
        raise RequestError(413, f"the body has more than {max_values:,} values, lists and objects", "send it in parts")
    try:
        text = mend_halves(body)[0][:].decode("utf-8")
        decoded = json.loads(text, parse_constant=refuse_number, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the body is not UTF-8 ({error.reason} at byte {error.start})", "send UTF-8") from None
    except RecursionError:
        raise _too_deep(depth) from None
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON ({error})") from None
    level = [decoded]
    depth_left = depth
    while level:
        # Level by level, not by recursion: depth is what is limited.
        inner = [value for value in level if isinstance(value, NESTED)]
        if inner and not depth_left:
            raise _too_deep(depth)
        level = [element for value in inner for element in (value.values() if isinstance(value, dict) else value)]
        depth_left -= 1
    return decoded


def read_key(headers: Sequence[str]) -> str:
    """``Idempotency-Key``, with or without the quotes of a structured field; empty where there is none.

    Raises:
        RequestError: 400.
    """
    if not headers:
        return ""
    key = headers[0].strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(headers) > 1 or not 0 < len(key) <= KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise RequestError(
            400, f"Idempotency-Key must be one text of 1 to {KEY_LENGTH} ASCII characters", "send a new UUID"
        )
    return key


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; refuse a field that appears twice, of which one value would be lost silently."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {Counter(names).most_common(1)[0][0][:64]!r} appears twice in an object")
    return fields


def _too_large(limit: int) -> RequestError:
    return RequestError(413, f"the body is larger than {limit:,} bytes", "send it in parts")


def _too_deep(depth: int) -> RequestError:
    return RequestError(400, f"lists or objects are nested more than {depth} deep")


class Limits(NamedTuple):
    """The limits of a task's bodies: settings of the service, the task's record and its reader."""

    settings: ServeSettings
    record: type = object
    read: Callable[[object, str, ServeSettings, str], object] = lambda record, location, settings, words: record
    """Takes a decoded record, where it stands, and the settings with the name of the one that limits its words."""


@dataclass(frozen=True)
class Limit:
    """Annotation of a field: makes the checked type from the field's type and a service's limits."""

    narrowed: Callable[[Limits, object], object]


class Body(BaseModel):
    """An object of JSON whose fields are known; an integer is no text, and a truth value is no number."""

    model_config = ConfigDict(strict=True, extra="forbid")
    called: ClassVar[str] = "a body"

    @classmethod
    def example(cls) -> str:
        """Return the smallest valid body, for error messages."""
        return f'{{"{next(iter(cls.model_fields))}": …}}'


BodyType = TypeVar("BodyType", bound=Body)


def record_list(limit_name: str, words: str) -> Limit:
    """Return the limit of a list of records: their number by one setting, their words by another."""

    def narrowed(limits: Limits, kind: object) -> object:
        settings = limits.settings
        limit: int = getattr(settings, limit_name)

        def read(records: object) -> object:
            if not isinstance(records, list):
                return records  # which is refused as no list
            if len(records) > limit:
                raise DataError(f"{len(records)} records exceed the limit of {limit} per request; send them in parts")
            return [limits.read(record, f"records[{at}]", settings, words) for at, record in enumerate(records)]

        description = (
            f"a history has at most {settings.history:,} values of {settings.value_characters:,} characters, a text or "
            f"post {getattr(settings, words):,} words and {settings.characters:,} characters"
        )
        checks = Field(max_length=limit, description=description), BeforeValidator(read)
        return Annotated[GenericAlias(list, (limits.record,)), *checks]

    return Limit(narrowed)


def single_record(words: str) -> Limit:
    """Return the limit of one record, whose words a setting limits."""

    def narrowed(limits: Limits, kind: object) -> object:
        def read(record: object) -> object:
            return limits.read(record, "record", limits.settings, words)

        return Annotated[limits.record, BeforeValidator(read)]

    return Limit(narrowed)


def integer(minimum: int) -> Limit:
    """Return the limit of a whole number, up to the largest k."""
    return Limit(lambda limits, kind: Annotated[kind, Field(ge=minimum, le=limits.settings.max_k)])


def _texts_of_ids(ids: object, field: ValidationInfo) -> object:
    """Return the ids of a list as texts, as those of a history; what is no list is refused as such."""
    return [*id_list(ids, field.field_name or "ids")] if isinstance(ids, list) else ids


Ids = Annotated[list[str], BeforeValidator(_texts_of_ids)]


item_list = Limit(lambda limits, kind: Annotated[kind, Field(max_length=limits.settings.records)])
"""The limit of a list of items: the number of records of a request."""


class Predict(Body):
    """Records to be answered."""

    records: Annotated[list[AnyRecord], record_list("records", "words")]
    k: Annotated[int, integer(1)] = Field(10, description="number of choices per record")
    evidence: bool = Field(True, description="whether each choice comes with its attributions")


class Explain(Body):
    """Records whose answers are to be explained."""

    records: Annotated[list[AnyRecord], record_list("explained", "explained_words")]
    k: Annotated[int, integer(1)] = Field(3, description="number of choices per record")


class Figure(Body):
    """A record, and which choice of its answer is to be drawn."""

    record: Annotated[AnyRecord, single_record("explained_words")]
    k: Annotated[int, integer(1)] = Field(5, description="number of choices in the answer")
    choice: Annotated[int, integer(0)] = Field(0, description="index of the drawn choice, from 0")


class Update(Body):
    """Records to train on."""

    records: Annotated[list[AnyRecord], record_list("update_records", "words")]
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
        """True where there is nothing to train on."""
        return not self.records


class Similar(Body):
    """Items whose most similar ones are asked for."""

    items: Annotated[Ids, item_list] = Field(description="a list of ids")
    k: Annotated[int, integer(1)] = Field(10, description="number of similar items per item")


class Bodies(NamedTuple):
    """The bodies of a task."""

    predict: type[Predict] = Predict
    explain: type[Explain] = Explain
    figure: type[Figure] = Figure
    update: type[Update] = Update
    similar: type[Similar] | None = None
    """``None`` of a task that compares nothing."""


def limited(name: str, body: type[BodyType], limits: Limits) -> type[BodyType]:
    """Return the model of a body within the limits of a service."""
    fields: dict[str, tuple[object, object]] = {}
    for key, field in body.model_fields.items():
        for limit in field.metadata:
            if isinstance(limit, Limit):
                kind = limit.narrowed(limits, field.annotation)
                kind = Annotated[kind, Field(description=field.description)] if field.description else kind
                max_k = limits.settings.max_k
                fields[key] = kind, min(field.default, max_k) if isinstance(field.default, int) else field.default
    return create_model(name, __base__=body, **fields)  # type: ignore[call-overload]


def read(body: type[BodyType], decoded: object, location: str = "") -> BodyType:
    """Return a decoded body.

    Raises:
        DataError: naming ``location``, the field and what to do.
    """
    try:
        return body.model_validate(decoded)
    except ValidationError as error:
        # The input is left out: it may be personal, and large.
        wrong = [(detail["type"], detail["loc"]) for detail in error.errors(include_url=False, include_context=False)]
    prefix = f"{location}: " if location else ""
    if not wrong[0][1]:
        return _refuse(f"{prefix or 'the body '}must be an object such as {body.example()}")
    fields = {field.alias or name: field for name, field in body.model_fields.items()}
    if unknown := sorted(str(loc[0]) for kind, loc in wrong if kind == "extra_forbidden"):
        names = ", ".join(fields)
        return _refuse(f"{prefix}field {unknown[0][:64]!r} is not known; {body.called} has {names}")
    # A missing field explains the others.
    kind, loc = min(wrong, key=lambda pair: pair[0] != "missing")
    name = str(loc[0])
    field = f'field "{name}"' if len(loc) == 1 else f"{name}[{loc[1]}]"
    if kind == "missing":
        return _refuse(f"{prefix}{field} is missing")
    return _refuse(f"{prefix}{field} must be {_needed(kind, fields[name])}")


NEEDED = {"bool_type": "true or false", "list_type": "a list", "string_type": "a text", "string_too_short": "a text"}
"""Kind of pydantic's error -> what a field must be."""


def _needed(kind: str, field: FieldInfo) -> str:
    bounds = {type(bound): bound for bound in field.metadata}
    if Lt in bounds:
        return f"a share in [{bounds[Ge].ge:g}, {bounds[Lt].lt:g})"
    if Le in bounds:
        return f"a whole number from {bounds[Ge].ge} to {bounds[Le].le}"
    return NEEDED.get(kind) or f"{field.description}"


def _refuse(sentence: str) -> NoReturn:
    raise DataError(sentence)


_WORD = re.compile(r"\w+|[^\w\s]")


def texts_of(record: AnyRecord) -> Sequence[str]:
    """Return what may be long of a record: its items or queries, its texts, or its text."""
    if isinstance(record, History):
        return record.values
    return record.texts if isinstance(record, Text) else (record.text,)


def load_of(record: AnyRecord) -> int:
    """Return roughly what a record costs: its words and items, and something for being one at all."""
    texts = texts_of(record)
    # Spaces stand for words: to split long texts would take as long as to answer short ones.
    return 20 + len(texts) + sum(text.count(" ") for text in texts)


def require_short(record: AnyRecord, location: str, settings: ServeSettings, words: str) -> None:
    """Refuse a record that would hold a model for long.

    Args:
        record: a session is limited by its items, anything else by its texts.
        location: where it stands in the body.
        settings: the limits.
        words: the setting that limits the words of texts.

    Raises:
        DataError: naming ``location``, what is too long and the limit.
    """
    if isinstance(record, History):
        require_short_history(record, location, settings)
    else:
        _require_short_texts(texts_of(record), location, settings, words)


def require_short_history(record: History, location: str, settings: ServeSettings) -> None:
    """Refuse a history of too many values, or with one that is too long.

    Raises:
        DataError: naming ``location``, what is too long and the limit.
    """
    if len(record.values) > settings.history:
        raise DataError(
            f"{location}: {len(record.values)} values are more than the {settings.history} of a history; send the "
            "latest"
        )
    if (longest := max(map(len, record.values), default=0)) > settings.value_characters:
        raise too_long(location, longest, "characters", settings.value_characters, "a value", "value_characters")


def _require_short_texts(texts: Sequence[str], location: str, settings: ServeSettings, words: str) -> None:
    """Refuse texts of too many characters, or of more words than the setting ``words`` allows."""
    if (size := sum(map(len, texts))) > settings.characters:
        raise too_long(location, size, "characters", settings.characters, "a record", "characters")
    limit: int = getattr(settings, words)
    if (count := sum(len(_WORD.findall(text)) for text in texts)) > limit:
        raise too_long(location, count, "words", limit, "a record", words)


def too_long(location: str, size: int, unit: str, limit: int, thing: str, setting: str) -> DataError:
    """Return the error of something too long, naming the setting that would let it pass."""
    return DataError(
        f"{location}: {size:,} {unit} are more than the {limit:,} of {thing}; shorten it, or start the service with "
        f"--set {setting}=N"
    )
