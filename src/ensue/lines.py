"""Records as lines of JSON, and texts of strangers and counts in lines for people."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import cache
from typing import NoReturn, Protocol

CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]"
)
"""Characters that can steer a terminal or turn a line of text round, and code points that are no character."""

QUOTED = 200
"""Characters of a cell that an error quotes, at most."""

CREDENTIALS = re.compile(r"(://|\b(?:rediss?|unix|kafka):/{0,2})\S*@")
"""User and password of an address, which may lack slashes."""
SECRETS = re.compile(r"(?i)([?&][^=&?\s]*(?:pass|pwd|secret|token)[^=&?\s]*=)[^&\s]+")
"""A field of an address's query that holds a password."""
MAX_DEPTH = 32
"""Lists and objects inside each other that a JSON file of ours holds, at most."""
# Half of a surrogate pair, as JSON escapes it: a decoder accepts it alone, and no encoder does.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Slotted(Protocol):
    """A dataclass with slots."""

    __slots__: tuple[str, ...]


def line_of(record: Slotted, always: str | None = None) -> str:
    """Return one line of JSON of a dataclass with slots, and of those inside it.

    Args:
        record: what to write.
        always: leave out every empty field but this one; ``None`` writes all.
    """
    fields = _fields(record)
    if always is not None:
        fields = {name: value for name, value in fields.items() if value or name == always}
    return _ENCODER.encode(fields)


def _fields(record: Slotted) -> dict[str, object]:
    """Return the fields of a record; a title only where there is one, for most models know none."""
    fields = {name: getattr(record, name) for name in _slots(type(record))}
    if not fields.get("title", True):
        del fields["title"]
    return fields


@cache
def _slots(kind: type[Slotted]) -> tuple[str, ...]:
    """Return the names of the fields of a class, those of its bases first."""
    return tuple(name for base in reversed(kind.__mro__) for name in getattr(base, "__slots__", ()))


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_fields)


def decode_json(data: bytes) -> object:
    """Decode JSON of a stranger, strictly.

    Args:
        data: a whole document, in UTF-8.

    Returns:
        The value; its numbers are finite, its whole numbers fit 64 bits, and its texts can be encoded.

    Raises:
        ValueError: anything else, an object with a field twice, or more than ``MAX_DEPTH`` levels.
    """
    text = data.decode()
    try:
        value = json.loads(
            text, parse_constant=refuse_number, parse_float=_finite, parse_int=_int64, object_pairs_hook=_distinct
        )
    except RecursionError:
        raise ValueError("nested too deep") from None
    if _HALF.search(text):  # an escape of half a character, which no file and no terminal takes
        json.dumps(value, ensure_ascii=False).encode()
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        containers = [member for member in level if isinstance(member, dict | list)]
        # One level deeper: the members of all lists and objects of this level.
        level = [
            member
            for container in containers
            for member in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return value
    raise ValueError("nested too deep")


def refuse_number(text: str) -> NoReturn:
    """Refuse NaN, infinity and numbers beyond 64 bits, which JSON does not have or not everybody reads.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{text} is not a number of JSON")


def _finite(text: str) -> float:
    return number if math.isfinite(number := float(text)) else refuse_number(text)


def _int64(text: str) -> int:
    # 20 characters hold any number of 64 bits; longer ones would be slow to read.
    return number if len(text) <= 20 and -(2**63) <= (number := int(text)) < 2**63 else refuse_number(f"{text[:20]}…")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("an object has a field twice")
    return fields


def printable(text: str) -> str:
    """Return a text as a terminal or a table may show it.

    Newlines and tabs stay; everything else that could steer a terminal becomes its escape.
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return CONTROLS.sub(lambda match: repr(match[0])[1:-1], plain)


def printable_line(text: str) -> str:
    """Return a text as a terminal may show it in one line; the name of a file may hold a newline, too."""
    return printable(text).replace("\n", "\\n")


def without_credentials(text: str) -> str:
    """Return a text with the users, passwords and tokens of its addresses replaced by ``***``.

    Example:
        >>> from ensue.lines import without_credentials
        >>> without_credentials("redis://ann:secret@10.0.0.5/0?stream=clicks")
        'redis://***@10.0.0.5/0?stream=clicks'
    """
    return SECRETS.sub(r"\1***", CREDENTIALS.sub(r"\1***@", text))


def printable_message(text: str) -> str:
    """Return a message as a terminal may show it in one line, without users and passwords of addresses."""
    return printable_line(without_credentials(text))


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as ``2,000 articles``; ``many`` is a plural that takes no s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def part_of(count: int, whole: int, name: str, one: str, many: str, *, of: str = "", percent: bool = False) -> str:
    """Return a part of a whole with noun and verb, such as ``1 of 48 rows has`` or ``2 of 48 rows have``.

    Args:
        count: how many.
        whole: of how many.
        name: what one of them is called.
        one: the verb of a single one.
        many: the verb of several.
        of: where they are, if not in the file at hand.
        percent: whether the share stands there, too.
    """
    percentage = f" ({100 * count / whole:.1f} %)" if percent else ""
    location = f" of {of}" if of else ""
    noun = name if whole == 1 else f"{name}s"
    return f"{count:,} of {whole:,}{percentage} {noun}{location} {one if count == 1 else many}"


def one_line(text: str, most: int = QUOTED) -> str:
    """Return a text on one line, cut where it is long, controls as escapes."""
    return repr(cut(text, most))[1:-1]


def quoted(value: object, most: int = QUOTED) -> str:
    """Return the quotation of a cell in an error: a text in quotes, other values as they print, on one line."""
    return repr(cut(value, most)) if isinstance(value, str) else one_line(str(value), most)


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, an ellipsis at its end where it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return the first names of columns, each quoted, as an error lists them."""
    all_names = list(names)
    remainder = f", … ({len(all_names):,} in all)" if len(all_names) > most else ""
    return ", ".join(quoted(name, 60) for name in all_names[:most]) + remainder
