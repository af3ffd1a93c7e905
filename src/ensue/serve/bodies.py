"""Bodies of requests: read up to a limit, decoded, and turned into records. Whatever is wrong has a message."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn, TypeVar

from starlette.requests import ClientDisconnect, Request

from ensue.data.encodings import mend_halves
from ensue.errors import DataError
from ensue.lines import plural
from ensue.records import History
from ensue.serve import tasks
from ensue.serve.problems import Problem
from ensue.serve.settings import ServeSettings

Read = TypeVar("Read")
LARGE = 2**14
"""Bytes from which a body is read in a thread, so that the others do not wait for it."""
KEY_LENGTH = 255
"""Characters of an Idempotency-Key."""
_READING = ThreadPoolExecutor(1, "ensue-bodies")  # one large body at a time: more would only wait for each other
_WORD = re.compile(r"\w+|[^\w\s]")
NESTED = (dict, list)  # a tuple: looked at a million times for one body, and a union is made anew each time
JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl")


class Asked(NamedTuple):
    """What a body asks.

    Attributes:
        records: of the model's task; of ``suggest`` with their prefixes.
        k: choices an answer.
        evidence: whether to say what each choice leaned on.
    """

    records: list[Any]
    k: int
    evidence: bool = True


async def read_body(request: Request, limit: int, patience: float) -> bytes:
    """The bytes of a body.

    Raises:
        Problem: too large, too slow, or of another type than JSON.
    """
    kind = request.headers.get("content-type", JSON_TYPES[0]).split(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise Problem(415, "the body is not JSON by its Content-Type", "send Content-Type: application/json")
    given = request.headers.get("content-length", "")
    if given.isdecimal() and int(given) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    try:
        async with asyncio.timeout(patience):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {patience:g} s") from None
    except ClientDisconnect:
        raise Problem(400, "the client went away") from None
    return b"".join(parts)


async def read_json(
    request: Request, settings: ServeSettings, limit: int, then: Callable[[Any], Read] = lambda found: found
) -> Read:
    """What a body says, decoded and read by ``then``.

    Raises:
        Problem: it is not JSON in UTF-8, too deep, or has too many parts.
        DataError: of ``then``.
    """
    return await read_apart(await read_body(request, limit, settings.patience), settings, then)


async def read_apart(body: bytes, settings: ServeSettings, then: Callable[[Any], Read]) -> Read:
    """What the bytes of a body say, as :func:`read_json`."""

    def read() -> Read:
        return then(decode(body, settings.depth, settings.parts))

    if len(body) > LARGE:
        return await asyncio.get_running_loop().run_in_executor(_READING, read)
    return read()


def decode(body: bytes, depth: int, parts: int) -> Any:
    """Bytes as JSON; half a character becomes U+FFFD.

    Raises:
        Problem: not UTF-8, not JSON, too deep, of more parts, or with a field twice.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > parts:
        raise Problem(413, f"the body has more than {parts:,} values, lists and objects", "send it in parts")
    try:
        text = bytes(mend_halves(body)[0]).decode("utf-8")
        found = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8 ({error.reason} at byte {error.start})", "send UTF-8") from None
    except RecursionError:
        raise _too_deep(depth) from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON ({error})") from None
    level, left = [found], depth
    while level:
        inner = [value for value in level if isinstance(value, NESTED)]
        if inner and not left:
            raise _too_deep(depth)
        level = [part for value in inner for part in (value.values() if isinstance(value, dict) else value)]
        left -= 1
    return found


def fields_of(found: Any, known: Collection[str], needed: str) -> dict[str, Any]:
    """A decoded body, which must be an object with one field at least and none that is not known.

    Raises:
        DataError: it is not.
    """
    if not isinstance(found, dict):
        raise DataError(f'the body must be an object such as {{"{needed}": …}}')
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise DataError(f"field {unknown[0][:64]!r} is not known; a body has {', '.join(known)}")
    if needed not in found:
        raise DataError(f'field "{needed}" is missing')
    return found


def read_asked(found: Any, task: str, settings: ServeSettings, *, verb: str = "predict") -> Asked:
    """The records of a body, checked one by one.

    Raises:
        DataError: naming the record, the field and what to do.
    """
    known = ["records", "k", *(["evidence"] if verb == "predict" else [])]
    if task == "suggest" and verb == "predict":
        known += ["prefix", "prefixes"]
    body = fields_of(found, known, "records")
    limit, words = settings.records, settings.words
    if verb == "explain":
        limit, words = settings.explained, settings.explained_words
    records = read_records(body["records"], task, limit, settings.history)
    for at, record in enumerate(records):
        require_short(record, f"records[{at}]", words, settings)
    evidence = body.get("evidence", True)
    if not isinstance(evidence, bool):
        raise DataError('field "evidence" must be true or false')
    if task == "suggest" and verb == "predict":
        pairs = zip(records, _prefixes(body, len(records), settings.prefix), strict=True)
        records = [tasks.Typed(record, prefix) for record, prefix in pairs]
    return Asked(records, whole_number(body, "k", 10 if verb == "predict" else 3, settings.most), evidence)


def read_records(found: Any, task: str, limit: int, history: int) -> list[Any]:
    """Decoded records of a task.

    Raises:
        DataError: naming the record, the field and what to do.
    """
    if not isinstance(found, list):
        raise DataError('field "records" must be a list')
    if len(found) > limit:
        raise DataError(f"{len(found)} records are more than the {limit} a request may have; send them in parts")
    return [read_record(record, task, f"records[{at}]", history) for at, record in enumerate(found)]


def read_record(found: Any, task: str, where: str, history: int) -> Any:
    """One decoded record of a task.

    Raises:
        DataError: naming the record, the field and what to do.
    """
    record = tasks.read_record(task, found, where)
    if len(getattr(record, "values", ())) > history:
        raise DataError(
            f"{where}: {len(record.values)} values are more than the {history} of a history; send the latest"
        )
    return record


def require_short(record: Any, where: str, words: int, settings: ServeSettings) -> None:
    """Refuse a record that would hold the model for long.

    Raises:
        DataError: naming ``where``, what is too long and the limit.
    """
    texts = tasks.texts_of(record)
    if isinstance(record, History):
        if (longest := max(map(len, texts), default=0)) > settings.value_characters:
            raise _too_long(where, longest, "characters", settings.value_characters, "a value", "value_characters")
        return
    if (size := sum(map(len, texts))) > settings.characters:
        raise _too_long(where, size, "characters", settings.characters, "a record", "characters")
    if (count := sum(len(_WORD.findall(text)) for text in texts)) > words:
        name = "words" if words == settings.words else "explained_words"
        raise _too_long(where, count, "words", words, "a record", name)


def whole_number(body: dict[str, Any], name: str, default: int, most: int, least: int = 1) -> int:
    """A field that is a whole number within bounds.

    Raises:
        DataError: it is not.
    """
    value = body.get(name, min(default, most))
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise DataError(f'field "{name}" must be a whole number from {least} to {most}')
    return value


def read_key(given: Sequence[str]) -> str:
    """``Idempotency-Key``, with or without the quotes of a structured field; empty where there is none.

    Raises:
        Problem: 400.
    """
    if not given:
        return ""
    key = given[0].strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(given) > 1 or not 0 < len(key) <= KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise Problem(400, f"Idempotency-Key must be one text of 1 to {KEY_LENGTH} ASCII characters", "send a new UUID")
    return key


def read_prefix(found: Any, where: str, most: int) -> str:
    """What stands in the search box.

    Raises:
        DataError: it is no text, or too long.
    """
    if not isinstance(found, str):
        raise DataError(f"{where} must be a text")
    if len(found) > most:
        raise _too_long(where, len(found), "characters", most, "a prefix", "prefix")
    return found


def _prefixes(body: dict[str, Any], count: int, most: int) -> list[str]:
    if "prefixes" not in body:
        return [read_prefix(body.get("prefix", ""), 'field "prefix"', most)] * count
    found = body["prefixes"]
    if "prefix" in body:
        raise DataError('fields "prefix" and "prefixes" exclude each other; give one of the two')
    if not isinstance(found, list) or len(found) != count:
        raise DataError(f'field "prefixes" must be a list of {plural(count, "text")}, one a record')
    return [read_prefix(prefix, f"prefixes[{at}]", most) for at, prefix in enumerate(found)]


def _too_long(where: str, size: int, unit: str, most: int, thing: str, setting: str) -> DataError:
    return DataError(
        f"{where}: {size:,} {unit} are more than the {most:,} of {thing}; shorten it, or start the service with "
        f"--set {setting}=N"
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a field twice, of which one would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {Counter(names).most_common(1)[0][0][:64]!r} stands twice in an object")
    return found


def _too_large(limit: int) -> Problem:
    return Problem(413, f"the body is larger than {limit:,} bytes", "send it in parts")


def _too_deep(depth: int) -> Problem:
    return Problem(400, f"the body holds lists or objects more than {depth} deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
