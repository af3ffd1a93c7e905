"""A JSON array of objects as JSON Lines: one object at a time is decoded, and none is kept."""

from __future__ import annotations

import json
import re

from ensue.data.file_bytes import FileBytes
from ensue.errors import DataError
from ensue.lines import plural, quoted

_BEGINS = re.compile(r"\s*\[\s*(?=\{)")
_BETWEEN = re.compile(r"\s*,\s*(?=\{)|\s*\](?=\s*\Z)")
_HEAD = 2**10


def json_lines_of(path: object, text: bytes | FileBytes) -> tuple[bytes, str] | None:
    """The objects of an array a line each, and a note; ``None`` of anything else.

    Args:
        path: the file, for messages.
        text: UTF-8.

    Raises:
        DataError: it begins as an array of objects does, and is no JSON.
    """
    if _BEGINS.match(text[:_HEAD].decode("utf-8", "replace")) is None:
        return None
    whole = text[:].decode("utf-8", "replace")
    decoder, lines = json.JSONDecoder(), list[str]()
    between = _BEGINS.match(whole)
    assert between is not None
    while whole[between.end() - 1] != "]":
        begin = between.end()
        try:
            _, end = decoder.raw_decode(whole, begin)
        except (ValueError, RecursionError):
            _require_json(path, whole)
            return None
        # Within a text a line never ends: JSON writes that as \n.
        lines.append(re.sub(r"[\r\n]+", " ", whole[begin:end]))
        between = _BETWEEN.match(whole, end)
        if between is None:
            _require_json(path, whole)
            return None
    note = f"a JSON array of {plural(len(lines), 'record')}: line numbers in messages are record numbers"
    return "\n".join(lines).encode("utf-8"), note


def _require_json(path: object, whole: str) -> None:
    """Say what is wrong, if anything is: the array may hold other things than objects."""
    try:
        json.loads(whole)
    except (ValueError, RecursionError) as error:
        why = quoted(error)
        raise DataError(f"{path}: is not JSON ({why}); give JSON Lines, or one document") from error
