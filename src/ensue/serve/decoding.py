"""Bodies of requests as bytes: read up to a limit, and decoded. Whatever is wrong has a message."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

from starlette.requests import ClientDisconnect, Request

from ensue.data.encodings import mend_halves
from ensue.serve.problems import Problem
from ensue.serve.settings import ServeSettings

Read = TypeVar("Read")
LARGE = 2**14
"""Bytes from which a body is read in a thread, so that the others do not wait for it."""
KEY_LENGTH = 255
"""Characters of an Idempotency-Key."""
_READING = ThreadPoolExecutor(1, "ensue-bodies")  # one large body at a time: more would only wait for each other
NESTED = (dict, list)  # a tuple: looked at a million times for one body, and a union is made anew each time
JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl")


async def read_body(request: Request, limit: int, patience: float) -> bytes:
    """The bytes of a body.

    Raises:
        Problem: too large, too slow, or of another type than JSON.
    """
    kind = request.headers.get("content-type", JSON_TYPES[0]).split(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise Problem(415, "the body is not JSON by its Content-Type", "send Content-Type: application/json")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
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


async def read_json(request: Request, settings: ServeSettings, limit: int, then: Callable[[object], Read]) -> Read:
    """What a body says, decoded and read by ``then``.

    Raises:
        Problem: it is not JSON in UTF-8, too deep, or has too many parts.
        DataError: of ``then``.
    """
    return await read_apart(await read_body(request, limit, settings.patience), settings, then)


async def read_apart(body: bytes, settings: ServeSettings, then: Callable[[object], Read]) -> Read:
    """What the bytes of a body say, as :func:`read_json`."""

    def read() -> Read:
        return then(decode(body, settings.depth, settings.parts))

    if len(body) > LARGE:
        return await asyncio.get_running_loop().run_in_executor(_READING, read)
    return read()


def decode(body: bytes, depth: int, parts: int) -> object:
    """Bytes as JSON; half a character becomes U+FFFD.

    Raises:
        Problem: not UTF-8, not JSON, too deep, of more parts, or with a field twice.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > parts:
        raise Problem(413, f"the body has more than {parts:,} values, lists and objects", "send it in parts")
    try:
        text = mend_halves(body)[0][:].decode("utf-8")
        decoded = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8 ({error.reason} at byte {error.start})", "send UTF-8") from None
    except RecursionError:
        raise _too_deep(depth) from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON ({error})") from None
    level, left = [decoded], depth
    while level:
        inner = [value for value in level if isinstance(value, NESTED)]
        if inner and not left:
            raise _too_deep(depth)
        level = [part for value in inner for part in (value.values() if isinstance(value, dict) else value)]
        left -= 1
    return decoded


def read_key(headers: Sequence[str]) -> str:
    """``Idempotency-Key``, with or without the quotes of a structured field; empty where there is none.

    Raises:
        Problem: 400.
    """
    if not headers:
        return ""
    key = headers[0].strip()
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if len(headers) > 1 or not 0 < len(key) <= KEY_LENGTH or not (key.isascii() and key.isprintable()):
        raise Problem(400, f"Idempotency-Key must be one text of 1 to {KEY_LENGTH} ASCII characters", "send a new UUID")
    return key


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object without a field twice, of which one would be lost without a word."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {Counter(names).most_common(1)[0][0][:64]!r} appears twice in an object")
    return fields


def _too_large(limit: int) -> Problem:
    return Problem(413, f"the body is larger than {limit:,} bytes", "send it in parts")


def _too_deep(depth: int) -> Problem:
    return Problem(400, f"lists or objects are nested more than {depth} deep")


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinity, which JSON does not have."""
    raise ValueError(f"{name} is not a number of JSON")
